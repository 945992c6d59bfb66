package bot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func TestAward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A sweep each second would be 86 400 of them in the day below.
		limiter := ration.New(memstore.New(&memstore.Options{SweepEvery: time.Hour}), nil)
		defer limiter.Close()
		var trouble error
		b := &Bot{Limiter: limiter, Give: func(context.Context, string, string) error { return trouble }}
		says := func(caller, member, want string) {
			t.Helper()
			reply, err := b.Award(t.Context(), "server", caller, member)
			if err != nil || !strings.HasPrefix(reply, want) {
				t.Errorf("%s to %s: %q %v, want %q", caller, member, reply, err, want)
			}
		}
		says("ada", "grace", "Awarded. 2 left")
		says("ada", "linus", "Try again <t:")
		says("bob", "grace", "Awarded. 1 left")

		// What was not given counts nowhere: neither for the member nor for the caller.
		trouble = errors.New("the database is down")
		if _, err := b.Award(t.Context(), "server", "eve", "grace"); !errors.Is(err, trouble) {
			t.Error(err)
		}
		trouble = nil
		says("eve", "grace", "Awarded. 0 left")
		says("tim", "grace", "They have all awards")
		says("tim", "linus", "Awarded. 2 left")
		if reply, err := b.Award(t.Context(), "", "ada", "grace"); err != nil || reply != "Awards are given in servers." {
			t.Error(reply, err)
		}

		time.Sleep(24 * time.Hour) // in a bubble this takes no time
		says("ada", "grace", "Awarded. 2 left")
	})
}
