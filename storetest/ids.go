package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ration-go/ration/driver"
)

// handles are one or, where there is Harness.Again, two stores of the same data.
func (s *suite) handles(t scope) []driver.Store {
	stores := []driver.Store{s.h.Open(t)}
	if s.h.Again != nil {
		stores = append(stores, s.h.Again(t, stores[0]))
	}
	return stores
}

// id is an id in this place, as the Limiter would make it for a decision whose first op is op.
func (p place) id(store driver.Store, op driver.Op, name string) string {
	if router, ok := store.(driver.Router); ok {
		name = router.Route(op.Key) + "." + name
	}
	return p.prefix + "|" + name
}

const hour = driver.Micros(3_600_000_000)

// once is a take of ops that happens once for name. The ops are its own.
func (p place) once(store driver.Store, name string, ops ...driver.Op) *driver.Txn {
	return &driver.Txn{Verb: driver.Take, ID: p.id(store, ops[0], name), TTL: hour / 6, Ops: ops}
}

// reserve is a hold of ops for an hour.
func (p place) reserve(store driver.Store, name string, ops ...driver.Op) *driver.Txn {
	t := p.once(store, name, ops...)
	t.Hold, t.TTL = true, hour
	return t
}

// ending is an end of the hold that t made, with the ops of t in hand.
func (t holding) ending(verb driver.Verb, amounts ...int64) *driver.Txn {
	e := &driver.Txn{Verb: verb, ID: t.ID, Now: t.Now, Amounts: amounts}
	for _, op := range t.Ops {
		op.Result = driver.Result{}
		e.Ops = append(e.Ops, op)
	}
	return e
}

// holding is a reservation, to be ended.
type holding struct{ *driver.Txn }

// ids checks what happens once, side by side and after replies that were lost.
func (s *suite) ids(t scope) {
	stores := s.handles(t)
	for i, text := range s.slowLimits(1000) {
		s.onceAtOnce(t, stores, text, crowds[min(i, 1)], false)
		s.eitherAtOnce(t, stores, text)
		s.lostReply(t, stores[0], text)
	}
}

// crowds are how many callers come at once for the first kind of limit, and for the others.
var crowds = [...]int{100, 20}

// onceAtOnce: a hundred callers with one id are answered alike, and it is charged once.
func (s *suite) onceAtOnce(t scope, stores []driver.Store, text string, crowd int, hold bool) {
	t = &few{scope: t}
	p := s.place()
	s.someUsed(t, stores[0], p, text)
	answers := make([]*driver.Txn, crowd)
	together(crowd, func(i int) {
		store := stores[i%len(stores)]
		txn := p.once(store, "id", p.op(text, "k", 7, 0))
		txn.Hold = hold
		if err := failure(store, txn); err != nil || !txn.Allowed {
			t.Errorf("one of %d takes of 7 of %s under one id at once should pass, but answered %v, %v", crowd, text, txn.Allowed, err)
			return
		}
		answers[i] = txn
	})
	for _, txn := range answers {
		if first := answers[0]; txn != nil && first != nil && (txn.At != first.At || txn.Ops[0].Result != first.Ops[0].Result) {
			t.Errorf("%d takes of 7 of %s under one id at once should be answered alike, but were with %+v at %d and %+v at %d",
				crowd, text, first.Ops[0].Result, first.At, txn.Ops[0].Result, txn.At)
		}
	}
	if n := p.used(t, stores[0], text, "k"); n != 3+7 {
		t.Errorf("%d takes of 7 of %s under one id, with 3 used before, should leave 10 used, but leave %d", crowd, text, n)
	}
}

// eitherAtOnce: of two requests under one id at once, one is decided, and whoever asked for the other is told so.
func (s *suite) eitherAtOnce(t scope, stores []driver.Store, text string) {
	t = &few{scope: t}
	const callers = 20
	p := s.place()
	var passed [2]atomic.Int64
	together(callers, func(i int) {
		store := stores[i/2%len(stores)]
		txn := p.once(store, "id", p.op(text, "k", int64(1+i%2), 0))
		switch err := failure(store, txn); {
		case err == nil && txn.Allowed:
			passed[i%2].Add(1)
		case !errors.Is(err, driver.ErrIDReused):
			t.Errorf("of two requests to %s under one id at once, the other should get driver.ErrIDReused, but got %v, %v", text, txn.Allowed, err)
		}
	})
	one, two := passed[0].Load(), passed[1].Load()
	if one != callers/2 && one != 0 || one+two != callers/2 {
		t.Errorf("of two requests to %s under one id, by %d callers each, one should pass for all of them, but %d and %d passed", text, callers/2, one, two)
	}
	if n, want := p.used(t, stores[0], text, "k"), min(one, 1)+2*min(two, 1); n != want {
		t.Errorf("of takes of 1 and 2 of %s under one id one passed, so %d should be used, but %d are", text, want, n)
	}
}

var errLost = errors.New("storetest: the reply was lost")

// losing is store with the reply of every odd call lost.
func losing(store driver.Store) driver.Store {
	var calls atomic.Int64
	return WithFaults(store, func(context.Context, []*driver.Txn) (f Fault) {
		if calls.Add(1)%2 == 1 {
			f.LoseReply = errLost
		}
		return f
	})
}

// resent makes a call and, as its reply is lost, makes it again.
func resent(store driver.Store, call func() *driver.Txn) (*driver.Txn, error) {
	if err := apply(store, call()); !errors.Is(err, errLost) {
		return nil, err
	}
	txn := call()
	return txn, failure(store, txn)
}

// lostReply: a take whose reply was lost is made again under its id, and charged once.
func (s *suite) lostReply(t scope, store driver.Store, text string) {
	p := s.place()
	txn, err := resent(losing(store), func() *driver.Txn { return p.once(store, "id", p.op(text, "k", 7, 0)) })
	if err != nil || !txn.Allowed || txn.Ops[0].Result.Used != 7 {
		t.Errorf("a take of 7 of %s whose reply was lost, made again with its id, should answer yes and 7 used, but answered %+v, %v", text, txn, err)
	}
	if n := p.used(t, store, text, "k"); n != 7 {
		t.Errorf("a take of 7 of %s whose reply was lost, made again with its id, should leave 7 used, but leaves %d", text, n)
	}
}
