package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/ration-go/ration/driver"
)

// room is for how many keys a store is opened that is to be filled.
const room = 100

// full checks what a store does at its cap: it refuses new keys rather than forget what counts.
func (s *suite) full(t scope) {
	t.part("keeps what counts", false, s.fullKeeps)
	t.part("still answers", false, s.fullAnswers)
	t.part("uses what has ended", false, s.fullReuses)
	if s.sweeper {
		t.part("sweep makes room", false, s.fullSweeps)
	}
}

// lasting is a limit whose states, used once, may not be dropped to make room. Of hourCounter a charge is a hit.
func (s *suite) lasting() string {
	switch {
	case s.info.Caps.Has(driver.CapCounter):
		return hourCounter
	case s.info.Caps.Has(driver.CapBudget):
		return "budget 1000/year"
	}
	return s.slowLimits(1)[0] // used up by one use
}

func (p place) charge(text, key string, now driver.Micros) *driver.Txn {
	txn := p.txn(driver.Take, text, key, 1)
	if now != 0 {
		txn = p.txnAt(now, driver.Take, text, key, 1)
	}
	if text == hourCounter {
		txn.Verb = driver.Hit
	}
	return txn
}

// fill makes new states until the store refuses one, and answers how many it took.
func (s *suite) fill(t scope, store driver.Store, p place, text, name string, now driver.Micros) (taken int) {
	for i := range 4*room + 1 {
		txn := p.charge(text, fmt.Sprintf("%s-%d", name, i), now)
		switch err := failure(store, txn); {
		case err == nil:
			taken++
		case errors.Is(err, driver.ErrFull):
			if !errors.Is(err, driver.ErrNotApplied) {
				t.Errorf("a new key at the cap should be refused with driver.ErrFull itself, but was with: %v", err)
			}
			return taken
		default:
			t.Errorf("filling the store with states of %s failed: %v", text, err)
			return taken
		}
	}
	return taken
}

// fullKeeps: a flood of new keys loses no key at its limit, no count and no budget.
func (s *suite) fullKeeps(t scope) {
	store := s.h.Full(t, room)
	p := s.place()
	limits := s.slowLimits(5)
	limits = append(limits, "bucket 1/1000s burst 5")
	if !s.info.Caps.Has(driver.CapBucket) {
		limits = limits[:len(limits)-1]
	}
	now := base
	for _, text := range limits {
		txn := p.txnAt(now, driver.Take, text, text, 5)
		if err := failure(store, txn); err != nil || !txn.Allowed {
			t.Errorf("taking all 5 of %s should pass, but answered %v, %v", text, txn.Allowed, err)
		}
	}
	if s.info.Caps.Has(driver.CapCounter) {
		if err := failure(store, p.txnAt(now, driver.Hit, hourCounter, "y", 3)); err != nil {
			t.Errorf("a hit failed: %v", err)
		}
	}
	if s.info.Caps.Has(driver.CapBudget) {
		if err := failure(store, p.txnAt(now, driver.Take, "budget 1000/year", "y", 3)); err != nil {
			t.Errorf("taking 3 of a budget failed: %v", err)
		}
	}
	still := s.rememberedThings(t, store, p, limits[0])
	// States of all sorts pass by: such as may be dropped, and then such as may not.
	now += 301 * 1_000_000
	for _, text := range []string{"bucket 10/1s burst 10", "sliding 10/10s", "fixed 10/10s"} {
		if l, err := parseLimit("", text); err == nil && s.info.Caps.Has(kindCaps[l.op.Kind]) {
			s.flood(t, store, p, text, now)
		}
	}
	taken := s.fill(t, store, p, s.lasting(), "fresh", now)
	if taken > 4*room {
		t.Errorf("a store with room for %d keys took more than %d that may not be dropped, and never answered driver.ErrFull", room, 4*room)
	}
	still()
	for _, text := range limits {
		txn := p.txnAt(now, driver.Take, text, text, 1)
		if err := failure(store, txn); err != nil || txn.Allowed {
			t.Errorf("a key that has used up %s should still be refused after a flood of new keys, but was answered %v, %v", text, txn.Allowed, err)
		}
	}
	if s.info.Caps.Has(driver.CapCounter) {
		txn := p.txnAt(now, driver.Hit, hourCounter, "y", 1)
		if err := failure(store, txn); err != nil || txn.Ops[0].Result.Used != 4 {
			t.Errorf("a counter at 3 should go on to 4 after a flood of new keys, but answered %d, %v", txn.Ops[0].Result.Used, err)
		}
	}
	if s.info.Caps.Has(driver.CapBudget) {
		txn := p.txnAt(now, driver.Take, "budget 1000/year", "y", 1)
		if err := failure(store, txn); err != nil || txn.Ops[0].Result.Used != 4 {
			t.Errorf("a budget with 3 used should go on to 4 after a flood of new keys, but answered %d, %v", txn.Ops[0].Result.Used, err)
		}
	}
}

