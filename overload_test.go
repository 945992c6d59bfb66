package ration_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// stuck is a store that answers nobody before it is let go.
type stuck struct {
	*runStore
	gate chan struct{}
}

func (s *stuck) Info() driver.Info {
	return driver.Info{Kind: "stuck", Scope: driver.Network, Caps: driver.CapsRun, MaxBatch: 64, InFlight: 2}
}

func (s *stuck) Apply(ctx context.Context, batch []*driver.Txn) error {
	select {
	case <-s.gate:
		return s.runStore.Apply(ctx, batch)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A store that does not answer has a bounded queue in front of it: whoever comes then is told so at once, and was not charged.
// That nothing of them stays is a test of the joiner's.
func TestOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue = 1 << 14
		s := &stuck{newRunStore(), make(chan struct{})}
		// The circuit would answer for the store before the queue is full.
		l := ration.New(s, &ration.Options{Timeout: time.Hour, Outage: &ration.Outage{Failures: -1}})
		defer l.Close()
		limit := ration.FixedWindow{Limit: 1 << 20, Window: time.Hour}
		key := ration.KeyOf("k")
		var admitted, failed atomic.Int64
		var wg sync.WaitGroup
		for range queue + 1 { // one is under way, with its key
			wg.Go(func() {
				if d, err := l.Take(context.Background(), key, limit, 1); err == nil && d.Allowed {
					admitted.Add(1)
				} else {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		refused := func() {
			if _, err := l.Take(context.Background(), key, limit, 1); !errors.Is(err, ration.ErrOverloaded) || errors.Is(err, ration.ErrOutcomeUnknown) {
				t.Fatalf("%d wait, and one more is told %v", queue, err)
			}
		}
		for range 10_000 {
			refused()
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("they waited %v", waited)
		}
		close(s.gate)
		wg.Wait()
		if failed.Load() != 0 || admitted.Load() != queue+1 {
			t.Errorf("%d that waited were admitted, and %d failed", admitted.Load(), failed.Load())
		}
		d, err := l.Peek(context.Background(), key, limit, 0)
		if err != nil || d.Used != queue+1 {
			t.Errorf("%d are charged, %v; who was refused is not", d.Used, err)
		}
	})
}
