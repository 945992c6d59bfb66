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

var (
	userDay  = ration.Rule{Name: "user-day", Limit: ration.Budget{Limit: 100, Period: ration.Day, Zone: "Europe/Berlin"}}
	orgMonth = ration.Rule{Name: "org-month", Limit: ration.Budget{Limit: 1000, Period: ration.Month}}
	slots    = ration.Rule{Name: "exports", Limit: ration.Concurrency{Limit: 2, Lease: 30 * time.Second}}
)

func used(t *testing.T, l *ration.Limiter, key ration.Key, limit ration.Limit, want int64) {
	t.Helper()
	if d, err := l.Peek(ctx, key, limit, 0); err != nil || d.Used != want {
		t.Fatalf("used %d, want %d (%v)", d.Used, want, err)
	}
}

func TestReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t, nil)
		user, org := ration.KeyOf("org", "user"), ration.KeyOf("org")
		r, err := l.Reserve(ctx, nil, user.Charge(userDay, 60), org.Charge(orgMonth, 60))
		if err != nil || !r.Allowed || r.ID() == "" || r.ExpiresAt() != r.At.Add(10*time.Minute) {
			t.Fatalf("%+v %v", r, err)
		}
		no, err := l.Reserve(ctx, nil, user.Charge(userDay, 60), org.Charge(orgMonth, 60))
		if err != nil || no.Allowed || no.Name != "user-day" {
			t.Fatalf("%+v %v", no, err)
		}
		for _, nothing := range []*ration.Reservation{nil, no} {
			ok, perr := nothing.Progress(ctx, 5)
			if err := errors.Join(perr, nothing.Settle(ctx, 5), nothing.Cancel(ctx), nothing.Renew(ctx, 0)); err != nil || ok {
				t.Fatal(err, ok)
			}
		}
		if err := r.Settle(ctx, 1, 2, 3); !errors.Is(err, ration.ErrInvalidCost) {
			t.Fatal(err)
		}
		if err := r.Settle(ctx, -1); !errors.Is(err, ration.ErrInvalidCost) {
			t.Fatal(err)
		}
		dead, cancel := context.WithCancel(ctx)
		cancel()
		if err := r.Settle(dead, 45); err != nil {
			t.Fatal(err)
		}
		used(t, l, user, userDay, 45)
		used(t, l, org, orgMonth, 45)
		// By its id, from another process.
		other := l.Reservation(r.ID())
		if err := errors.Join(other.Settle(ctx, 45), other.Cancel(ctx)); err != nil {
			t.Fatal(err)
		}
		if err := other.Settle(ctx, 44); !errors.Is(err, ration.ErrEnded) {
			t.Fatal(err)
		}
		if err := l.Reservation("nobody").Settle(ctx, 1); !errors.Is(err, ration.ErrNoReservation) {
			t.Fatal(err)
		}
	})
}

// defer r.Cancel(ctx) is right on every path: nothing spent, half a stream spent, a dead context, settled before.
func TestDeferredCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t, nil)
		user := ration.KeyOf("user")
		stream := func(ctx context.Context, reported ...int64) {
			r, err := l.Reserve(ctx, nil, user.Charge(userDay, 50))
			if err != nil || !r.Allowed {
				t.Fatalf("%+v %v", r, err)
			}
			defer r.Cancel(ctx)
			for _, n := range reported {
				if ok, err := r.Progress(ctx, n); err != nil || ok != (n <= 50) {
					t.Fatal(n, ok, err)
				}
			}
			if len(reported) > 2 {
				r.Settle(ctx, reported[2])
			}
		}
		stream(ctx)
		used(t, l, user, userDay, 0)
		stream(ctx, 10, 20)
		used(t, l, user, userDay, 20)
		alive, cancel := context.WithCancel(ctx)
		r, err := l.Reserve(alive, nil, user.Charge(userDay, 50))
		if err != nil || !r.Allowed {
			t.Fatal(err)
		}
		cancel()
		if err := r.Cancel(alive); err != nil {
			t.Fatal(err)
		}
		used(t, l, user, userDay, 20)
		stream(ctx, 10, 20, 25)
		used(t, l, user, userDay, 45)
	})
}

func TestReservationExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		user := ration.KeyOf("user")
		kept, err := l.Reserve(ctx, &ration.ReserveOptions{TTL: time.Minute}, user.Charge(userDay, 10))
		back, err2 := l.Reserve(ctx, &ration.ReserveOptions{TTL: time.Minute, RefundOnExpiry: true}, user.Charge(userDay, 20))
		if errors.Join(err, err2) != nil {
			t.Fatal(err, err2)
		}
		n := 0
		for h, err := range l.Holds(ctx) {
			if n++; err != nil || h.Keys[0] != user || h.Charged[0].Name != "user-day" || h.ExpiresAt != h.At.Add(time.Minute) {
				t.Fatalf("%+v %v", h, err)
			}
		}
		if n != 2 {
			t.Fatal(n)
		}
		time.Sleep(time.Minute)
		s.sweep(t)
		used(t, l, user, userDay, 10)
		if err := kept.Renew(ctx, 0); !errors.Is(err, ration.ErrEnded) {
			t.Fatal(err)
		}
		if err := errors.Join(kept.Settle(ctx, 12), back.Settle(ctx, 5), back.Settle(ctx, 5)); err != nil {
			t.Fatal(err)
		}
		used(t, l, user, userDay, 17)
	})
}

func TestTakeOnceAndLostReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		user := ration.KeyOf("user")
		lost := errors.New("reply lost")
		fail := 2
		s.after = func(context.Context, []*driver.Txn) error {
			if fail > 0 {
				fail--
				return lost
			}
			return nil
		}
		o, err := l.TakeOnce(ctx, "id-1", user.Charge(userDay, 7))
		if err != nil || !o.Allowed || o.Used != 7 {
			t.Fatalf("%+v %v", o, err)
		}
		again, err := l.TakeOnce(ctx, "id-1", user.Charge(userDay, 7))
		if err != nil || again.Decision != o.Decision {
			t.Fatalf("%+v %v", again, err)
		}
		if _, err := l.TakeOnce(ctx, "id-1", user.Charge(userDay, 8)); !errors.Is(err, ration.ErrIDReused) {
			t.Fatal(err)
		}
		for _, id := range []string{"", string(make([]byte, 129))} {
			if _, err := l.TakeOnce(ctx, id, user.Charge(userDay, 8)); !errors.Is(err, ration.ErrInvalidID) {
				t.Fatal(err)
			}
		}
		other := ration.New(s, &ration.Options{Namespace: "other"})
		if o, err := other.TakeOnce(ctx, "id-1", user.Charge(userDay, 8)); err != nil || o.Used != 8 {
			t.Fatal("ids of another namespace", o, err)
		}
		fail = 9
		opts := &ration.ReserveOptions{ID: "r-1"}
		if _, err := l.Reserve(ctx, opts, user.Charge(userDay, 10)); !errors.Is(err, ration.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		fail = 0
		r, err := l.Reserve(ctx, opts, user.Charge(userDay, 10))
		if err != nil || !r.Allowed {
			t.Fatal(err)
		}
		used(t, l, user, userDay, 17)
		fail = 2
		if err := r.Settle(ctx, 3); err != nil {
			t.Fatal(err)
		}
		used(t, l, user, userDay, 10)
	})
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t, nil)
		k := ration.Global
		for _, err := range []error{
			func() error { _, err := l.Take(ctx, k, slots, 1); return err }(),
			func() error { _, err := l.TakeAll(ctx, k.Charge(slots, 1)); return err }(),
			func() error { _, err := l.TakeOnce(ctx, "x", k.Charge(slots, 1)); return err }(),
			func() error { _, err := l.Refund(ctx, k, slots, 1, time.Now()); return err }(),
			l.Wait(ctx, k, slots, 1),
		} {
			if !errors.Is(err, ration.ErrInvalidLimit) {
				t.Fatal(err)
			}
		}
		a, _ := l.Reserve(ctx, nil, k.Charge(slots, 1), ration.KeyOf("u").Charge(userDay, 5))
		b, _ := l.Reserve(ctx, nil, k.Charge(slots, 1), ration.KeyOf("u").Charge(userDay, 5))
		if !a.Allowed || !b.Allowed || a.ExpiresAt() != a.At.Add(30*time.Second) {
			t.Fatal(a, b)
		}
		c, err := l.Reserve(ctx, nil, k.Charge(slots, 1), ration.KeyOf("u").Charge(userDay, 5))
		if err != nil || c.Allowed || c.RetryAfter != 30*time.Second {
			t.Fatalf("%+v %v", c, err)
		}
		alive, stop := a.KeepAlive(ctx)
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				r, err := l.Reserve(ctx, &ration.ReserveOptions{Wait: true}, k.Charge(slots, 1))
				if err != nil || !r.Allowed {
					t.Error(err)
				}
				order <- i
				defer r.Cancel(ctx)
				<-time.After(time.Second)
			}()
			synctest.Wait()
		}
		start := time.Now()
		if err := b.Settle(ctx, 3); err != nil { // the one number is for the budget
			t.Fatal(err)
		}
		for want := range 3 {
			if got := <-order; got != want {
				t.Errorf("%d came as %d", got, want)
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Error(took)
		}
		used(t, l, ration.KeyOf("u"), userDay, 8)
		time.Sleep(5 * time.Minute)
		if alive.Err() != nil {
			t.Fatal(context.Cause(alive))
		}
		used(t, l, k, slots, 1)
		if err := l.Reset(ctx, k, slots); err != nil {
			t.Fatal(err)
		}
		<-alive.Done() // lost
		if !errors.Is(context.Cause(alive), ration.ErrEnded) {
			t.Fatal(context.Cause(alive))
		}
		stop()
	})
}

// A settle in another period than the reservation's: an excess is charged to the period that runs, also when the caller's
// clock cannot know it.
func TestSettleInALaterPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		var ahead time.Duration
		s.clock = func() time.Time { return time.Now().Add(ahead) }
		user := ration.KeyOf("user")
		over, _ := l.Reserve(ctx, &ration.ReserveOptions{TTL: 31 * 24 * time.Hour}, user.Charge(userDay, 10))
		under, err := l.Reserve(ctx, &ration.ReserveOptions{TTL: 31 * 24 * time.Hour}, user.Charge(userDay, 10))
		if err != nil {
			t.Fatal(err)
		}
		ahead = 10 * 24 * time.Hour
		if err := errors.Join(l.Reservation(over.ID()).Settle(ctx, 15), under.Settle(ctx, 5)); err != nil {
			t.Fatal(err)
		}
		used(t, l, user, userDay, 5)
	})
}
