package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ration-go/ration/driver"
)

// parallel checks what many callers of one handle get at once.
func (s *suite) parallel(t scope) {
	store := s.h.Open(t)
	if s.info.Caps.Has(driver.CapCounter) {
		s.hitsAtOnce(t, []driver.Store{store})
	}
	for _, text := range s.slowLimits(10) {
		s.takesAtOnce(t, []driver.Store{store}, text)
	}
	for _, text := range s.slowLimits(100) {
		s.exactly(t, []driver.Store{store}, text, 100)
	}
}

// twoHandles is the same over two handles of the same data.
func (s *suite) twoHandles(t scope) {
	one := s.h.Open(t)
	two := s.h.Again(t, one)
	both := []driver.Store{one, two}
	for _, text := range s.slowLimits(10) {
		p := s.place()
		if err := failure(one, p.txn(driver.Take, text, "k", 4)); err != nil {
			t.Errorf("taking 4 of %s failed: %v", text, err)
		}
		if n := p.used(t, two, text, "k"); n != 4 {
			t.Errorf("one handle took 4 of %s; another handle of the same data should see 4 used, but sees %d", text, n)
		}
		s.takesAtOnce(t, both, text)
	}
	if s.info.Caps.Has(driver.CapCounter) {
		s.hitsAtOnce(t, both)
	}
	for _, text := range s.slowLimits(100) {
		s.exactly(t, both, text, 100)
	}
	if s.info.Caps.Has(driver.CapList) {
		s.crossed(t, both)
	}
}

