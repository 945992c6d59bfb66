package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// contexts checks calls whose context is done before or while they run.
func (s *suite) contexts(t scope) {
	store := s.h.Open(t)
	for _, text := range s.slowLimits(1000) {
		s.doneBefore(t, store, text)
		s.doneMeanwhile(t, store, text)
	}
}

// doneBefore: what was cancelled before it was sent charges nothing, and says why.
func (s *suite) doneBefore(t scope, store driver.Store, text string) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {expired, context.DeadlineExceeded}} {
		p := s.place()
		txn := p.txn(driver.Take, text, "k", 7)
		err := errors.Join(store.Apply(c.ctx, []*driver.Txn{txn}), txn.Err)
		n := p.used(t, store, text, "k")
		switch {
		case err == nil && s.info.Instant && n == 7 && txn.Allowed: // it only computes, and may ignore its context
		case err == nil:
			t.Errorf("a take of %s under a context with %v answered no error (and %d used)", text, c.want, n)
		case n != 0:
			t.Errorf("a take of %s under a context with %v should charge nothing, but %d are used", text, c.want, n)
		case !errors.Is(err, c.want):
			t.Errorf("a take of %s under a context with %v should fail with an error that wraps it, but failed with: %v", text, c.want, err)
		}
	}
}

// doneMeanwhile: a call that is cancelled in flight returns soon, and its error tells no lies. Afterwards all works.
func (s *suite) doneMeanwhile(t scope, store driver.Store, text string) {
	p := s.place()
	least, most := int64(0), int64(0)
	for i := range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		txn := p.txn(driver.Take, text, "k", 1)
		done := make(chan error, 1)
		go func() { done <- store.Apply(ctx, []*driver.Txn{txn}) }()
		for range i {
			runtime.Gosched() // each round is cancelled a little later
		}
		cancel()
		select {
		case err := <-done:
			switch err := errors.Join(err, txn.Err); {
			case err == nil:
				least, most = least+1, most+1
			case !errors.Is(err, driver.ErrNotApplied):
				most++
			}
		case <-time.After(s.soon):
			t.Errorf("a take of %s should return soon after its context is cancelled, but did not within %v", text, s.soon)
			return
		}
	}
	if n := p.used(t, store, text, "k"); n < least || n > most {
		t.Errorf("of 100 takes of %s that were cancelled in flight, %d passed and %d may have, but %d are used", text, least, most-least, n)
	}
	if txn := p.txn(driver.Take, text, "after", 1); failure(store, txn) != nil || !txn.Allowed {
		t.Errorf("after 100 cancelled takes of %s the next should pass, but answered %v, %v", text, txn.Allowed, txn.Err)
	}
}

// closing: after Close an Instant store fails, and charges nothing; a second Close is harmless.
func (s *suite) closing(t scope) {
	t = &few{scope: t}
	store := s.h.Open(t)
	limits := s.slowLimits(1000)
	p := s.place()
	var closed atomic.Bool
	together(5, func(i int) {
		if i == 0 {
			if err := store.Close(); err != nil {
				t.Errorf("Close beside takes failed: %v", err)
			}
			closed.Store(true)
			return
		}
		for range 50 {
			after := closed.Load()
			txn := p.txn(driver.Take, limits[0], "k", 1)
			err := failure(store, txn)
			switch {
			case err == nil && after:
				t.Errorf("a take after Close should fail, but was decided: %v", txn.Allowed)
			case err != nil && !errors.Is(err, driver.ErrNotApplied):
				t.Errorf("a take beside Close may fail, but surely charged nothing, so its error should wrap driver.ErrNotApplied: %v", err)
			}
		}
	})
	if txn := p.txn(driver.Take, limits[0], "k", 1); failure(store, txn) == nil {
		t.Errorf("a take after Close should fail, but was decided: %v", txn.Allowed)
	}
	if err := store.Close(); err != nil && !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a second Close should be harmless, but failed: %v", err)
	}
}

// durable: what was acknowledged before a crash is there after it, and nothing twice.
func (s *suite) durable(t scope) {
	store := s.h.Open(t)
	p := s.place()
	limits := s.slowLimits(1000)
	for _, text := range limits {
		if err := failure(store, p.txn(driver.Take, text, "quiet", 7)); err != nil {
			t.Errorf("taking 7 of %s failed: %v", text, err)
		}
	}
	var held []holding
	if s.info.Caps.Has(driver.CapHolds) {
		for i, text := range limits {
			txn := p.reserve(store, fmt.Sprint("id", i), p.op(text, "held", 5, 0))
			if err := failure(store, txn); err != nil {
				t.Errorf("reserving 5 of %s failed: %v", text, err)
			}
			held = append(held, holding{txn})
		}
	}
	const callers = 4
	var acked, unknown atomic.Int64
	warm, stop := make(chan struct{}), make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		<-warm
		s.h.Durable(t, store)
		close(stop)
	}()
	together(callers, func(int) {
		for calls := 0; ; calls++ {
			select {
			case <-stop:
				return
			default:
			}
			if total := acked.Load() + unknown.Load(); total >= 900 {
				<-stop
				return
			}
			txn := p.txn(driver.Take, limits[0], "busy", 1)
			switch err := failure(store, txn); {
			case err == nil && txn.Allowed:
				if acked.Add(1) == 20 {
					close(warm)
				}
			case err == nil:
				t.Errorf("a take of %s was refused with far less than all of it used", limits[0])
				unknown.Add(900)
			case !errors.Is(err, driver.ErrNotApplied):
				unknown.Add(1)
			}
		}
	})
	<-killed
	s.backAgain(t, store, p, limits[0])
	for _, text := range limits {
		if n := p.used(t, store, text, "quiet"); n != 7 {
			t.Errorf("7 of %s were taken before a crash, so 7 should be used after it, but %d are", text, n)
		}
	}
	for i, h := range held {
		s.heldStill(t, store, p, limits[i], h)
	}
	n, least, most := p.used(t, store, limits[0], "busy"), acked.Load(), acked.Load()+unknown.Load()
	if n < least || n > most {
		t.Errorf("%d takes of %s were acknowledged before and after a crash and %d had an unknown outcome, so between %d and %d should be used, but %d are",
			least, limits[0], most-least, least, most, n)
	}
}

// heldStill: a reservation of 5 that was made before a crash is known after it, and ends as ever.
func (s *suite) heldStill(t scope, store driver.Store, p place, text string, h holding) {
	again := &driver.Txn{Verb: driver.Take, Hold: true, ID: h.ID, TTL: h.TTL, Ops: h.ending(driver.Settle).Ops}
	if err := failure(store, again); err != nil || again.At != h.At {
		t.Errorf("a reservation of %s made before a crash should be known after it, but its id was answered as at %d, not %d (%v)", text, again.At, h.At, err)
	}
	if end := h.ending(driver.Settle, 3); failure(store, end) != nil || !end.Allowed {
		t.Errorf("a reservation of %s made before a crash should be settled after it, but was answered %v", text, end.Err)
	}
	if n := p.used(t, store, text, "held"); n != 3 {
		t.Errorf("5 of %s were reserved before a crash and settled at 3 after it, so 3 should be used, but %d are", text, n)
	}
}

// backAgain waits until store answers again.
func (s *suite) backAgain(t scope, store driver.Store, p place, text string) {
	for until := time.Now().Add(s.soon); ; {
		err := failure(store, p.txn(driver.Peek, text, "quiet", 1))
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the store should work again after it was killed and started, but still fails: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
}
