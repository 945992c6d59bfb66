// Package bot is the award command of a Discord bot: a member may be given three awards a day, whoever gives them, and nobody
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

// Award gives member an award, and answers how many are left for today. A *cooldown.Refusal is for the caller to read; another
// error is the bot's own trouble, and nothing was counted.
func (b *Bot) Award(ctx context.Context, server, caller, member string) (left int64, err error) {
	give := func(ctx context.Context) error {
		// Not a cooldown of the caller: it counts who is given the award.
		d, err := b.Limiter.Take(ctx, ration.KeyOf(server, member), threeADay, 1)
		switch {
		case err != nil:
			return err
		case !d.Allowed:
			return &cooldown.Refusal{Message: "They have all awards of today. Try again " + cooldown.Timestamp(d.RetryAt()) + ".", RetryAt: d.RetryAt()}
		}
		if err := b.Give(ctx, server, member); err != nil {
			_, back := b.Limiter.Refund(ctx, ration.KeyOf(server, member), threeADay, 1, d.At)
			return errors.Join(err, back)
		}
		left = d.Remaining
		return nil
	}
	call := cooldown.Call{Command: "award", User: caller, Server: server}
	err = cooldown.Run(ctx, call, give,
		cooldown.ServerOnly("Awards are given in servers."),
		cooldown.New(b.Limiter, notSoFast, &cooldown.Options{Notice: tooFast}))
	return left, err
}

// tooFast is what those see who call too often, in place of a message.
func tooFast(d ration.Decision) any {
	return toCaller(fmt.Sprintf("Not so fast: again %s.", cooldown.Timestamp(d.RetryAt())))
}
