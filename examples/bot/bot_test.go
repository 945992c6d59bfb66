package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

// interaction is /award as Discord sends it: in a server, or in a direct message if that is "".
func interaction(t *testing.T, server, caller, member string) *discordgo.Interaction {
	t.Helper()
	who := fmt.Sprintf(`"user": {"id": %q}`, caller)
	if server != "" {
		who = fmt.Sprintf(`"guild_id": %q, "member": {"user": {"id": %q}}`, server, caller)
	}
	text := fmt.Sprintf(`{"id": "1", "application_id": "2", "type": 2, "token": "t", "version": 1, "channel_id": "3", %s,
		"data": {"id": "4", "name": "award", "type": 1, "options": [{"name": "member", "type": 6, "value": %q}]}}`, who, member)
	i := new(discordgo.Interaction)
	if err := json.Unmarshal([]byte(text), i); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestAward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A sweep each second would be 86 400 of them in the day below.
		limiter := ration.New(memstore.New(&memstore.Options{SweepEvery: time.Hour}), nil)
		defer limiter.Close()
		var trouble error
		b := &Bot{Limiter: limiter, Give: func(context.Context, string, string) error { return trouble }}
		says := func(server, caller, member, want string, all bool) {
			t.Helper()
			answer, err := b.Answer(t.Context(), interaction(t, server, caller, member))
			if !errors.Is(err, trouble) || answer == nil {
				t.Fatalf("%s to %s: %v, %v", caller, member, answer, err)
			}
			if got := answer.Data; !strings.HasPrefix(got.Content, want) || (got.Flags != discordgo.MessageFlagsEphemeral) != all {
				t.Errorf("%s to %s: %q (flags %d), want %q", caller, member, got.Content, got.Flags, want)
			}
		}
		says("server", "ada", "grace", "<@grace> is awarded. 2 left", true)
		says("server", "ada", "linus", "Not so fast: again <t:946684805:R>", false) // bubbles begin in the year 2000
		says("server", "bob", "grace", "<@grace> is awarded. 1 left", true)

		// What was not given counts nowhere: neither for the member nor for the caller.
		trouble = errors.New("the database is down")
		says("server", "eve", "grace", "That did not work", false)
		trouble = nil
		says("server", "eve", "grace", "<@grace> is awarded. 0 left", true)
		says("server", "tim", "grace", "They have all awards", false)
		says("server", "tim", "linus", "<@linus> is awarded. 2 left", true)
		says("", "ada", "grace", "Awards are given in servers.", false)
		says("other", "zoe", "grace", "<@grace> is awarded. 2 left", true)

		time.Sleep(24 * time.Hour) // in a bubble this takes no time
		says("server", "ada", "grace", "<@grace> is awarded. 2 left", true)
	})
}

// Of a hundred who are awarded at once three are; of a hundred calls at once by one person one passes.
func TestRaces(t *testing.T) {
	for _, c := range []struct {
		callers int
		given   int
	}{{100, 3}, {1, 1}} {
		limiter := ration.New(memstore.New(nil), nil)
		given := make(chan string, 100)
		b := &Bot{Limiter: limiter, Give: func(_ context.Context, _, member string) error { given <- member; return nil }}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if _, err := b.Answer(t.Context(), interaction(t, "server", fmt.Sprint("u", i%c.callers), "grace")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(given) != c.given {
			t.Errorf("%d awards by %d callers at once, want %d", len(given), c.callers, c.given)
		}
		limiter.Close()
	}
}

func TestOtherInteractions(t *testing.T) {
	b := new(Bot)
	other := interaction(t, "server", "ada", "grace")
	other.Type = discordgo.InteractionMessageComponent
	if answer, err := b.Answer(t.Context(), other); answer != nil || err != nil {
		t.Error(answer, err)
	}
	nobody := interaction(t, "server", "ada", "")
	if answer, err := b.Answer(t.Context(), nobody); err != nil || answer.Data.Content != "Whom?" {
		t.Error(answer, err)
	}
	// It is made without a connection, and answers nothing by itself.
	s, err := discordgo.New("Bot token")
	if err != nil {
		t.Fatal(err)
	}
	b.Serve(s, func(error) {})()
}
