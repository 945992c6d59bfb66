package holdcontract

import (
	"context"
	"testing"

	"github.com/ration-go/ration"
)

// oneTrip: a reservation over three limits is one round trip, refused or not, and so is each call on it with the reservation
// in hand.
func (s *Subject) oneTrip(t *testing.T) {
	ctx := deadline(t)
	reserve := func(name string, costs ...int64) (*ration.Reservation, error) {
		return s.Limiter.Reserve(ctx, nil, three("trips "+name, costs...)...)
	}
	// Connections are made, scripts loaded, statements prepared.
	for range 3 {
		warm, err := reserve("warm", 1, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []func() error{
			func() error { _, err := warm.Progress(ctx, 1, 1, 1); return err },
			func() error { return warm.Renew(ctx, 0) },
			func() error { return warm.Settle(ctx) },
			func() error { return s.Limiter.Reservation(warm.ID()).Cancel(ctx) },
		} {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
	}
	measure := func(what string, most int64, call func() error) {
		t.Helper()
		before := s.Trips()
		if err := call(); err != nil {
			t.Errorf("%s failed: %v", what, err)
		}
		if n := s.Trips() - before; n < 1 || n > most {
			t.Errorf("%s should be %d round trips at most, but made %d", what, most, n)
		} else {
			t.Logf("%s: %d", what, n)
		}
	}
	var a, b, c *ration.Reservation
	keep := func(r **ration.Reservation, costs ...int64) func() error {
		return func() (err error) { *r, err = reserve("k", costs...); return err }
	}
	measure("a reservation over three limits", 1, keep(&a, 10, 20, 30))
	measure("another", 1, keep(&b, 10, 20, 30))
	measure("a third", 1, keep(&c, 10, 20, 30))
	var no *ration.Reservation
	measure("one that is refused", 1, keep(&no, 1, 1, 950))
	if no == nil || no.Allowed || !a.Allowed || !b.Allowed || !c.Allowed {
		t.Fatal(no, a, b, c)
	}
	measure("progress", 1, func() error { _, err := a.Progress(ctx, 5, 5, 40); return err })
	measure("a renewal", 1, func() error { return a.Renew(ctx, 0) })
	measure("a settle", 1, func() error { return a.Settle(ctx, 6, 30, 41) })
	measure("a cancel", 1, func() error { return b.Cancel(ctx) })
	measure("a settle by the id alone", max(1, s.ByID), func() error { return s.Limiter.Reservation(c.ID()).Settle(context.WithoutCancel(ctx), 1, 2, 3) })
	s.used(t, "after all of it", "trips k", 7, 32, 44)
}
