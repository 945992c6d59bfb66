package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ration-go/ration/driver"
)

// sweeping checks that sweeps are bounded, end, and touch nothing that counts. That they change no answer is also in the
// case files and the random commands.
func (s *suite) sweeping(t scope) {
	store := s.h.Open(t)
	sweeper := store.(driver.Sweeper)
	s.sweepBounded(t, store, sweeper)
	s.sweepBeside(t, store, sweeper)
	s.sweepCancelled(t, sweeper)
}

// briefOf is limits whose states, used once, end within ten seconds.
func (s *suite) briefLimits() (all []string) {
	for _, text := range []string{"bucket 1/10s burst 5", "sliding 5/10s", "fixed 5/10s"} {
		if l, err := parseLimit("", text); err == nil && s.info.Caps.Has(kindCaps[l.op.Kind]) {
			all = append(all, text)
		}
	}
	return all
}

func (s *suite) sweepBounded(t scope, store driver.Store, sweeper driver.Sweeper) {
	const keys, most = 30, 7
	p := s.place()
	for i := range keys {
		for _, text := range append(s.briefLimits(), s.slowLimits(5)...) {
			if err := failure(store, p.txnAt(base, driver.Take, text, text+fmt.Sprint(i), 3)); err != nil {
				t.Errorf("taking 3 of %s failed: %v", text, err)
			}
		}
	}
	ended := keys * len(s.briefLimits())
	later := base + 60*1_000_000
	total := 0
	for steps := 0; ; steps++ {
		n, err := sweeper.Sweep(context.Background(), later, most)
		if err != nil || n < 0 || n > most {
			t.Errorf("Sweep of at most %d answered %d, %v", most, n, err)
			return
		}
		if total += n; n == 0 {
			break
		}
		if steps > 10*ended {
			t.Errorf("Sweep should answer 0 when nothing has ended any more, but after %d sweeps of at most %d it still removes something", steps, most)
			return
		}
	}
	if total > ended {
		t.Errorf("%d states have ended, but Sweep says that it removed %d", ended, total)
	}
	if m, ok := store.(driver.Meter); ok {
		// The background sweeps of the same store may have done more, before or meanwhile.
		if f := m.Figures(); f.Swept < int64(total) || f.Sweeps < 1 || f.Keys < -1 || f.Bytes < -1 {
			t.Errorf("Sweep says that it removed %d, but Figures are %+v", total, f)
		}
	}
	for _, text := range s.slowLimits(5) {
		for i := range keys {
			txn := p.txnAt(later, driver.Peek, text, text+fmt.Sprint(i), 3)
			if err := failure(store, txn); err != nil || txn.Allowed || txn.Ops[0].Result.Used != 3 {
				t.Errorf("3 of %s, used a minute ago, should still be used after a sweep, but %d are (%v)", text, txn.Ops[0].Result.Used, err)
				return
			}
		}
	}
	for _, text := range s.briefLimits() {
		txn := p.txnAt(later, driver.Take, text, text+"0", 5)
		if err := failure(store, txn); err != nil || !txn.Allowed {
			t.Errorf("all 5 of %s should be there again after a minute and a sweep, but a take of 5 answered %v, %v", text, txn.Allowed, err)
		}
	}
}

// sweepBeside: sweeps beside each other and beside calls lose nothing.
func (s *suite) sweepBeside(t scope, store driver.Store, sweeper driver.Sweeper) {
	t = &few{scope: t}
	for _, text := range append(s.briefLimits(), s.slowLimits(5)...) {
		p := s.place()
		var admitted atomic.Int64
		together(6, func(i int) {
			for j := range 20 {
				if i%2 == 0 {
					if _, err := sweeper.Sweep(context.Background(), base+driver.Micros(i), 3); err != nil {
						t.Errorf("a sweep beside takes of %s failed: %v", text, err)
					}
					continue
				}
				key := "k"
				if j%2 == 0 {
					key = fmt.Sprint("k", i, j)
				}
				txn := p.txnAt(base, driver.Take, text, key, 1)
				if err := failure(store, txn); err != nil {
					t.Errorf("a take of %s beside sweeps failed: %v", text, err)
				} else if txn.Allowed && key == "k" {
					admitted.Add(1)
				}
			}
		})
		if n := admitted.Load(); n != 5 {
			t.Errorf("of 30 takes of 1 beside sweeps, %s should admit 5, but admitted %d", text, n)
		}
	}
}

func (s *suite) sweepCancelled(t scope, sweeper driver.Sweeper) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := sweeper.Sweep(ctx, base, 10); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a sweep under a cancelled context should do nothing or fail with an error that wraps context.Canceled, but failed with: %v", err)
	}
}