// rememberedThings makes an id and a hold, and answers a check that they are still known.
func (s *suite) rememberedThings(t scope, store driver.Store, p place, text string) (check func()) {
	var all []*driver.Txn
	if s.info.Caps.Has(driver.CapIDs) {
		all = append(all, p.once(store, "once", p.op(text, "once", 1, base)))
	}
	if s.info.Caps.Has(driver.CapHolds) {
		all = append(all, p.reserve(store, "held", p.op(text, "held", 1, base)))
	}
	for _, txn := range all {
		if txn.Now = base; failure(store, txn) != nil || !txn.Allowed {
			t.Errorf("a take of %s under an id should pass, but answered %v, %v", text, txn.Allowed, txn.Err)
		}
	}
	return func() {
		for _, txn := range all {
			again := &driver.Txn{Verb: driver.Take, Hold: txn.Hold, ID: txn.ID, TTL: txn.TTL, Now: base + 301_000_000, Ops: holding{txn}.ending(driver.Settle).Ops}
			if err := failure(store, again); err != nil || again.At != base {
				t.Errorf("an id (of a hold: %v) should be known after a flood of new keys, but was answered as at %s (%v)", txn.Hold, instantText(again.At), err)
			}
			if !txn.Hold {
				continue
			}
			end := holding{txn}.ending(driver.Cancel)
			end.Now = again.Now
			look := p.txnAt(again.Now, driver.Peek, text, "held", 0)
			if err := failure(store, end, look); err != nil || look.Ops[0].Result.Used != 0 {
				t.Errorf("a hold of 1 should be cancelled at the cap as ever, but leaves %d used (%v)", look.Ops[0].Result.Used, err)
			}
		}
	}
}

// flood sends many new keys, which the store may take or refuse.
func (s *suite) flood(t scope, store driver.Store, p place, text string, now driver.Micros) {
	for i := range 3 * room {
		err := failure(store, p.txnAt(now, driver.Take, text, fmt.Sprintf("flood-%d", i), 1))
		if err != nil && !errors.Is(err, driver.ErrFull) {
			t.Errorf("a take of %s by a new key may be refused at the cap with driver.ErrFull, but failed with: %v", text, err)
			return
		}
	}
}

