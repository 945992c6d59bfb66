package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
)

var (
	_ driver.HoldLister = (*Store)(nil)
	_ driver.Sweeper    = (*Store)(nil)
)

// Holds lists the open holds of all namespaces on the server, in the order of their ids. It makes one request for up to a
// thousand of them. What is held or ended meanwhile may or may not be among them. It ends at the first error.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		for after, more := "", true; more; {
			var page []driver.Hold
			var err error
			if page, more, err = s.page(ctx, after); err != nil {
				yield(driver.Hold{}, err)
				return
			}
			for i := range page {
				if page[i].ID <= after && after != "" { // it would go on for ever
					yield(driver.Hold{}, s.unreadable(errors.New("the holds are not sorted")))
					return
				}
				if !yield(page[i], nil) {
					return
				}
				after = page[i].ID
			}
			more = more && len(page) > 0
		}
	}
}

func (s *Store) page(ctx context.Context, after string) (page []driver.Hold, more bool, err error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer cancel()
	body, err := wire.EncodeHoldsRequest(after)
	if err != nil {
		return nil, false, err
	}
	answer, err := s.post(ctx, "holds", body)
	if err != nil {
		return nil, false, err
	}
	if page, more, err = wire.DecodeHolds(answer); err != nil {
		return nil, false, s.unreadable(err)
	}
	return page, more, nil
}

// Sweep has the server's store remove at most max expired states, and at most 100 000, as of now. Servers sweep by
// themselves, so only tests need it.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, max int) (dropped int, err error) {
	if max < 1 {
		return 0, nil
	}
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	body, err := json.Marshal(wire.SweepRequest{Now: now, Max: int64(min(max, wire.MaxSweep))})
	if err != nil {
		return 0, err
	}
	answer, err := s.post(ctx, "sweep", body)
	if err != nil {
		return 0, err
	}
	var a wire.SweepAnswer
	if err := strictjson.Decode(answer, &a); err != nil {
		return 0, s.unreadable(err)
	}
	return int(a.Dropped), nil
}
