package ration_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// slowLister takes a while for each hold, and hangs after the last.
type slowLister struct {
	*runStore
	each []time.Duration
}

func (s *slowLister) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		for i := range len(s.each) + 1 {
			var timer <-chan time.Time
			if i < len(s.each) {
				timer = time.After(s.each[i])
			}
			select {
			case <-timer:
			case <-ctx.Done():
				yield(driver.Hold{}, ctx.Err())
				return
			}
			if !yield(driver.Hold{ID: "|a"}, nil) {
				return
			}
		}
	}
}

// A store that lists slowly has its time for each hold; what the caller does with them is not counted.
func TestHoldsEndInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		deadline, took time.Duration
	}{{0, 5 * time.Second}, {time.Minute, time.Minute - 16*time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			l := ration.New(&slowLister{newRunStore(), []time.Duration{4 * time.Second, 4 * time.Second}}, nil)
			defer l.Close()
			ctx := t.Context()
			if c.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			listed, last := 0, time.Now()
			for _, err := range l.Holds(ctx) {
				if err == nil {
					listed++
					time.Sleep(4 * time.Second) // of the bubble's clock
					last = time.Now()
					continue
				}
				if took := time.Since(last); !errors.Is(err, context.DeadlineExceeded) || took != c.took {
					t.Errorf("after %v: %v", took, err)
				}
			}
			if listed != 2 {
				t.Errorf("%d listed", listed)
			}
		})
	}
}

// A caller who goes away is told that, not that the store was slow.
func TestHoldsOfWhoGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ration.New(&slowLister{runStore: newRunStore()}, nil)
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone, leave := context.WithCancelCause(ctx)
		leave(errors.New("gone"))
		for _, err := range l.Holds(gone) {
			if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}

// That there is no such reservation is an answer, also to a call whose first answer was lost; so are wrong amounts.
func TestNoReservationAfterALostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		r, err := l.Reserve(t.Context(), nil, ration.KeyOf("u").Charge(chat, 1), ration.KeyOf("v").Charge(chat, 2))
		if err != nil || !r.Allowed {
			t.Fatal(err)
		}
		calls := 0
		s.after = func(context.Context, []*driver.Txn) error {
			if calls++; calls%2 == 1 {
				return errors.New("lost")
			}
			return nil
		}
		for i := range 30 { // no store is down that answers
			if err := l.Reservation("nobody").Renew(t.Context(), 0); !errors.Is(err, ration.ErrNoReservation) || errors.Is(err, ration.ErrOutcomeUnknown) {
				t.Fatal(i, err)
			}
			if err := l.Reservation(r.ID()).Settle(t.Context(), 1); !errors.Is(err, ration.ErrInvalidCost) || errors.Is(err, ration.ErrOutcomeUnknown) {
				t.Fatal(i, err)
			}
		}
	})
}
