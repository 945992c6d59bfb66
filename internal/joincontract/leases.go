package joincontract

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// Leases tests leased rules over a store that open opens, each time for one more process. The stores are the Limiters'.
func Leases(t *testing.T, open func(t *testing.T) driver.Store) {
	t.Helper()
	const size, block = 400, 40
	far := (time.Now().Month()+5)%12 + 1 // no period ends in the time of a test
	for name, limit := range map[string]ration.Limit{
		"bucket":  ration.TokenBucket{Burst: size, Refill: ration.Every(24 * time.Hour)},
		"sliding": ration.SlidingWindow{Limit: size, Window: 24 * time.Hour},
		"fixed":   ration.FixedWindow{Limit: size, Window: 24 * time.Hour},
		"budget":  ration.Budget{Limit: size, Period: ration.Year, Month: far},
	} {
		rule := ration.Rule{Name: "leased-" + name, Limit: limit, Lease: block}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exactlyAll(t, open, rule)
		})
		t.Run(name+"/comes back", func(t *testing.T) {
			t.Parallel()
			comesBack(t, open, rule)
		})
	}
}

func process(t *testing.T, open func(t *testing.T) driver.Store) *ration.Limiter {
	l := ration.New(open(t), &ration.Options{Timeout: time.Minute})
	t.Cleanup(func() { l.Close() })
	return l
}

// exactlyAll: two processes admit what the limit has, and when they are closed, that is what is charged.
func exactlyAll(t *testing.T, open func(t *testing.T) driver.Store, rule ration.Rule) {
	const callers, enough = 4, 15
	key := ration.KeyOf("exactly", rule.Name)
	processes := []*ration.Limiter{process(t, open), process(t, open)}
	var admitted, size atomic.Int64
	var work sync.WaitGroup
	for c := range callers * len(processes) {
		l := processes[c%len(processes)]
		work.Go(func() {
			for refused := 0; refused < enough; {
				d, err := l.Take(t.Context(), key, rule, 1)
				size.Store(d.Limit)
				switch {
				case err != nil:
					t.Error(err)
					return
				case d.Used < 0 || d.Used > d.Limit:
					t.Errorf("%d used of %d", d.Used, d.Limit)
					return
				case d.Allowed:
					refused = 0
					if n := admitted.Add(1); n > d.Limit {
						t.Errorf("%d admitted of %d", n, d.Limit)
						return
					}
				default:
					refused++
					pause(t.Context(), 100*time.Millisecond) // what the other process has ahead comes back
				}
			}
		})
	}
	work.Wait()
	if n := admitted.Load(); n != size.Load() {
		t.Errorf("%d admitted of %d, though everybody asked again", n, size.Load())
	}
	charged(t, open, processes, key, rule, admitted.Load())
}

// comesBack: of a block that was used in part the rest goes back when its process ends.
func comesBack(t *testing.T, open func(t *testing.T) driver.Store, rule ration.Rule) {
	const uses = 23
	key := ration.KeyOf("back", rule.Name)
	l := process(t, open)
	for i := range uses {
		d, err := l.Take(t.Context(), key, rule, 1)
		if err != nil || !d.Allowed {
			t.Fatal(i, d, err)
		}
		if d, err = l.Peek(t.Context(), key, rule, 1); err != nil || d.Used < int64(i+1) || !d.Allowed {
			t.Fatalf("after %d uses a peek says %d used, %v", i+1, d.Used, err)
		}
	}
	charged(t, open, []*ration.Limiter{l}, key, rule, uses)
}

// charged closes processes and has another one look.
func charged(t *testing.T, open func(t *testing.T) driver.Store, processes []*ration.Limiter, key ration.Key, rule ration.Rule, want int64) {
	t.Helper()
	other := process(t, open)
	for _, l := range processes {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if d, err := other.Peek(t.Context(), key, rule, 0); err != nil || d.Used != want {
		t.Errorf("%d were used, and after all blocks came back %d are charged, %v", want, d.Used, err)
	}
}

// pause waits in real time, since stores do: for what only time does.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
