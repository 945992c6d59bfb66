package holdcontract

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// lostAnswers: a call whose answer got lost, made again under its id, answers the same, and happened once. One lost answer
// nobody notices, since what has an id is sent again; more of them are ErrOutcomeUnknown.
func (s *Subject) lostAnswers(t *testing.T) {
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s.lostTakes(t, n)
			s.lostReserves(t, n)
			s.lostEnds(t, n)
		})
	}
	s.Lose(0)
}

// again makes a call, of whose answers n are lost, until it is answered.
func (s *Subject) again(t *testing.T, n int, what string, call func() error) {
	t.Helper()
	before := s.Lost()
	s.Lose(n)
	defer s.Lose(0)
	for try := 0; ; try++ {
		err := call()
		if err == nil {
			break
		}
		if !errors.Is(err, ration.ErrOutcomeUnknown) && !errors.Is(err, driver.ErrNotApplied) || try > n+10 {
			t.Fatalf("%s whose answer is lost %d times failed for good: %v", what, n, err)
		}
	}
	if s.Lost() == before {
		t.Errorf("no answer of %s was lost", what)
	}
}

func (s *Subject) lostTakes(t *testing.T, n int) {
	ctx := deadline(t)
	name := fmt.Sprint("takes ", n)
	take := func() (ration.Outcome, error) { return s.Limiter.TakeOnce(ctx, name, three(name, 5, 6, 7)...) }
	var first ration.Outcome
	s.again(t, n, "a take", func() (err error) { first, err = take(); return err })
	second, err := take()
	if err != nil || !first.Allowed || !reflect.DeepEqual(first, second) {
		t.Errorf("the same id should answer %+v again, but answers %+v, %v", first, second, err)
	}
	if _, err := s.Limiter.TakeOnce(ctx, name, three(name, 5, 6, 8)...); !errors.Is(err, ration.ErrIDReused) {
		t.Errorf("another request under the id: %v", err)
	}
	s.used(t, "a take whose answer was lost", name, 5, 6, 7)
}

func (s *Subject) lostReserves(t *testing.T, n int) {
	ctx := deadline(t)
	name := fmt.Sprint("reserves ", n)
	reserve := func(costs ...int64) (*ration.Reservation, error) {
		return s.Limiter.Reserve(ctx, &ration.ReserveOptions{ID: name}, three(name, costs...)...)
	}
	var first *ration.Reservation
	s.again(t, n, "a reservation", func() (err error) { first, err = reserve(5, 6, 7); return err })
	second, err := reserve(5, 6, 7)
	if err != nil || !first.Allowed || first.ID() != second.ID() || !reflect.DeepEqual(first.Outcome, second.Outcome) {
		t.Errorf("the same id should answer %v again, but answers %v, %v", first, second, err)
	}
	if _, err := reserve(5, 6, 8); !errors.Is(err, ration.ErrIDReused) {
		t.Errorf("another request under the id: %v", err)
	}
	s.used(t, "a reservation whose answer was lost", name, 5, 6, 7)
	if err := second.Settle(ctx, 1, 2, 9); err != nil {
		t.Error(err)
	}
	s.used(t, "settled by who asked again", name, 1, 2, 9)
}

// lostEnds: the ends of reservations, and what is between.
func (s *Subject) lostEnds(t *testing.T, n int) {
	ctx := deadline(t)
	name := fmt.Sprint("ends ", n)
	reserve := func(id string) *ration.Reservation {
		r, err := s.Limiter.Reserve(ctx, &ration.ReserveOptions{ID: name + id}, three(name, 10, 10, 10)...)
		if err != nil || !r.Allowed {
			t.Fatal(r, err)
		}
		return r
	}
	beside := reserve("beside") // so that a bucket that gets all back is not full
	if err := beside.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	a, b := reserve("a"), reserve("b")
	s.again(t, n, "progress", func() error {
		ok, err := a.Progress(ctx, 12, 3, 4)
		if err == nil && !ok {
			t.Error("what fits should fit, though an answer was lost")
		}
		return err
	})
	s.used(t, "progress whose answer was lost", name, 32, 30, 30)
	s.again(t, n, "a renewal", func() error { return a.Renew(ctx, 0) })
	s.again(t, n, "a settle", func() error { return a.Settle(ctx, 20, 4, 5) })
	s.used(t, "a settle whose answer was lost", name, 40, 24, 25)
	if err := a.Settle(ctx, 20, 4, 6); !errors.Is(err, ration.ErrEnded) {
		t.Errorf("another end after it: %v", err)
	}
	s.again(t, n, "a cancel", func() error { return b.Cancel(ctx) })
	s.used(t, "a cancel whose answer was lost", name, 30, 14, 15)
	if err := b.Settle(ctx); !errors.Is(err, ration.ErrEnded) {
		t.Errorf("a settle after it: %v", err)
	}
}
