package ration_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

func TestWaitInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t, nil)
		limit := ration.TokenBucket{Burst: 1, Refill: ration.PerSecond(1)}
		start := time.Now()
		type arrival struct {
			i  int
			at time.Duration
		}
		got := make(chan arrival, 5)
		for i := range 5 {
			go func() {
				if err := l.Wait(ctx, ration.KeyOf("k"), limit, 1); err != nil {
					t.Error(err)
				}
				got <- arrival{i, time.Since(start)}
			}()
			synctest.Wait()
		}
		for i := range 5 {
			if a := <-got; a.i != i || a.at != time.Duration(i)*time.Second {
				t.Errorf("%d came as %d at %v", a.i, i, a.at)
			}
		}
	})
}

// Three in ten seconds, seven callers willing to wait for twelve: three now, three at ten, one told no, and told at once.
func TestWaitTooLate(t *testing.T) {
	t.Parallel()
	for _, limit := range []ration.Limit{
		ration.SlidingWindow{Limit: 3, Window: 10 * time.Second},
		ration.FixedWindow{Limit: 3, Window: 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := newLimiter(t, nil)
			start := time.Now()
			ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
			defer cancel()
			type answer struct {
				err error
				at  time.Duration
			}
			got := make(chan answer, 7)
			for range 7 {
				go func() {
					err := l.Wait(ctx, ration.KeyOf("k"), limit, 1)
					got <- answer{err, time.Since(start)}
				}()
				synctest.Wait()
			}
			count := map[string]int{}
			for range 7 {
				a := <-got
				var refused *ration.RefusedError
				switch {
				case a.err == nil && a.at == 0:
					count["now"]++
				case a.err == nil && a.at == 10*time.Second:
					count["later"]++
				case errors.As(a.err, &refused) && errors.Is(a.err, context.DeadlineExceeded) && a.at == 0 && refused.RetryAfter > 12*time.Second:
					count["refused"]++
				default:
					t.Errorf("%v at %v", a.err, a.at)
				}
			}
			if count["now"] != 3 || count["later"] != 3 || count["refused"] != 1 {
				t.Error(count)
			}
		})
	}
}

func TestWaitNever(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	var refused *ration.RefusedError
	err := l.Wait(ctx, ration.KeyOf("k"), chat, 21)
	if !errors.As(err, &refused) || !refused.Never || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestWaitCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		one := ration.FixedWindow{Limit: 1, Window: time.Minute}
		k := ration.KeyOf("k")
		dead, cancel := context.WithCancel(ctx)
		cancel()
		if err := l.Wait(dead, k, one, 1); !errors.Is(err, context.Canceled) || s.calls != 0 {
			t.Fatal(err, s.calls)
		}
		// Cancelled while the store answers: given back.
		alive, cancel := context.WithCancel(ctx)
		s.after = func(context.Context, []*driver.Txn) error { cancel(); return nil }
		if err := l.Wait(alive, k, one, 1); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		s.after = nil
		if d, err := l.Take(ctx, k, one, 1); err != nil || !d.Allowed {
			t.Fatalf("not given back: %+v %v", d, err)
		}
		// Cancelled in the line, in the middle and at its head: the others go on.
		first, stopFirst := context.WithCancel(ctx)
		second, stopSecond := context.WithCancel(ctx)
		errs := make(chan error, 3)
		for _, ctx := range []context.Context{first, second, ctx} {
			go func() { errs <- l.Wait(ctx, k, one, 1) }()
			synctest.Wait()
		}
		stopSecond()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		stopFirst()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		start := time.Now()
		if err := <-errs; err != nil || time.Since(start) != time.Minute {
			t.Fatal(err, time.Since(start))
		}
	})
}

// A give-back or a reset in this process is seen at once, one elsewhere before long.
func TestWaitSeesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		other := ration.New(s, nil)
		k, day := ration.KeyOf("k"), ration.SlidingWindow{Limit: 1, Window: 24 * time.Hour}
		for _, free := range []struct {
			how    func(d ration.Decision)
			within time.Duration
		}{
			{func(d ration.Decision) { l.Refund(ctx, k, day, 1, d.At) }, 0},
			{func(ration.Decision) { l.Reset(ctx, k, day) }, 0},
			{func(ration.Decision) { l.Forget(ctx, k) }, 0},
			{func(ration.Decision) { other.Reset(ctx, k, day) }, 30 * time.Second},
		} {
			time.Sleep(time.Second)
			d, err := l.Take(ctx, k, day, 1)
			if err != nil || !d.Allowed {
				t.Fatalf("%+v %v", d, err)
			}
			done := make(chan error)
			go func() { done <- l.Wait(ctx, k, day, 1) }()
			synctest.Wait()
			start := time.Now()
			free.how(d)
			if err := <-done; err != nil || time.Since(start) > free.within {
				t.Fatal(err, time.Since(start))
			}
			l.Forget(ctx, k)
		}
	})
}
