package ration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// counting notes the sizes of batches, and takes a while for each.
type counting struct {
	driver.Store
	max int

	mu      sync.Mutex
	batches []int
}

func (c *counting) Info() driver.Info {
	i := c.Store.Info()
	i.Instant, i.MaxBatch, i.InFlight = false, c.max, 1
	return i
}

func (c *counting) Apply(ctx context.Context, batch []*driver.Txn) error {
	c.mu.Lock()
	c.batches = append(c.batches, len(batch))
	c.mu.Unlock()
	time.Sleep(time.Millisecond)
	return c.Store.Apply(ctx, batch)
}

func (c *counting) sizes() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sizes := c.batches
	c.batches = nil
	return sizes
}

// What stands beside a call travels with it, is decided by itself, and changes nothing about the call.
func TestAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, max := range []int{1, 128} {
			s := &counting{Store: memstore.New(&memstore.Options{SweepEvery: -1}), max: max}
			l := ration.New(s, nil)
			live := ration.Rule{Name: "live", Limit: ration.FixedWindow{Limit: 3, Window: time.Hour}, Lease: 100}
			strict := ration.Rule{Name: "strict", Limit: ration.SlidingWindow{Limit: 2, Window: time.Hour}}
			loose := ration.Rule{Name: "loose", Limit: ration.TokenBucket{Burst: 4, Refill: ration.Every(time.Hour)}}
			key := ration.KeyOf("k")
			calls := map[string]func(context.Context) (bool, error){
				"take": func(ctx context.Context) (bool, error) {
					d, err := l.Take(ctx, key, live, 1)
					return d.Allowed, err
				},
				"take-all": func(ctx context.Context) (bool, error) {
					o, err := l.TakeAll(ctx, key.Charge(live, 1), key.Charge(ration.Rule{Name: "other", Limit: live.Limit}, 1))
					return o.Allowed, err
				},
				"reserve": func(ctx context.Context) (bool, error) {
					r, err := l.Reserve(ctx, nil, key.Charge(live, 1))
					return r != nil && r.Allowed, err
				},
				"take-once": func(ctx context.Context) (bool, error) {
					o, err := l.TakeOnce(ctx, "id"+string(rune('0'+max%7)), key.Charge(live, 1))
					return o.Allowed, err
				},
			}
			for i, name := range []string{"take", "take-all", "reserve", "take-once", "take"} {
				ctx, beside, err := l.Aside(t.Context(), key.Charge(strict, 1), key.Charge(loose, 1))
				if err != nil {
					t.Fatal(err)
				}
				s.sizes()
				allowed, err := calls[name](ctx)
				if err != nil || allowed != (i < 3) {
					t.Errorf("%s, the %d. call: %v, %v", name, i+1, allowed, err)
				}
				if sizes := s.sizes(); len(sizes) != 1 || sizes[0] != 3 {
					t.Errorf("%s: batches of %v, not one of 3", name, sizes)
				}
				r := beside.Results()
				if r[0].Err != nil || r[0].Allowed != (i < 2) || r[0].Name != "strict" || r[1].Err != nil || r[1].Allowed != (i < 4) || r[1].Name != "loose" {
					t.Errorf("%s, the %d. call: beside it %+v", name, i+1, r)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Under load calls and what stands beside them go together still, in batches that the store takes.
func TestAsideTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, max, limit = 100, 8, 40
		s := &counting{Store: memstore.New(&memstore.Options{SweepEvery: -1}), max: max}
		l := ration.New(s, nil)
		defer l.Close()
		live := ration.Rule{Name: "live", Limit: ration.FixedWindow{Limit: limit, Window: time.Hour}}
		tried := ration.Rule{Name: "tried", Limit: ration.FixedWindow{Limit: limit / 2, Window: time.Hour}}
		var mu sync.Mutex
		var work sync.WaitGroup
		admitted, would := 0, 0
		for range callers {
			work.Go(func() {
				ctx, beside, err := l.Aside(t.Context(), ration.KeyOf("k").Charge(tried, 1))
				if err != nil {
					t.Error(err)
					return
				}
				d, err := l.Take(ctx, ration.KeyOf("k"), live, 1)
				r := beside.Results()[0]
				if err = errors.Join(err, r.Err); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if d.Allowed {
					admitted++
				}
				if r.Allowed {
					would++
				}
			})
		}
		work.Wait()
		if admitted != limit || would != limit/2 {
			t.Errorf("%d admitted, and beside them %d, not %d and %d", admitted, would, limit, limit/2)
		}
		sizes := s.sizes()
		for _, n := range sizes {
			if n > max {
				t.Errorf("a batch of %d, of at most %d", n, max)
			}
		}
		if len(sizes) > callers/2 {
			t.Errorf("%d calls made %d batches", callers, len(sizes))
		}
	})
}

// A call that does not reach the store, and one without charges beside it, leave none decided.
func TestAsideOfNoCall(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	l := ration.New(store, nil)
	key, limit := ration.KeyOf("k"), ration.TokenBucket{Burst: 2, Refill: ration.Every(time.Hour)}
	ctx, beside, err := l.Aside(t.Context(), key.Charge(ration.Rule{Name: "beside", Limit: limit}, 1))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Take(t.Context(), key, limit, 1); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := l.Peek(ctx, key, limit, 1); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if r := beside.Results(); len(r) != 1 || r[0].Err == nil {
		t.Errorf("%+v", r)
	}
	if d, err := l.Take(ctx, key, limit, 1); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if r := beside.Results(); r[0].Err != nil || !r[0].Allowed || r[0].Remaining != 1 {
		t.Errorf("%+v", r)
	}
	if _, _, err := l.Aside(t.Context(), key.Charge(ration.Concurrency{Limit: 1, Lease: time.Second}, 1)); !errors.Is(err, ration.ErrInvalidLimit) {
		t.Errorf("a slot: %v", err)
	}
	if _, _, err := l.Aside(t.Context(), key.Charge(limit, -1)); !errors.Is(err, ration.ErrInvalidCost) {
		t.Errorf("a cost below zero: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	ctx, beside, err = l.Aside(t.Context(), key.Charge(limit, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take(ctx, key, limit, 1); !errors.Is(err, ration.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if r := beside.Results(); r[0].Err == nil {
		t.Errorf("%+v", r)
	}
}
