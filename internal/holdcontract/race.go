package holdcontract

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/cooldown"
)

// race: of a hundred runs at once of a gate of one use exactly one passes, whatever the kind of its limit.
func (s *Subject) race(t *testing.T) {
	for name, limit := range map[string]ration.Limit{
		"sliding": ration.SlidingWindow{Limit: 1, Window: time.Hour},
		"fixed":   ration.FixedWindow{Limit: 1, Window: time.Hour},
		"bucket":  ration.TokenBucket{Burst: 1, Refill: ration.Every(time.Hour)},
		"budget":  ration.Budget{Limit: 1, Period: ration.Year, Month: (time.Now().Month()+5)%12 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			var passed, refused atomic.Int64
			ctx := deadline(t)
			failing := errors.New("the command failed")
			run := func(i int, command error) error {
				l := s.Limiter
				if s.Another != nil && i%2 == 1 {
					l = s.Another
				}
				gate := cooldown.New(l, ration.Rule{Name: name, Limit: limit}, nil)
				call := cooldown.Call{Command: "award", User: "of " + name}
				return cooldown.Run(ctx, call, func(context.Context) error { return command }, gate)
			}
			// Whoever fails gives back, so afterwards it is as new.
			if err := run(0, failing); !errors.Is(err, failing) {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					err := run(i, nil)
					if _, no := errors.AsType[*cooldown.Refusal](err); no {
						refused.Add(1)
					} else if err == nil {
						passed.Add(1)
					} else {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if passed.Load() != 1 || refused.Load() != 99 {
				t.Errorf("of 100 runs at once %d passed and %d were refused", passed.Load(), refused.Load())
			}
		})
	}
}
