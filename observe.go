package ration

import (
	"context"
	"time"

	"github.com/ration-go/ration/driver"
)

// start is the time if somebody wants to know.
func (l *Limiter) start() (t time.Time) {
	if l.opts.Observer != nil {
		t = time.Now()
	}
	return t
}

// observe tells of a call of a verb on limit; nil if it has none. It may only switch on limit's type, see idOf.
func (l *Limiter) observe(ctx context.Context, verb string, limit Limit, start time.Time, d Decision, err error) {
	o := l.opts.Observer
	if o == nil || o.Decided == nil {
		return
	}
	name := d.Name
	if rule, ok := limit.(Rule); ok {
		name = rule.Name
	}
	o.Decided(ctx, Event{Verb: verb, Decision: d, Err: err, Duration: time.Since(start), Name: name})
}

// observeList tells of a call of a verb on charges.
func (l *Limiter) observeList(ctx context.Context, verb string, charges []Charge, start time.Time, out Outcome, err error) {
	o := l.opts.Observer
	if o == nil || o.Decided == nil {
		return
	}
	e := Event{Verb: verb, Decision: out.Decision, Err: err, Duration: time.Since(start)}
	if len(charges) == 1 {
		e.Name = charges[0].name()
		o.Decided(ctx, e)
		return
	}
	if e.Each = out.Each; err != nil {
		e.Each = make([]Decision, min(len(charges), driver.MaxOps))
		for i := range e.Each {
			e.Each[i].Name = charges[i].name()
		}
	}
	o.Decided(ctx, e)
}

// name is that of the charge's Rule.
func (c *Charge) name() string {
	if rule, ok := c.limit.(Rule); ok {
		return rule.Name
	}
	return ""
}

// callStore makes one call to the store, not by way of the joiner, and tells of it.
func (l *Limiter) callStore(ctx context.Context, batch []*driver.Txn) error {
	told := l.applied()
	if told == nil {
		return l.store.Apply(ctx, batch)
	}
	ops := 0 // counted before: after an error the store may still write
	for _, t := range batch {
		ops += len(t.Ops)
	}
	start := time.Now()
	err := l.store.Apply(ctx, batch)
	told(ctx, len(batch), ops, nil, start, err)
	return err
}

// applied is whom to tell of calls to the store; nil if nobody wants to know.
func (l *Limiter) applied() func(ctx context.Context, txns, ops int, callers []context.Context, start time.Time, err error) {
	o := l.opts.Observer
	if o == nil || o.Stored == nil || l.info.Instant {
		return nil
	}
	return func(ctx context.Context, txns, ops int, callers []context.Context, start time.Time, err error) {
		o.Stored(ctx, StoreCall{Start: start, Duration: time.Since(start), Transactions: txns, Operations: ops, Err: err, Callers: callers})
	}
}

// Stats are figures of a Limiter at one moment, for metrics. Counts are since New.
type Stats struct {
	StoreUp  bool // decisions go to the store; always so for a store that is Instant
	Queued   int  // calls that wait for the store, until a batch takes them along
	InFlight int  // batches under way; 0 if calls do not travel together
	Waiting  int  // calls of Wait, and of Reserve with ReserveOptions.Wait

	LeasedKeys  int   // for which this process takes uses ahead, or did a moment ago
	LeasedAhead int64 // uses that the store is charged with and that were not served yet
	LeaseServed int64 // calls that were answered from them

	RefusalsRepeated int64 // from memory, see Options.RememberRefusals

	LocalKeys  int // that LocalOnError counts at the moment
	LocalDebts int // charges that the store has not been told of since it is up again
}

// Stats takes a moment for each key that is leased. It may be called at any time, also after Close.
func (l *Limiter) Stats() (s Stats) {
	s.StoreUp = l.circuit == nil || !l.circuit.open.Load()
	if l.joiner != nil {
		s.Queued, s.InFlight = l.joiner.Load()
	}
	s.Waiting = l.lines.len()
	s.LeasedKeys, s.LeasedAhead = l.leases.ahead()
	s.LeaseServed = l.leases.served.Load()
	s.RefusalsRepeated = l.refusals.repeated.Load()
	l.local.mu.Lock()
	defer l.local.mu.Unlock()
	s.LocalKeys, s.LocalDebts = len(l.local.charged), len(l.local.debts)
	return s
}

// len is how many callers wait.
func (ls *lines) len() (n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, q := range ls.byKey {
		n += len(q.waiters)
	}
	return n
}

// ahead is how many keys are leased, and how many uses this process has of them.
func (ls *leases) ahead() (keys int, uses int64) {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	for _, e := range ls.keys {
		e.mu.Lock()
		uses += e.ahead()
		e.mu.Unlock()
	}
	return len(ls.keys), uses
}
