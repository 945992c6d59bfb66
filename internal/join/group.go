package join

import (
	"math/bits"
	"slices"

	"github.com/ration-go/ration/driver"
)

// A group is waiters whose calls are one transaction to the store: equal takes of one key become one op with Times, hits
// of one counter become one hit of their sum, equal peeks one peek. Everything else is a group of its own.
type group struct {
	t    *driver.Txn // what is sent; of a single waiter its own
	all  []*waiter   // in the order in which they came; nil if there is only first
	one  *waiter
	key  int // which of the keys, in the order in which they came
	next int // another group of the same key; −1: none
}

type groups struct {
	txns []*driver.Txn
	all  []group
}

// mostHit bounds hits that are added up, so that a sum of them is no overflow that none of them was.
const mostHit = 1 << 32

func joinable(t *driver.Txn) bool {
	if len(t.Ops) != 1 || t.ID != "" || t.Ops[0].Times > 1 {
		return false
	}
	op := &t.Ops[0]
	switch t.Verb {
	case driver.Take, driver.Peek:
		return true
	case driver.Hit:
		return op.Cost > 0 && op.Cost <= mostHit
	}
	return false
}

// same reports whether a and b, of one key, are one request.
func same(a, b *driver.Txn) bool {
	x, y := &a.Ops[0], &b.Ops[0]
	return a.Verb == b.Verb && a.Now == b.Now && a.Async == b.Async && x.Size == y.Size && x.Rate == y.Rate && x.Span == y.Span &&
		x.Bounds == y.Bounds && (x.Cost == y.Cost || a.Verb == driver.Hit)
}

// groupsOf puts the calls of batch together. Takes of one key stand by cost and then by arrival, so that a store can decide
// them by a running sum.
func groupsOf(batch []*waiter) *groups {
	g := &groups{all: make([]group, 0, len(batch))}
	if len(batch) == 1 {
		g.txns = []*driver.Txn{batch[0].t}
		g.all = append(g.all, group{t: batch[0].t, one: batch[0]})
		return g
	}
	first := make(map[driver.Key]int, len(batch))
	keys, several := 0, false
	for _, w := range batch {
		if !joinable(w.t) {
			g.all = append(g.all, group{t: w.t, one: w, key: keys, next: -1})
			keys++
			continue
		}
		k := w.t.Ops[0].Key
		at, known := first[k]
		for known && at >= 0 && !same(g.all[at].one.t, w.t) {
			at = g.all[at].next
		}
		if known && at >= 0 {
			if x := &g.all[at]; x.all == nil {
				x.all = append(make([]*waiter, 0, 8), x.one, w)
			} else {
				x.all = append(x.all, w)
			}
			continue
		}
		x := group{t: w.t, one: w, key: keys, next: -1}
		if head, known := first[k]; known {
			several = true
			x.key, x.next = g.all[head].key, g.all[head].next
			g.all[head].next = len(g.all)
		} else {
			first[k] = len(g.all)
			keys++
		}
		g.all = append(g.all, x)
	}
	if several {
		slices.SortStableFunc(g.all, func(a, b group) int {
			if a.key != b.key {
				return a.key - b.key
			}
			return compare(a.one.t.Ops[0].Cost, b.one.t.Ops[0].Cost)
		})
	}
	g.txns = make([]*driver.Txn, len(g.all))
	for i := range g.all {
		if x := &g.all[i]; x.all != nil {
			x.join()
		}
		g.txns[i] = g.all[i].t
	}
	return g
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// join makes one transaction of the calls of x.
func (x *group) join() {
	t := *x.one.t
	t.Ops = []driver.Op{x.one.t.Ops[0]}
	op := &t.Ops[0]
	switch t.Verb {
	case driver.Take:
		op.Times = int64(len(x.all))
	case driver.Hit:
		op.Cost = 0
		for _, w := range x.all {
			op.Cost += w.t.Ops[0].Cost
		}
	}
	x.t = &t
}

// share gives each call its part of the answer, as if they had been decided one after the other. It answers the calls that
// have to be decided anew, one by one: hits whose sum is too much.
func (g *groups) share() (again []*driver.Txn) {
	for i := range g.all {
		x := &g.all[i]
		if x.all == nil {
			continue
		}
		if x.t.Verb == driver.Hit && x.t.Err != nil {
			for _, w := range x.all {
				again = append(again, w.t)
			}
			continue
		}
		x.share()
	}
	return again
}

func (x *group) share() {
	op := &x.t.Ops[0]
	end := op.Result
	var before int64 // Hit: what the calls so far have added
	for i, w := range x.all {
		t, r := w.t, &w.t.Ops[0].Result
		t.At, t.Err = x.t.At, x.t.Err
		if t.Err != nil {
			continue
		}
		*r = end
		switch t.Verb {
		case driver.Peek:
		case driver.Hit:
			before += t.Ops[0].Cost
			r.Used = end.Used - op.Cost + before
		case driver.Take:
			if int64(i) < end.Times {
				later := (end.Times - int64(i) - 1) * op.Cost // what the calls after this one took
				r.Allowed, r.Times, r.RetryAfter = true, 1, 0
				r.Used = max(0, end.Used-later)
				r.ResetAt = resetBefore(op, end.ResetAt, later, t.At)
			} else {
				r.Allowed, r.Times = false, 0
			}
		}
		t.Allowed = r.Allowed
	}
}

// resetBefore is when a limit is unused again if later is not taken: for a bucket that is earlier, within a tick of what
// it would have said itself.
func resetBefore(op *driver.Op, reset driver.Micros, later int64, at driver.Micros) driver.Micros {
	if op.Kind != driver.Bucket || later == 0 || op.Gain == 0 {
		return reset
	}
	hi, lo := bits.Mul64(uint64(later), uint64(op.Unit))
	if hi >= uint64(op.Gain) {
		return reset
	}
	ticks, _ := bits.Div64(hi, lo, uint64(op.Gain))
	if ticks > uint64(driver.Century/op.Tick) {
		return reset
	}
	return max(reset-driver.Micros(ticks)*op.Tick, at)
}