// hitsAtOnce: 50 hits of 1 at once answer 1 to 50, each once.
func (s *suite) hitsAtOnce(t scope, stores []driver.Store) {
	t = &few{scope: t}
	const hits = 50
	for range 4 * s.long {
		p := s.place()
		var mu sync.Mutex
		var counts []int64
		together(hits, func(i int) {
			txn := p.hit("k", 1)
			if err := failure(stores[i%len(stores)], txn); err != nil {
				t.Errorf("one of %d hits at once failed: %v", hits, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			counts = append(counts, txn.Ops[0].Result.Used)
		})
		slices.Sort(counts)
		for i, n := range counts {
			if n != int64(i+1) {
				t.Errorf("%d hits of 1 at once should answer each count from 1 to %d once, but answered %v", hits, hits, counts)
				return
			}
		}
	}
}

// takesAtOnce: of 25 takes of 1 at once, a limit of 10 admits 10; with 9 used it admits 1.
func (s *suite) takesAtOnce(t scope, stores []driver.Store, text string) {
	t = &few{scope: t}
	const callers, size = 25, 10
	for _, before := range []int64{0, size - 1} {
		p := s.place()
		if before > 0 {
			if err := failure(stores[0], p.txn(driver.Take, text, "k", before)); err != nil {
				t.Errorf("taking %d of %s failed: %v", before, text, err)
			}
		}
		var admitted atomic.Int64
		together(callers, func(i int) {
			txn := p.txn(driver.Take, text, "k", 1)
			if err := failure(stores[i%len(stores)], txn); err != nil {
				t.Errorf("one of %d takes of %s at once failed: %v", callers, text, err)
			} else if txn.Allowed {
				admitted.Add(1)
			}
		})
		if n := admitted.Load(); n != size-before {
			t.Errorf("of %d takes of 1 at once, %s with %d used should admit %d, but admitted %d", callers, text, before, size-before, n)
		}
		if n := p.used(t, stores[0], text, "k"); n != size {
			t.Errorf("after %d takes of 1 at once, %s should count %d used, but counts %d", callers, text, size, n)
		}
	}
}

// exactly: batches, costs above 1 and joined uses of many callers add up to what the limit has, and no more.
func (s *suite) exactly(t scope, stores []driver.Store, text string, size int64) {
	t = &few{scope: t}
	const callers, rounds = 8, 4
	p := s.place()
	var charged atomic.Int64
	together(callers, func(i int) {
		for round := range rounds {
			one, joined, two := p.txn(driver.Take, text, "k", 1), p.txn(driver.Take, text, "k", 1), p.txn(driver.Take, text, "k", 2)
			joined.Ops[0].Times = 3
			batch := []*driver.Txn{one, joined, two}[:min(3, s.maxBatch())]
			if err := failure(stores[(i+round)%len(stores)], batch...); err != nil {
				t.Errorf("a batch of takes of %s beside others failed: %v", text, err)
				continue
			}
			for _, txn := range batch {
				if r := txn.Ops[0].Result; txn == joined {
					charged.Add(r.Times)
				} else if txn.Allowed {
					charged.Add(txn.Ops[0].Cost)
				}
			}
		}
	})
	tail := int64(0)
	for range size { // what is left over goes to single takes
		txn := p.txn(driver.Take, text, "k", 1)
		if err := failure(stores[0], txn); err != nil || !txn.Allowed {
			break
		}
		tail++
	}
	if n := charged.Load() + tail; n != size {
		t.Errorf("%s should admit exactly %d among %d callers that take 1, 2 and 3 × 1 in batches, but admitted %d", text, size, callers, n)
	}
	if n := p.used(t, stores[0], text, "k"); n != size {
		t.Errorf("%s, used up by %d callers, should count %d used, but counts %d", text, callers, size, n)
	}
}

// parallelLists checks that decisions over several limits are one step.
func (s *suite) parallelLists(t scope) {
	store := s.h.Open(t)
	s.crossed(t, []driver.Store{store})
	for _, text := range s.slowLimits(50) {
		s.neverTorn(t, store, text)
		s.longest(t, store, text)
	}
}

// pair is a decision over two keys.
func (p place) pair(verb driver.Verb, text, a, b string, cost int64) *driver.Txn {
	return &driver.Txn{Verb: verb, Ops: []driver.Op{p.op(text, a, cost, 0), p.op(text, b, cost, 0)}}
}

// longest: as many limits as there may be in one decision are charged, or none of them.
func (s *suite) longest(t scope, store driver.Store, text string) {
	p := s.place()
	key := func(i int) string { return fmt.Sprint("k", i) }
	for i, want := range []bool{true, false} {
		txn := &driver.Txn{Verb: driver.Take}
		for j := range driver.MaxOps {
			txn.Ops = append(txn.Ops, p.op(text, key(j), 1, 0))
		}
		if err := failure(store, txn); err != nil || txn.Allowed != want {
			t.Errorf("decision %d over %d keys of %s should answer %v, but answered %v, %v", i+1, driver.MaxOps, text, want, txn.Allowed, err)
		}
		for _, j := range []int{0, 1, driver.MaxOps / 2, driver.MaxOps - 2} {
			if n := p.used(t, store, text, key(j)); n != 1 {
				t.Errorf("of %d keys of %s that are decided together, number %d should have 1 used after decision %d, but has %d", driver.MaxOps, text, j+1, i+1, n)
			}
		}
		if full := p.txn(driver.Take, text, key(driver.MaxOps-1), 49); failure(store, full) != nil || full.Allowed != want {
			t.Errorf("taking what is left of the last of %d keys of %s answered %v, %v", driver.MaxOps, text, full.Allowed, full.Err)
		}
	}
}

// crossed: A,B against B,A neither stand still nor lose a charge.
func (s *suite) crossed(t scope, stores []driver.Store) {
	t = &few{scope: t}
	const callers = 4
	rounds := 50 * s.long
	limits := s.slowLimits(int64(callers*rounds + 1))
	if len(limits) == 0 {
		return
	}
	text, p := limits[0], s.place()
	together(callers, func(i int) {
		a, b := "a", "b"
		if i%2 == 1 {
			a, b = b, a
		}
		for range rounds {
			txn := p.pair(driver.Take, text, a, b, 1)
			if err := failure(stores[i/2%len(stores)], txn); err != nil {
				t.Errorf("a decision over %s and %s, while others decide over the two in the other order, failed: %v", a, b, err)
				return
			}
			if !txn.Allowed {
				t.Errorf("a decision over %s and %s, where both have room, was refused", a, b)
				return
			}
		}
	})
	for _, key := range []string{"a", "b"} {
		if n, want := p.used(t, stores[0], text, key), int64(callers*rounds); n != want {
			t.Errorf("%d decisions over a and b, or b and a, should count %d for %s, but count %d", want, want, key, n)
		}
	}
}

// neverTorn: nobody sees one of two keys charged and the other not yet, nor a charge of a list that is refused.
func (s *suite) neverTorn(t scope, store driver.Store, text string) {
	t = &few{scope: t}
	const callers, rounds = 6, 12
	p := s.place()
	full := p.txn(driver.Take, text, "full", 50)
	if err := failure(store, full); err != nil || !full.Allowed {
		t.Errorf("taking all 50 of %s should pass, but answered %v, %v", text, full.Allowed, err)
		return
	}
	var admitted atomic.Int64
	together(2*callers, func(i int) {
		for range rounds {
			if i%2 == 0 {
				txn := p.pair(driver.Take, text, "a", "b", 1)
				refused := p.pair(driver.Take, text, "c", "full", 1)
				for _, txn := range []*driver.Txn{txn, refused} {
					if err := failure(store, txn); err != nil {
						t.Errorf("a decision over two keys of %s failed: %v", text, err)
					}
				}
				if txn.Allowed {
					admitted.Add(1)
				}
				if refused.Allowed {
					t.Errorf("a decision over two keys of %s passed, though one of them has nothing left", text)
				}
				continue
			}
			both := p.pair(driver.Peek, text, "a", "b", 0)
			rest := p.txn(driver.Peek, text, "c", 0)
			for _, txn := range []*driver.Txn{both, rest} {
				if err := failure(store, txn); err != nil {
					t.Errorf("a look at keys of %s failed: %v", text, err)
				}
			}
			if a, b := both.Ops[0].Result.Used, both.Ops[1].Result.Used; a != b {
				t.Errorf("keys of %s that are only charged together were seen with %d and %d used: a decision was torn", text, a, b)
			}
			if n := rest.Ops[0].Result.Used; n != 0 {
				t.Errorf("a key of %s that is only in refused decisions was seen with %d used", text, n)
			}
		}
	})
	if n := admitted.Load(); n != 50 {
		t.Errorf("of %d decisions over two keys with 50 each, %s should admit 50, but admitted %d", callers*rounds, text, n)
	}
	for key, want := range map[string]int64{"a": 50, "b": 50, "c": 0, "full": 50} {
		if n := p.used(t, store, text, key); n != want {
			t.Errorf("%s should count %d for %s after decisions side by side, but counts %d", text, want, key, n)
		}
	}
}
