package verbs

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
)

// Bounds of what names and holds a reservation, and of a page of them.
const (
	maxID    = 128
	maxRoute = 16 // what a store that has its data in several places puts in front of an id, with its dot
	minTTL   = int64(time.Second / time.Millisecond)
	maxTTL   = int64(31 * 24 * time.Hour / time.Millisecond)

	PageOf    = 100 // reservations on a page, unless asked otherwise
	MaxPageOf = 500
)

// CheckID checks an id that a caller makes up.
func CheckID(id string) error {
	if id == "" || len(id) > maxID {
		return At("/id", Problem(wire.CodeInvalidID, fmt.Sprintf("an id of %d bytes is not between 1 and %d; leave it out if the call need not happen once", len(id), maxID)))
	}
	return nil
}

// Reserve charges all or none, and holds that; id and ttlMS may be nil.
func (s *Service) Reserve(ctx context.Context, id *string, ttlMS *int64, refundOnExpiry bool, charges []Charge) (r *ration.Reservation, o Outcome, err error) {
	opts := ration.ReserveOptions{RefundOnExpiry: refundOnExpiry}
	if id != nil {
		if err := CheckID(*id); err != nil {
			return nil, o, err
		}
		opts.ID = *id
	}
	if ttlMS != nil {
		if opts.TTL, err = ttl(*ttlMS); err != nil {
			return nil, o, err
		}
	}
	o, err = s.decide(ctx, charges, true, func(ctx context.Context, live []ration.Charge) (ration.Outcome, error) {
		var err error
		if r, err = s.Limiter.Reserve(ctx, &opts, live...); err != nil {
			return ration.Outcome{}, err
		}
		return r.Outcome, nil
	})
	s.told(ctx, charges, &o, err)
	if err == nil && Held(r) {
		access.Reserved(ctx, r.ID())
	}
	return r, o, err
}

// Held reports whether r holds something: not if it was refused, or allowed by the outage policy.
func Held(r *ration.Reservation) bool { return r.Allowed && !r.Degraded }

func ttl(ms int64) (time.Duration, error) {
	if ms < minTTL || ms > maxTTL {
		return 0, At("/ttl_ms", Problem(wire.CodeInvalidTime, fmt.Sprintf("ttl_ms is not between %d, a second, and %d, 31 days", minTTL, maxTTL)))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// reservation is that of an id which the server answered.
func (s *Service) reservation(id string) (*ration.Reservation, error) {
	if id == "" || len(id) > maxID+maxRoute {
		return nil, Problem(wire.CodeInvalidID, fmt.Sprintf("an id of %d bytes is none of a reservation", len(id)))
	}
	return s.Limiter.Reservation(id), nil
}

// Settle ends a reservation with what was used; nil: as reserved. A list that is there and empty is an error: nothing, or
// nothing used?
func (s *Service) Settle(ctx context.Context, id string, amounts []int64) error {
	held, err := s.reservation(id)
	if err == nil {
		err = checkAmounts(amounts)
	}
	if err != nil {
		return err
	}
	return held.Settle(ctx, amounts...)
}

// Cancel ends a reservation and gives back what Progress has not reported.
func (s *Service) Cancel(ctx context.Context, id string) error {
	held, err := s.reservation(id)
	if err != nil {
		return err
	}
	err = held.Cancel(ctx)
	access.RecordCancel(ctx, id, access.Outcome(err))
	return err
}

// Renew moves a reservation's expiry, and answers it.
func (s *Service) Renew(ctx context.Context, id string, ttlMS int64) (expires time.Time, err error) {
	held, err := s.reservation(id)
	if err != nil {
		return expires, err
	}
	life, err := ttl(ttlMS)
	if err == nil {
		err = held.Renew(ctx, life)
	}
	if err != nil {
		return expires, err
	}
	return held.ExpiresAt(), nil
}

// Progress reports what was used so far, and answers whether it fits.
func (s *Service) Progress(ctx context.Context, id string, amounts []int64) (ok bool, err error) {
	held, err := s.reservation(id)
	if err == nil {
		err = checkAmounts(amounts)
	}
	if err != nil {
		return false, err
	}
	return held.Progress(ctx, amounts...)
}

func checkAmounts(amounts []int64) error {
	if amounts != nil && len(amounts) == 0 || len(amounts) > driver.MaxOps {
		return At("/amounts", Problem(wire.CodeInvalidAmounts, fmt.Sprintf("%d amounts are not between 1 and %d; give one for each charge, or for all if all were equal", len(amounts), driver.MaxOps)))
	}
	for i, n := range amounts {
		if n < 0 {
			return At(fmt.Sprintf("/amounts/%d", i), Problem(wire.CodeInvalidCost, "this is less than 0"))
		}
	}
	return nil
}

// Reservations is the first most open ones by id, of those after an id, and whether there are more.
func (s *Service) Reservations(ctx context.Context, after string, most int) (list []ration.Hold, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	list, more, err = Page(readable(ctx, s.Limiter.Holds(ctx)), func(hold *ration.Hold) string { return hold.ID }, after, most)
	return list, more, notApplied(err)
}
