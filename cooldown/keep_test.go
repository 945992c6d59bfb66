package cooldown_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/cooldown"
)

// A command that runs for longer than a reservation lives still gives back when it fails.
func TestLongCommandGivesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		gate := cooldown.New(l, ration.SlidingWindow{Limit: 1, Window: 24 * time.Hour}, nil)
		broken := errors.New("broken")
		err := cooldown.Run(ctx, call("a"), func(ctx context.Context) error {
			time.Sleep(time.Hour) // of the bubble's clock
			if ctx.Err() != nil {
				t.Error(context.Cause(ctx))
			}
			return broken
		}, gate)
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if err := cooldown.Run(ctx, call("a"), ran, gate); err != nil {
			t.Fatal("it was not given back:", err)
		}
	})
}

// A slot is held as long as its command runs, also if that does not look at its context, and not longer.
func TestSlotOfLongCommand(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		gate := cooldown.New(l, ration.Concurrency{Limit: 1, Lease: time.Second}, nil)
		gone, leave := context.WithCancel(ctx)
		err := cooldown.Run(gone, call("a"), func(ctx context.Context) error {
			leave()
			for range 100 {
				time.Sleep(time.Second)
				refused(t, cooldown.Run(context.WithoutCancel(ctx), call("a"), ran, gate))
			}
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Error(ctx.Err())
			}
			return nil
		}, gate)
		if err != nil {
			t.Fatal(err)
		}
		if err := cooldown.Run(ctx, call("a"), ran, gate); err != nil {
			t.Fatal(err)
		}
	})
}

// A command whose slot is lost is told so. One whose use is lost is not: it was counted.
func TestLostSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		key := ration.KeyOf("slots")
		options := &cooldown.Options{Key: func(cooldown.Call) (ration.Key, bool) { return key, true }}
		slots := ration.Rule{Name: "s", Limit: ration.Concurrency{Limit: 1, Lease: 3 * time.Second}}
		uses := ration.Rule{Name: "u", Limit: ration.SlidingWindow{Limit: 1, Window: time.Hour}}
		for _, c := range []struct {
			limit ration.Rule
			told  bool
		}{{slots, true}, {uses, false}} {
			counted := c.limit
			counted.Name = "cooldown-key." + c.limit.Name
			err := cooldown.Run(ctx, call("a"), func(ctx context.Context) error {
				if err := l.Reset(ctx, key, counted); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				if (ctx.Err() != nil) != c.told {
					t.Errorf("%s: the command's context: %v", c.limit.Name, context.Cause(ctx))
				}
				return nil
			}, cooldown.New(l, c.limit, options))
			if err != nil {
				t.Error(c.limit.Name, err)
			}
		}
	})
}

// A slot of a way that did not pass is nobody's concern.
func TestSlotOfAnotherWay(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		slot := cooldown.New(l, ration.Concurrency{Limit: 1, Lease: time.Second}, nil)
		never := cooldown.New(l, ration.SlidingWindow{Limit: 0, Window: time.Second}, nil)
		use := cooldown.New(l, ration.FixedWindow{Limit: 1, Window: time.Hour}, nil)
		err := cooldown.Run(ctx, call("a"), func(ctx context.Context) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		}, cooldown.Or(cooldown.And(slot, never), use))
		if err != nil {
			t.Fatal(err)
		}
	})
}
