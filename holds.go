package ration

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
)

// Hold is an open reservation, as Holds lists it.
type Hold struct {
	ID        string
	At        time.Time // when it was charged
	ExpiresAt time.Time
	Keys      []Key      // hashed if Options.KeySecret is set
	Charged   []Decision // Name, Limit, and what is charged as Used; for each of Keys
}

// Holds lists the open reservations of the namespace, from any process, in no order. If ctx has no deadline, the store has
// Options.Timeout for each that it lists, not counting what is done with them; then the list ends with an error that is
// context.DeadlineExceeded.
func (l *Limiter) Holds(ctx context.Context) iter.Seq2[Hold, error] {
	return func(yield func(Hold, error) bool) {
		lister, ok := l.store.(driver.HoldLister)
		err := l.need(driver.CapHolds, "reservations")
		if err == nil && !ok {
			err = fmt.Errorf("%w: the %s store does not list reservations", ErrUnsupported, l.info.Kind)
		}
		if err == nil && l.closed.Load() {
			err = ErrClosed
		}
		if err != nil {
			yield(Hold{}, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		limit := l.opts.Timeout
		if _, ok := ctx.Deadline(); ok {
			limit = math.MaxInt64
		}
		slow := time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
		defer slow.Stop()
		for h, err := range lister.Holds(ctx) {
			slow.Stop()
			if err != nil && context.Cause(ctx) == context.DeadlineExceeded && ctx.Err() == context.Canceled {
				err = fmt.Errorf("%w: the %s store did not list reservations within %v: %v", context.DeadlineExceeded, l.info.Kind, limit, err)
			}
			id, ours := strings.CutPrefix(h.ID, l.namespace+"|")
			if (err != nil || ours) && !yield(shown(id, h), err) {
				return
			}
			slow.Reset(limit)
		}
	}
}

func shown(id string, h driver.Hold) Hold {
	out := Hold{ID: id, At: h.At.Time(), ExpiresAt: h.Expires.Time()}
	for i := range h.Ops {
		op := &h.Ops[i]
		out.Keys = append(out.Keys, Key{group: op.Key.Group, id: op.Key.ID})
		out.Charged = append(out.Charged, Decision{Allowed: true, Name: ruleName(op.Key.Space), Limit: op.Size, Used: op.Cost,
			Remaining: max(0, op.Size-op.Cost), At: h.At.Time()})
	}
	return out
}
