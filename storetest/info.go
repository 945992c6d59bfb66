package storetest

import "github.com/ration-go/ration/driver"

// allCaps are all that there are.
const allCaps = driver.CapsRun | driver.CapsHolds

// describe reads what the store says of itself, and whether that can be true. It is false if nothing can be tested.
func (s *suite) describe(t scope) bool {
	t.Helper()
	store := s.h.Open(t)
	info := store.Info()
	s.info = info
	_, s.sweeper = store.(driver.Sweeper)
	_, s.keeps = store.(driver.Documents)
	if info.Kind == "" {
		t.Errorf("Info.Kind is empty: people are shown it")
	}
	if info.Scope < driver.Process || info.Scope > driver.Network {
		t.Errorf("Info.Scope %d is none of driver.Process, Machine and Network", info.Scope)
	}
	if info.MaxBatch < 0 || info.InFlight < 0 {
		t.Errorf("Info.MaxBatch is %d and Info.InFlight %d, but neither can be below 0", info.MaxBatch, info.InFlight)
	}
	if info.Caps.Has(driver.CapSlots) && !info.Caps.Has(driver.CapHolds) {
		t.Errorf("the store claims slots without holds, but a slot is held by a hold")
	}
	if info.Caps.Has(driver.CapHolds) && !info.Caps.Has(driver.CapIDs) {
		t.Errorf("the store claims holds without ids, but a hold is made once for its id")
	}
	if _, ok := store.(driver.HoldLister); info.Caps.Has(driver.CapHolds) && !(ok && s.sweeper) {
		t.Errorf("the store claims holds, so it must be a driver.Sweeper and a driver.HoldLister")
	}
	if more := info.Caps &^ allCaps; more != 0 {
		t.Errorf("the store claims caps that there are not: %s", capNames(more))
	}
	const kinds = driver.CapBucket | driver.CapWindow | driver.CapCounter | driver.CapBudget
	if info.Caps&kinds == 0 {
		t.Errorf("the store claims no kind of state, so there is nothing to test")
		return false
	}
	if absent := allCaps &^ info.Caps; absent != 0 {
		t.Logf("the store does not claim %s: cases that need it are left out", capNames(absent))
	}
	return true
}

// trips: a decision is one round trip, whatever it is about, and so is a batch.
func (s *suite) trips(t scope) {
	store := s.h.Open(t)
	p := s.place()
	for _, text := range s.slowLimits(5) {
		for _, verb := range []driver.Verb{driver.Take, driver.Peek} {
			txn := p.txn(verb, text, "warm", 1)
			if err := failure(store, txn); err != nil { // scripts are loaded, statements prepared
				t.Errorf("a first decision on %s failed: %v", text, err)
			}
		}
		measure := func(what string, batch ...*driver.Txn) {
			before := s.h.Trips(store)
			if err := failure(store, batch...); err != nil {
				t.Errorf("%s of %s failed: %v", what, text, err)
			}
			if n := s.h.Trips(store) - before; n != 1 {
				t.Errorf("%s of %s should be one round trip, but made %d", what, text, n)
			}
		}
		measure("a take", p.txn(driver.Take, text, "k", 5))
		measure("a refused take", p.txn(driver.Take, text, "k", 1))
		measure("a look", p.txn(driver.Peek, text, "k", 1))
		if s.info.Caps.Has(driver.CapList) {
			measure("a decision over two keys", p.pair(driver.Take, text, "warm", "other", 1))
		}
		if s.info.Caps.Has(driver.CapHolds) {
			s.holdTrips(t, store, p, text, measure)
		}
		if s.info.MaxBatch > 1 {
			var batch []*driver.Txn
			for i := range min(50, s.info.MaxBatch) {
				batch = append(batch, p.txn(driver.Take, text, "k"+string(rune('a'+i%26)), 1))
			}
			for _, txn := range batch {
				txn.Ops[0].Key.Group = "one" // on a cluster a batch of many groups is one trip to each node
			}
			measure("a batch of takes", batch...)
		}
	}
}

// holdTrips: a reservation over three limits is one round trip, and so is each call on it with the reservation in hand.
func (s *suite) holdTrips(t scope, store driver.Store, p place, text string, measure func(what string, batch ...*driver.Txn)) {
	reserve := func(name string) *driver.Txn {
		ops := []driver.Op{p.op(text, "h1", 1, 0)}
		if s.info.Caps.Has(driver.CapList) {
			ops = append(ops, p.op(text, "h2", 1, 0), p.op(text, "h3", 1, 0))
		}
		return p.reserve(store, name+" "+text, ops...)
	}
	warm := reserve("warm")
	if err := failure(store, warm); err != nil {
		t.Errorf("a first reservation of %s failed: %v", text, err)
	}
	if err := failure(store, holding{warm}.ending(driver.Settle, 1)); err != nil {
		t.Errorf("a first settle of %s failed: %v", text, err)
	}
	one, two := reserve("one"), reserve("two")
	measure("a reservation over several keys", one)
	measure("a reservation over several keys", two)
	measure("a report of progress", holding{one}.ending(driver.Progress, 1))
	measure("a renewal", holding{one}.ending(driver.Renew))
	measure("a settle", holding{one}.ending(driver.Settle, 1))
	measure("a cancel", holding{two}.ending(driver.Cancel))
}
