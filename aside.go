package ration

import (
	"context"
	"errors"
	"sync"

	"github.com/ration-go/ration/driver"
)

// Aside is charges that are decided beside a call, each by itself: limits on trial, whose answers change nothing for the caller.
// Make it with Limiter.Aside.
type Aside struct {
	plans []*plan
	keys  []Key
	costs []int64

	mu      sync.Mutex
	results []AsideResult // nil: there was no call, or it has not ended
}

// AsideResult answers one charge of an Aside.
type AsideResult struct {
	Decision
	Err error // it could not be told
}

type asideKey struct{}

// errNotAsked is of charges whose call has not reached the store.
var errNotAsked = errors.New("ration: not asked: the call beside which it stands was answered without the store, or failed")

// Aside is ctx for one call of Take, TakeAll, TakeOnce or Reserve on l, with charges to be taken in the same call of the store:
// beside it, each by itself, whatever becomes of the others. So they cost no round trip. They are charged if the call is refused,
// too; not if it is answered without the store, or if it fails. Read the results when the call has returned.
//
// A call that is repeated under its id takes them again. A lease is not used while charges stand beside a call.
func (l *Limiter) Aside(ctx context.Context, charges ...Charge) (context.Context, *Aside, error) {
	a := new(Aside)
	for i := range charges {
		c := &charges[i]
		p, err := l.prepare(c.key, c.limit)
		if err == nil {
			err = checkCost(c.cost)
		}
		if err == nil {
			err = p.takeable()
		}
		if err != nil {
			return ctx, nil, err
		}
		a.plans, a.keys, a.costs = append(a.plans, p), append(a.keys, c.key), append(a.costs, c.cost)
	}
	l.asides.Store(true)
	return context.WithValue(ctx, asideKey{}, a), a, nil
}

// Results answers the charges, in the order given. It is safe for concurrent use.
func (a *Aside) Results() []AsideResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.results == nil {
		none := make([]AsideResult, len(a.plans))
		for i := range none {
			none[i].Err = errNotAsked
		}
		return none
	}
	return a.results
}

// aside is that of ctx; nil if there is none. Most Limiters never have one, and do not look.
func (l *Limiter) aside(ctx context.Context) *Aside {
	if !l.asides.Load() {
		return nil
	}
	a, _ := ctx.Value(asideKey{}).(*Aside)
	return a
}

// txns are the charges of a as transactions of their own.
func (a *Aside) txns(l *Limiter) []*driver.Txn {
	if a == nil {
		return nil
	}
	txns := make([]*driver.Txn, len(a.plans))
	for i, p := range a.plans {
		t := &driver.Txn{Verb: driver.Take, Ops: make([]driver.Op, 1)}
		l.ready(&t.Ops[0], p, a.keys[i], a.costs[i])
		txns[i] = t
	}
	return txns
}

// answered notes what became of txns.
func (a *Aside) answered(txns []*driver.Txn) {
	if a == nil {
		return
	}
	results := make([]AsideResult, len(txns))
	for i, t := range txns {
		if results[i].Err = t.Err; t.Err == nil {
			results[i].fill(a.plans[i].id.name, &t.Ops[0], t.At)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results = results
}
