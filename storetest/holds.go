package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/ration-go/ration/driver"
)

// holds checks reservations side by side, and with sweeps beside them.
func (s *suite) holds(t scope) {
	stores := s.handles(t)
	for i, text := range s.slowLimits(1000) {
		s.onceAtOnce(t, stores, text, crowds[min(i, 1)], true)
		s.settlesAtOnce(t, stores, text, crowds[min(i, 1)])
		s.endsAtOnce(t, stores, text)
		s.progressAtOnce(t, stores, text)
		s.lostEnds(t, stores[0], text)
		s.expiredAtOnce(t, stores, text)
	}
	for _, text := range s.slowLimits(60) {
		for range s.long {
			s.truth(t, stores, text)
		}
	}
	s.sweepHolds(t, stores[0])
}

// hold makes a reservation for a check that ends it.
func (s *suite) hold(t scope, store driver.Store, p place, text, name string, cost int64) holding {
	txn := p.reserve(store, name, p.op(text, "k", cost, 0))
	if err := failure(store, txn); err != nil || !txn.Allowed {
		t.Errorf("reserving %d of %s should pass, but answered %v, %v", cost, text, txn.Allowed, err)
	}
	return holding{txn}
}

// someUsed charges 3 that stay, so that a bucket that gets a hold back does not get full: then the part of a token that was
// refilled meanwhile would not go back.
func (s *suite) someUsed(t scope, store driver.Store, p place, text string) {
	if err := failure(store, p.txn(driver.Take, text, "k", 3)); err != nil {
		t.Errorf("taking 3 of %s failed: %v", text, err)
	}
}

// settlesAtOnce: a hundred settles of one hold count once.
func (s *suite) settlesAtOnce(t scope, stores []driver.Store, text string, crowd int) {
	t = &few{scope: t}
	for _, c := range []struct{ actual, given int64 }{{4, 6}, {25, 0}} {
		p := s.place()
		h := s.hold(t, stores[0], p, text, "id", 10)
		together(crowd, func(i int) {
			end := h.ending(driver.Settle, c.actual)
			if err := failure(stores[i%len(stores)], end); err != nil || !end.Allowed || end.Ops[0].Result.Given != c.given {
				t.Errorf("each of %d settles at once of 10 of %s at %d should answer that %d went back, but one answered %+v", crowd, text, c.actual, c.given, end)
			}
		})
		if n := p.used(t, stores[0], text, "k"); n != c.actual {
			t.Errorf("%d settles at once of 10 of %s should count %d, once, but count %d", crowd, text, c.actual, n)
		}
	}
}

// endsAtOnce: of ends that contradict each other exactly one wins.
func (s *suite) endsAtOnce(t scope, stores []driver.Store, text string) {
	t = &few{scope: t}
	const callers = 20
	for range 2 * s.long {
		p := s.place()
		s.someUsed(t, stores[0], p, text)
		h := s.hold(t, stores[0], p, text, "id", 10)
		var won, sum, given atomic.Int64
		together(callers, func(i int) {
			end := h.ending(driver.Settle, int64(i))
			if i%4 == 0 {
				end = h.ending(driver.Cancel)
			}
			switch err := failure(stores[i%len(stores)], end); {
			case err == nil && end.Verb == driver.Cancel:
				given.Add(end.Ops[0].Result.Given)
			case err == nil:
				won.Add(1)
				sum.Add(int64(i))
			case end.Verb == driver.Cancel || !errors.Is(err, driver.ErrEnded):
				t.Errorf("of ends of one hold at once, those that come too late should get driver.ErrEnded and cancels no error, but a settle at %d got: %v", i, err)
			}
		})
		if n := given.Load(); won.Load() != 0 && n != 0 || won.Load() == 0 && n != 10*callers/4 || won.Load() > 1 {
			t.Errorf("of %d ends at once of one hold of 10 of %s exactly one should win, but %d settles won and cancels gave back %d in all", callers, text, won.Load(), n)
		}
		if n := p.used(t, stores[0], text, "k"); n != 3+sum.Load() {
			t.Errorf("a hold of %s, with 3 used beside it, was ended at %d by one of %d ends at once, but %d are used", text, sum.Load(), callers, n)
		}
	}
}

// progressAtOnce: of reports that overtake each other the greatest counts.
func (s *suite) progressAtOnce(t scope, stores []driver.Store, text string) {
	t = &few{scope: t}
	const callers = 30
	p := s.place()
	h := s.hold(t, stores[0], p, text, "id", 10)
	together(callers, func(i int) {
		report := h.ending(driver.Progress, int64(i+1))
		if err := failure(stores[i%len(stores)], report); err != nil || !report.Allowed {
			t.Errorf("progress of %d in a hold of 10 of %s should fit, but answered %v, %v", i+1, text, report.Allowed, err)
		}
	})
	if n := p.used(t, stores[0], text, "k"); n != callers {
		t.Errorf("reports of 1 to %d at once in a hold of 10 of %s should count %d, but count %d", callers, text, callers, n)
	}
	end := h.ending(driver.Cancel)
	if err := failure(stores[0], end); err != nil || end.Ops[0].Result.Given != 0 {
		t.Errorf("a cancel after more than was reserved was reported should give nothing back, but gave %d, %v", end.Ops[0].Result.Given, err)
	}
}

