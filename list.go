package ration

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/ration-go/ration/driver"
)

// TakeAll charges 1 to 64 limits, all or none, in one atomic step. If one refuses, no key is changed, not even for a
// moment that another caller could see. Each says what every limit answered; the Outcome's own Decision says whether the
// list passed and, if not, which limit refuses for longest.
//
// Charges of one key and rule are decided together, over the sum of their costs; with different numbers they are
// ErrInvalidLimit. Order changes nothing. On a Redis Cluster all keys need one group (Key.In), else ErrCrossGroup.
func (l *Limiter) TakeAll(ctx context.Context, charges ...Charge) (Outcome, error) {
	start := l.start()
	o, err := l.takeAll(ctx, charges)
	l.observeList(ctx, "take-all", charges, start, o, err)
	return o, err
}

func (l *Limiter) takeAll(ctx context.Context, charges []Charge) (o Outcome, err error) {
	s, err := l.list(charges, false)
	if err != nil {
		return o, err
	}
	txn := &driver.Txn{Verb: driver.Take, Ops: s.ops}
	if err := l.apply(ctx, []*driver.Txn{txn}); err != nil {
		return l.degraded(ctx, err, &s, "")
	}
	return s.outcome(txn), nil
}

// degraded applies the outage policy to err of a list, which may have an id.
func (l *Limiter) degraded(ctx context.Context, err error, s *list, id string) (o Outcome, _ error) {
	if !outage(ctx, err) {
		return o, err
	}
	each, allowed, err := l.byPolicy(err, driver.Take, id, s)
	if err != nil {
		return o, err
	}
	for _, at := range s.at {
		o.Each = append(o.Each, each[at])
	}
	o.sum(allowed)
	return o, nil
}

// list is charges as ops: one for each identity, and for each charge which one it is.
type list struct {
	ops   []driver.Op
	plans []*plan
	at    []int
}

// list checks charges. Slots may be among them only if they are to be held.
func (l *Limiter) list(charges []Charge, hold bool) (s list, err error) {
	if len(charges) < 1 || len(charges) > driver.MaxOps {
		return s, invalidf(ErrInvalidLimit, "a list of %d charges is not between 1 and %d", len(charges), driver.MaxOps)
	}
	s = list{make([]driver.Op, 0, len(charges)), make([]*plan, 0, len(charges)), make([]int, 0, len(charges))}
	for i := range charges {
		c := &charges[i]
		if c.limit == nil {
			return s, invalidf(ErrInvalidLimit, "charge %d has no limit; make it with Key.Charge", i)
		}
		p, err := l.prepare(c.key, c.limit)
		if err == nil {
			err = checkCost(c.cost)
		}
		if err == nil && !hold {
			err = p.takeable()
		}
		if err != nil {
			return s, fmt.Errorf("charge %d: %w", i, err)
		}
		if err := s.add(l, p, c); err != nil {
			return s, fmt.Errorf("charge %d: %w", i, err)
		}
	}
	if len(s.ops) > 1 {
		if err := l.need(driver.CapList, "decisions over several keys"); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *list) add(l *Limiter, p *plan, c *Charge) error {
	var op driver.Op
	l.ready(&op, p, c.key, c.cost)
	for i := range s.ops {
		same := &s.ops[i]
		if same.Key != op.Key {
			continue
		}
		if same.Size != op.Size || same.Rate != op.Rate || same.Span != op.Span {
			return invalidf(ErrInvalidLimit, "one key has two limits that share a count but differ in their numbers; give them Rules of different names")
		}
		if same.Cost > MaxCount-c.cost {
			return fmt.Errorf("the sum of costs for one key: %w", ErrOverflow)
		}
		same.Cost += c.cost
		s.at = append(s.at, i)
		return nil
	}
	if (l.opts.OneGroup || l.info.OneGroup) && len(s.ops) > 0 && !together(&s.ops[0].Key, &op.Key) {
		return ErrCrossGroup
	}
	s.at = append(s.at, len(s.ops))
	s.ops, s.plans = append(s.ops, op), append(s.plans, p)
	return nil
}

// together reports whether two keys are placed together on a cluster: by their group, or by the key if they have none.
func together(a, b *driver.Key) bool {
	return a.Group == b.Group && (a.Group != "" || a.ID == b.ID)
}

func (s *list) outcome(t *driver.Txn) (o Outcome) {
	o.Each = make([]Decision, len(s.at))
	for i, at := range s.at {
		o.Each[i].fill(s.plans[at].id.name, &t.Ops[at], t.At)
	}
	o.sum(t.Allowed)
	return o
}

// sum fills in the rest of an Outcome whose Each are known.
func (o *Outcome) sum(allowed bool) {
	for i := range o.Each {
		if i > 0 && o.Each[i].before(&o.Each[o.Index]) {
			o.Index = i
		}
	}
	o.Decision = o.Each[o.Index]
	o.Allowed = allowed
	for i := range o.Each {
		o.RetryAfter = max(o.RetryAfter, o.Each[i].RetryAfter)
	}
}

// before reports whether d is what an Outcome should tell rather than e.
func (d *Decision) before(e *Decision) bool {
	switch {
	case d.Allowed != e.Allowed:
		return !d.Allowed
	case d.Never != e.Never:
		return d.Never
	case !d.Allowed:
		return d.RetryAfter > e.RetryAfter
	}
	// d.Remaining / d.Limit < e.Remaining / e.Limit, exactly.
	dh, dl := bits.Mul64(uint64(d.Remaining), uint64(e.Limit))
	eh, el := bits.Mul64(uint64(e.Remaining), uint64(d.Limit))
	return dh < eh || dh == eh && dl < el
}