// fullAnswers: at the cap what needs no room works, and one key's refusal is not its neighbour's.
func (s *suite) fullAnswers(t scope) {
	store := s.h.Full(t, room)
	p, text := s.place(), s.lasting()
	taken := s.fill(t, store, p, text, "k", 0)
	if taken < room/2 || taken > 4*room {
		t.Errorf("a store with room for %d keys should take between %d and %d that may not be dropped, but took %d", room, room/2, 4*room, taken)
		return
	}
	for _, limitText := range s.slowLimits(5) {
		for _, c := range []struct {
			what  string
			verb  driver.Verb
			cost  int64
			given int64
		}{
			{"a look", driver.Peek, 1, 0}, {"a take of 0", driver.Take, 0, 0}, {"a take of more than the limit", driver.Take, 6, 0},
			{"a refund", driver.Refund, 1, 0}, {"a reset", driver.Reset, 0, 0},
		} {
			txn := p.txn(c.verb, limitText, "new", c.cost)
			txn.Ops[0].At = 1
			if err := failure(store, txn); err != nil {
				t.Errorf("%s of %s by an unknown key writes nothing, so it should work at the cap, but failed: %v", c.what, limitText, err)
			}
		}
	}
	if s.info.Caps.Has(driver.CapCounter) {
		if err := failure(store, p.hit("new", 0)); err != nil {
			t.Errorf("a hit of 0 by an unknown key only reads, so it should work at the cap, but failed: %v", err)
		}
	}
	old, fresh, other := p.charge(text, "k-0", 0), p.charge(text, "one too many", 0), p.charge(text, "k-1", 0)
	batch := []*driver.Txn{old, fresh, other}[:min(3, s.maxBatch())]
	if err := apply(store, batch...); err != nil {
		t.Errorf("a batch at the cap should fail only for the new key in it, but failed as a whole: %v", err)
	}
	for _, txn := range batch {
		if want := txn == fresh; (txn.Err != nil) != want || want && !errors.Is(txn.Err, driver.ErrFull) {
			t.Errorf("in a batch at the cap, a new key should get driver.ErrFull and known keys no error, but %q got: %v", txn.Ops[0].Key.ID, txn.Err)
		}
	}
}

// fullReuses: what is past its end makes room by itself.
func (s *suite) fullReuses(t scope) {
	brief, text := "", s.lasting()
	for _, c := range []string{"fixed 1/1ms", "sliding 1/1ms", "bucket 1000/1s burst 1"} {
		if l, err := parseLimit("", c); err == nil && s.info.Caps.Has(kindCaps[l.op.Kind]) {
			brief = c
			break
		}
	}
	if brief == "" {
		t.Logf("left out, the store keeps nothing that ends within a second")
		return
	}
	store := s.h.Full(t, room)
	p := s.place()
	for i := range 3 * room {
		err := failure(store, p.txn(driver.Take, brief, fmt.Sprintf("brief-%d", i), 1))
		if err != nil && !errors.Is(err, driver.ErrFull) {
			t.Errorf("a take of %s by a new key failed: %v", brief, err)
			return
		}
	}
	for i, until := 0, time.Now().Add(s.soon); i < room/2; {
		err := failure(store, p.charge(text, fmt.Sprintf("later-%d", i), 0))
		switch {
		case err == nil:
			i++
		case !errors.Is(err, driver.ErrFull) || time.Now().After(until):
			t.Errorf("%d states of %s are past their end, so there should be room for %d new keys, but number %d failed: %v", 3*room, brief, room/2, i+1, err)
			return
		}
	}
}

// fullSweeps: a sweep makes room at once, by the clock it is told.
func (s *suite) fullSweeps(t scope) {
	store := s.h.Full(t, room)
	p, text := s.place(), s.lasting()
	if text == "budget 1000/year" {
		t.Logf("left out, the store keeps nothing but budgets")
		return
	}
	taken := s.fill(t, store, p, text, "old", base)
	later := base + 5000*3_600_000_000
	if err := sweepUntilDone(store.(driver.Sweeper), later); err != nil {
		t.Errorf("a sweep of a full store failed: %v", err)
		return
	}
	for i := range min(taken, room/2) {
		if err := failure(store, p.charge(text, fmt.Sprintf("new-%d", i), later)); err != nil {
			t.Errorf("%d states ended and were swept, so there should be room for %d new keys, but number %d failed: %v", taken, room/2, i+1, err)
			return
		}
	}
}