// lostEnds: reserve, report, renew and end, each with a reply that was lost and made again: it happens once.
func (s *suite) lostEnds(t scope, store driver.Store, text string) {
	p := s.place()
	faulty := losing(store)
	s.someUsed(t, store, p, text)
	holds := map[string]holding{}
	for _, c := range []struct {
		name, what string
		verb       driver.Verb
		amounts    []int64
		allowed    bool
		given      int64
		used       int64 // in all, after it
	}{
		{"a", "a reservation of 7", driver.Take, nil, true, 0, 10},
		{"b", "another of 7", driver.Take, nil, true, 0, 17},
		{"c", "a third of 7", driver.Take, nil, true, 0, 24},
		{"a", "progress of 9", driver.Progress, []int64{9}, true, 0, 26},
		{"a", "progress of 2000", driver.Progress, []int64{2000}, false, 0, 2017},
		{"a", "a renewal", driver.Renew, nil, true, 0, 2017},
		{"a", "a settle at 2001", driver.Settle, []int64{2001}, true, 0, 2018},
		{"a", "a cancel after it", driver.Cancel, nil, true, 0, 2018},
		{"b", "a settle at 4", driver.Settle, []int64{4}, true, 3, 2015},
		{"c", "a cancel", driver.Cancel, nil, true, 7, 2008},
	} {
		txn, err := resent(faulty, func() *driver.Txn {
			if c.verb == driver.Take {
				return p.reserve(store, c.name, p.op(text, "k", 7, 0))
			}
			return holds[c.name].ending(c.verb, c.amounts...)
		})
		if err != nil || txn.Allowed != c.allowed || txn.Ops[0].Result.Given != c.given {
			t.Errorf("%s of %s whose reply was lost, made again, should answer %v and %d given, but answered %+v, %v", c.what, text, c.allowed, c.given, txn, err)
			return
		}
		if c.verb == driver.Take {
			holds[c.name] = holding{txn}
		}
		if n := p.used(t, store, text, "k"); n != c.used {
			t.Errorf("after %s whose reply was lost, made again, %s should count %d, but counts %d", c.what, text, c.used, n)
		}
	}
}

// expiredAtOnce: what goes back at the expiry goes back once, whoever comes first: a sweep, a cancel or a late settle.
func (s *suite) expiredAtOnce(t scope, stores []driver.Store, text string) {
	t = &few{scope: t}
	for _, verb := range []driver.Verb{driver.Cancel, driver.Settle} {
		p := s.place()
		txn := p.txnAt(base, driver.Take, text, "k", 100)
		hold := p.reserve(stores[0], "id", p.op(text, "k", 10, base))
		hold.Now, hold.Return = base, true
		if err := failure(stores[0], txn, hold); err != nil || !hold.Allowed {
			t.Errorf("reserving 10 of %s should pass, but answered %v, %v", text, hold.Allowed, err)
		}
		later := base + hour
		want := map[driver.Verb]int64{driver.Cancel: 100, driver.Settle: 107}[verb]
		together(8, func(i int) {
			if i%2 == 0 {
				if _, err := stores[i/2%len(stores)].(driver.Sweeper).Sweep(context.Background(), later, 10); err != nil {
					t.Errorf("a sweep beside ends of an expired hold failed: %v", err)
				}
				return
			}
			end := holding{hold}.ending(verb)
			if end.Now = later; verb == driver.Settle {
				end.Amounts = []int64{7}
			}
			if err := failure(stores[i/2%len(stores)], end); err != nil || end.Ops[0].Result.Given != 0 {
				t.Errorf("an end of a hold that goes back at its expiry should find it gone back, but gave %d, %v", end.Ops[0].Result.Given, err)
			}
		})
		look := p.txnAt(later, driver.Peek, text, "k", 0)
		if err := failure(stores[0], look); err != nil || look.Ops[0].Result.Used != want {
			t.Errorf("10 of %s, reserved beside 100 and expired, then swept and ended at once, should leave %d used, but leave %d (%v)", text, want, look.Ops[0].Result.Used, err)
		}
	}
}

