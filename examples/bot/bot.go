// Package bot is the award command of a chat bot: a member may be given three awards a day, whoever gives them, and nobody
// may call the command more often than once in five seconds.
package bot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/cooldown"
)

var (
	threeADay = ration.Rule{Name: "awards", Limit: ration.SlidingWindow{Limit: 3, Window: 24 * time.Hour}}
	notSoFast = ration.SlidingWindow{Limit: 1, Window: 5 * time.Second}
)

// Bot answers commands.
type Bot struct {
	Limiter *ration.Limiter
	Give    func(ctx context.Context, server, member string) error // writes the award down
}

// Award is what the bot replies to /award. An error is the bot's own trouble.
func (b *Bot) Award(ctx context.Context, server, caller, member string) (reply string, err error) {
	give := func(ctx context.Context) error {
		// Not a cooldown of the caller: it counts who is given the award.
		d, err := b.Limiter.Take(ctx, ration.KeyOf(server, member), threeADay, 1)
		switch {
		case err != nil:
			return err
		case !d.Allowed:
			return &cooldown.Refusal{Message: "They have all awards of today. Try again " + cooldown.Timestamp(d.RetryAt()) + "."}
		}
		if err := b.Give(ctx, server, member); err != nil {
			_, back := b.Limiter.Refund(ctx, ration.KeyOf(server, member), threeADay, 1, d.At)
			return errors.Join(err, back)
		}
		reply = fmt.Sprintf("Awarded. %d left today.", d.Remaining)
		return nil
	}
	call := cooldown.Call{Command: "award", User: caller, Server: server}
	err = cooldown.Run(ctx, call, give, cooldown.ServerOnly("Awards are given in servers."), cooldown.New(b.Limiter, notSoFast, nil))
	if no, ok := errors.AsType[*cooldown.Refusal](err); ok {
		return no.Message, nil
	}
	return reply, err
}
