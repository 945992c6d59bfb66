package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-go/ration/driver"
)

// Fault is what goes wrong with one call of Apply. The zero Fault is nothing. A call is first delayed, then refused or sent.
type Fault struct {
	// Delay passes before the call. If the context is done sooner, nothing is sent, and the error wraps the context's and
	// driver.ErrNotApplied.
	Delay time.Duration

	// Err is answered in place of the call, which is not sent. Wrap driver.ErrNotApplied in it where the caller is to know.
	Err error

	// LoseReply is answered after the call was sent and decided; what it decided is lost.
	LoseReply error
}

// WithFaults is s with faults: next is asked before each call of Apply, at the same time if calls are. What else s is, a
// [driver.Sweeper] or a [driver.HoldLister], it stays; but it is not Instant, so that callers set deadlines.
func WithFaults(s driver.Store, next func(ctx context.Context, batch []*driver.Txn) Fault) driver.Store {
	f := &faulty{store: s, next: next}
	sweeper, sweeps := s.(driver.Sweeper)
	lister, lists := s.(driver.HoldLister)
	switch {
	case sweeps && lists:
		return &struct {
			*faulty
			driver.Sweeper
			driver.HoldLister
		}{f, sweeper, lister}
	case sweeps:
		return &struct {
			*faulty
			driver.Sweeper
		}{f, sweeper}
	case lists:
		return &struct {
			*faulty
			driver.HoldLister
		}{f, lister}
	}
	return f
}

type faulty struct {
	store driver.Store
	next  func(ctx context.Context, batch []*driver.Txn) Fault
}

func (f *faulty) Apply(ctx context.Context, batch []*driver.Txn) error {
	fault := f.next(ctx, batch)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("storetest: %w before it was sent: %w", driver.ErrNotApplied, ctx.Err())
		}
	}
	if fault.Err != nil {
		return fault.Err
	}
	err := f.store.Apply(ctx, batch)
	if fault.LoseReply == nil {
		return err
	}
	for _, t := range batch {
		t.Allowed, t.At, t.Err = false, 0, nil
		for i := range t.Ops {
			t.Ops[i].Result = driver.Result{}
		}
	}
	return fault.LoseReply
}

func (f *faulty) Info() driver.Info {
	info := f.store.Info()
	info.Instant = false
	return info
}

func (f *faulty) Close() error { return f.store.Close() }