// truth: whatever callers reserve, report, settle and cancel at once on shared limits, what was settled is what counts, and
// no hold is left. What is admitted never passes the limit.
func (s *suite) truth(t scope, stores []driver.Store, text string) {
	t = &few{scope: t}
	const callers, rounds = 8, 10
	p := s.place()
	var a, b atomic.Int64 // settled
	together(callers, func(i int) {
		rng := rand.New(rand.NewPCG(s.seed, uint64(i)))
		for round := range rounds {
			store := stores[(i+round)%len(stores)]
			ops := []driver.Op{p.op(text, "a", 1+rng.Int64N(10), 0)}
			if s.info.Caps.Has(driver.CapList) {
				if ops = append(ops, p.op(text, "b", 1+rng.Int64N(10), 0)); i%2 == 0 {
					ops[0], ops[1] = ops[1], ops[0]
				}
			}
			txn := p.reserve(store, fmt.Sprintf("%d-%d", i, round), ops...)
			if err := failure(store, txn); err != nil {
				t.Errorf("a reservation of %s beside others failed: %v", text, err)
			}
			if !txn.Allowed {
				continue
			}
			s.work(t, stores[(i+round+1)%len(stores)], rng, holding{txn}, &a, &b)
		}
	})
	for key, want := range map[string]int64{"a": a.Load(), "b": b.Load()} {
		if n := p.used(t, stores[0], text, key); n != want {
			t.Errorf("%d callers settled %d of %s in all, so %d should be used, but %d are", callers, want, text, want, n)
		}
	}
	for h, err := range stores[0].(driver.HoldLister).Holds(context.Background()) {
		if err != nil {
			t.Errorf("listing holds failed: %v", err)
		} else if strings.HasPrefix(h.ID, p.prefix) {
			t.Errorf("all holds were ended, but %q is listed", h.ID)
		}
	}
}

// work ends h in one of the ways there are, and adds what it used to the totals of the keys a and b.
func (s *suite) work(t scope, store driver.Store, rng *rand.Rand, h holding, a, b *atomic.Int64) {
	used := make([]int64, len(h.Ops))
	for i := range h.Ops { // mostly less than reserved, so that there is always some room
		used[i] = rng.Int64N(h.Ops[i].Cost + 1)
		if rng.IntN(20) == 0 {
			used[i] = h.Ops[i].Cost + 1
		}
	}
	reported := rng.IntN(3) == 0
	if reported {
		if err := failure(store, h.ending(driver.Progress, used...)); err != nil {
			t.Errorf("progress beside others failed: %v", err)
		}
	}
	end := h.ending(driver.Settle, used...)
	if rng.IntN(3) == 0 {
		if end = h.ending(driver.Cancel); !reported {
			clear(used)
		}
	}
	if err := failure(store, end); err != nil {
		t.Errorf("the end of a hold beside others failed: %v", err)
	}
	for i := range h.Ops {
		if h.Ops[i].Key.ID == "a" {
			a.Add(used[i])
		} else {
			b.Add(used[i])
		}
	}
}

// sweepHolds: sweeps end holds in bounded steps, and come to an end.
func (s *suite) sweepHolds(t scope, store driver.Store) {
	const holds, most = 30, 7
	limits := s.slowLimits(10)
	if len(limits) == 0 {
		return
	}
	p, text := s.place(), limits[len(limits)-1]
	reserve := func(i int, now driver.Micros) *driver.Txn {
		txn := p.reserve(store, fmt.Sprint("id", i), p.op(text, fmt.Sprint("k", i), 3, now))
		txn.Now, txn.Return, txn.TTL = now, i%3 > 0, 60*1_000_000
		return txn
	}
	for i := range holds {
		if err := failure(store, reserve(i, base)); err != nil {
			t.Errorf("reserving 3 of %s failed: %v", text, err)
			return
		}
	}
	sweeper := store.(driver.Sweeper)
	for _, later := range []driver.Micros{base + hour, base + hour*30} {
		for steps := 0; ; steps++ {
			n, err := sweeper.Sweep(context.Background(), later, most)
			if err != nil || n < 0 || n > most {
				t.Errorf("Sweep of at most %d with holds that have expired answered %d, %v", most, n, err)
				return
			}
			if n == 0 {
				break
			}
			if steps > 1000 {
				t.Errorf("Sweep should answer 0 when no hold has expired any more, but after %d sweeps it still ends some", steps)
				return
			}
		}
		for i := range holds {
			if later > base+hour {
				break
			}
			look := p.txnAt(later, driver.Peek, text, fmt.Sprint("k", i), 0)
			want := map[bool]int64{true: 3}[i%3 == 0]
			if err := failure(store, look); err != nil || look.Ops[0].Result.Used != want {
				t.Errorf("a hold of 3 of %s has expired and was swept, so %d should be used, but %d are (%v)", text, want, look.Ops[0].Result.Used, err)
				return
			}
		}
	}
	for i := range holds { // the records are gone, too, so the ids are as new
		txn := reserve(i, base+hour*30)
		if err := failure(store, txn); err != nil || txn.At != base+hour*30 {
			t.Errorf("a day after its hold expired an id should be as new, but answers as at %s (%v)", instantText(txn.At), err)
			return
		}
	}
}
