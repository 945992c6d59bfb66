package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/ration-go/ration/driver"
)

// slots checks that no more hold than there are slots, whoever comes and goes at once.
func (s *suite) slots(t scope) {
	stores := s.handles(t)
	s.someOfMany(t, stores)
	for range s.long {
		s.comeAndGo(t, stores)
	}
}

const fiveSlots, slotCount = "concurrent 5 lease 1h", 5

// someOfMany: of 40 that want one of 5 slots at once, 5 get one, and after as many ends 5 others.
func (s *suite) someOfMany(t scope, stores []driver.Store) {
	t = &few{scope: t}
	const callers = 40
	p := s.place()
	for round := range 3 {
		holds := make([]holding, callers)
		together(callers, func(i int) {
			store := stores[i%len(stores)]
			txn := p.reserve(store, fmt.Sprintf("%d-%d", round, i), p.op(fiveSlots, "k", 1, 0))
			if err := failure(store, txn); err != nil {
				t.Errorf("one of %d reservations of a slot at once failed: %v", callers, err)
			} else if txn.Allowed {
				holds[i] = holding{txn}
			}
		})
		admitted := 0
		for _, h := range holds {
			if h.Txn != nil {
				admitted++
			}
		}
		if n := p.used(t, stores[0], fiveSlots, "k"); admitted != slotCount || n != slotCount {
			t.Errorf("of %d callers that want a slot of %s at once, %d should get one, but %d did and %d count", callers, fiveSlots, slotCount, admitted, n)
		}
		together(callers, func(i int) {
			if holds[i].Txn == nil {
				return
			}
			end := holds[i].ending(pickEnd(i))
			if err := failure(stores[(i+1)%len(stores)], end); err != nil || end.Ops[0].Result.Given != 1 {
				t.Errorf("the end of a hold of a slot should let go of 1, but answered %+v", end)
			}
		})
		if n := p.used(t, stores[0], fiveSlots, "k"); n != 0 {
			t.Errorf("all slots of %s were let go of, but %d count as held", fiveSlots, n)
		}
	}
}

func pickEnd(i int) driver.Verb {
	if i%2 == 0 {
		return driver.Cancel
	}
	return driver.Settle
}

// comeAndGo: at no moment are there more holders than slots, also where a budget refuses some of them.
func (s *suite) comeAndGo(t scope, stores []driver.Store) {
	t = &few{scope: t}
	const callers, rounds = 10, 10
	p := s.place()
	other := ""
	if limits := s.slowLimits(callers * rounds / 2); s.info.Caps.Has(driver.CapList) && len(limits) > 0 {
		other = limits[len(limits)-1]
	}
	var inside, passed atomic.Int64
	together(callers, func(i int) {
		for round := range rounds {
			store := stores[(i+round)%len(stores)]
			ops := []driver.Op{p.op(fiveSlots, "k", 1, 0)}
			if other != "" {
				ops = append(ops, p.op(other, "o", 1, 0))
			}
			txn := p.reserve(store, fmt.Sprintf("%d-%d", i, round), ops...)
			if err := failure(store, txn); err != nil {
				t.Errorf("a reservation of a slot beside others failed: %v", err)
			}
			if !txn.Allowed {
				continue
			}
			passed.Add(1)
			if n := inside.Add(1); n > slotCount {
				t.Errorf("%d callers hold a slot of %s at one time", n, fiveSlots)
			}
			inside.Add(-1)
			end := holding{txn}.ending(driver.Settle)
			if err := failure(store, end); err != nil {
				t.Errorf("letting go of a slot beside others failed: %v", err)
			}
		}
	})
	if n := p.used(t, stores[0], fiveSlots, "k"); n != 0 {
		t.Errorf("all slots of %s were let go of, but %d count as held", fiveSlots, n)
	}
	if other == "" {
		return
	}
	if n := p.used(t, stores[0], other, "o"); n != passed.Load() {
		t.Errorf("%d reservations of a slot and 1 of %s passed, so as many should be used, but %d are", passed.Load(), other, n)
	}
}
