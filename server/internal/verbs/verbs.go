package verbs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// Take charges cost; with an id, once.
func (s *Service) Take(ctx context.Context, id *string, key ration.Key, limit ration.Limit, cost int64) (Decision, error) {
	limit, t := untried(limit)
	if id == nil && t == nil {
		d, err := s.Limiter.Take(ctx, key, limit, cost)
		s.Activity.Decided(ctx, limit, key, cost, &d, err)
		return Decision{Decision: d}, err
	}
	charge := Charge{key, limit, cost}
	if t != nil {
		if rule := limit.(ration.Rule); id == nil && rule.Lease > 0 {
			return s.takeLeased(ctx, t, key, rule, cost)
		}
		charge.Limit = onTrial{limit.(ration.Rule), t}
	}
	o, err := s.TakeAll(ctx, id, []Charge{charge})
	return Decision{o.Decision, o.Shadow()}, err
}

// takeLeased takes of a limit that mostly needs no store, and neither does its candidate, which is leased alike.
func (s *Service) takeLeased(ctx context.Context, t *trial, key ration.Key, rule ration.Rule, cost int64) (Decision, error) {
	live, err := s.Limiter.Take(ctx, key, rule, cost)
	shown := live
	shown.Allowed = live.Allowed || t.shadow // as the caller is told
	s.Activity.Decided(ctx, rule, key, cost, &shown, err)
	if err != nil {
		return Decision{}, err
	}
	v := verdict{live: live.Allowed, candidate: true}
	if candidate, ok := t.candidate.(ration.Rule); ok {
		candidate.Lease = rule.Lease
		d, err := s.Limiter.Take(ctx, key, candidate, cost)
		v.candidate, v.undecided = d.Allowed, err != nil
	}
	s.note(t, key, v)
	if t.shadow {
		return calm(live), nil
	}
	return Decision{Decision: live}, nil
}

// TakeAll charges all or none; with an id, once.
func (s *Service) TakeAll(ctx context.Context, id *string, charges []Charge) (o Outcome, err error) {
	if id != nil {
		if err := CheckID(*id); err != nil {
			return Outcome{}, err
		}
	}
	o, err = s.decide(ctx, charges, false, func(ctx context.Context, live []ration.Charge) (ration.Outcome, error) {
		if id == nil {
			return s.Limiter.TakeAll(ctx, live...)
		}
		return s.Limiter.TakeOnce(ctx, *id, live...)
	})
	s.told(ctx, charges, &o, err)
	return o, err
}

// told tells of what was decided about charges. Of those that were refused it tells the ones that stood in the way: the others
// were neither charged nor refused.
func (s *Service) told(ctx context.Context, charges []Charge, o *Outcome, err error) {
	if s.Activity == nil {
		return
	}
	for i := range charges {
		c := &charges[i]
		limit, _ := untried(c.Limit)
		switch {
		case err != nil:
			s.Activity.Decided(ctx, limit, c.Key, c.Cost, nil, err)
		case i < len(o.Each) && (o.Allowed || !o.Each[i].Allowed):
			s.Activity.Decided(ctx, limit, c.Key, c.Cost, &o.Each[i], nil)
		}
	}
}

// Peek answers as Take would.
func (s *Service) Peek(ctx context.Context, key ration.Key, limit ration.Limit, cost int64) (Decision, error) {
	limit, t := untried(limit)
	d, err := s.Limiter.Peek(ctx, key, limit, cost)
	if err != nil && wire.CodeOf(err) == wire.CodeOutcomeUnknown {
		err = fmt.Errorf("%w: %w", driver.ErrNotApplied, err) // whatever happened, nothing can have been charged
	}
	if err == nil && t != nil && t.shadow {
		return calm(d), nil
	}
	return Decision{Decision: d}, err
}

// Refund gives back n of what was charged at atUS, in microseconds since 1970.
func (s *Service) Refund(ctx context.Context, key ration.Key, limit ration.Limit, n, atUS int64) (given int64, err error) {
	if atUS < 1 {
		return 0, At("/at_us", Problem(wire.CodeInvalidTime, "this must be at_us of the decision that charged"))
	}
	limit, _ = untried(limit)
	return s.Limiter.Refund(ctx, key, limit, n, time.UnixMicro(atUS))
}

// Hit adds n to a counter whose window lasts so many milliseconds.
func (s *Service) Hit(ctx context.Context, key ration.Key, windowMS, n int64) (count int64, left time.Duration, err error) {
	const most = int64(1<<63-1) / int64(time.Millisecond) // the Limiter refuses less than that
	return s.Limiter.Hit(ctx, key, time.Duration(min(max(windowMS, -most), most))*time.Millisecond, n)
}

// Or is n, or what it is if it was not sent.
func Or(n *int64, absent int64) int64 {
	if n == nil {
		return absent
	}
	return *n
}

// Millis is d in whole milliseconds, rounded up: against the caller.
func Millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// atOnce is how many calls Each has under way.
const atOnce = 256

// Each does n calls that do not depend on each other: one after the other if the store decides at once, else side by side,
// since calls that are under way together travel in one round trip.
func (s *Service) Each(n int, one func(i int)) {
	if n == 1 || s.Info.Instant {
		for i := range n {
			one(i)
		}
		return
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, atOnce) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				one(i)
			}
		})
	}
	workers.Wait()
}
