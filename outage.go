package ration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// ErrUnavailable says that the store has failed so often in a row that it is not asked for the moment. Nothing was charged.
var ErrUnavailable = fmt.Errorf("%w: ration: the store is down and is not asked until a probe finds it up", driver.ErrNotApplied)

// Outage is what a Limiter does about a store that is slow or dead. The zero value, and a nil pointer, are the defaults.
//
// After Failures in a row decisions do not reach the store any more: they follow OnError at once. A probe, which changes
// nothing, asks the store every Probe; when it answers, decisions go there again. Settle, Cancel, Progress, Renew, Refund,
// Reset and Forget always ask the store.
//
// A store is down if it fails or does not answer in the time of the call. Time-outs of calls that had less than 50 ms do
// not count.
type Outage struct {
	// Failures in a row that end the asking; default 5. Negative: never.
	Failures int
	// Probe is the time from one probe to the next; default 1 s.
	Probe time.Duration
	// Parts is for LocalOnError: each process admits 1/Parts of every limit, rounded down, by itself. With as many parts as
	// there are processes, or more, an outage admits one limit more in all, whatever the store had admitted before. Default 10.
	Parts int
	// MaxKeys bounds how many keys LocalOnError counts; further ones are denied. Default 100 000.
	MaxKeys int
}

func (o *Outage) withDefaults() Outage {
	var d Outage
	if o != nil {
		d = *o
	}
	if d.Failures == 0 {
		d.Failures = 5
	}
	if d.Probe <= 0 {
		d.Probe = time.Second
	}
	if d.Parts <= 0 {
		d.Parts = 10
	}
	if d.MaxKeys <= 0 {
		d.MaxKeys = 100_000
	}
	return d
}

// countedTime is how long a call must have lasted for its time-out to be the store's fault.
const countedTime = 50 * time.Millisecond

// circuit keeps decisions from a store that is down.
type circuit struct {
	failures int32 // in a row, that open it; negative: never
	every    time.Duration
	timeout  time.Duration
	probe    func(ctx context.Context) error
	changed  func(up bool, cause error) // one call at a time

	open atomic.Bool
	row  atomic.Int32 // failures since the last answer

	mu   sync.Mutex // held while open changes and that is told
	ctx  context.Context
	end  context.CancelFunc
	work sync.WaitGroup
}

// note learns from the outcome of a store call that took so long.
func (c *circuit) note(err error, took time.Duration) {
	if err == nil {
		if c.row.Load() != 0 {
			c.row.Store(0)
		}
		return
	}
	if c.failures < 0 || c.open.Load() || callersFault(err) || errors.Is(err, ErrFull) || errors.Is(err, ErrOverloaded) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && took < countedTime {
		return
	}
	if c.row.Add(1) < c.failures {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil || c.open.Load() {
		return
	}
	c.open.Store(true)
	c.changed(false, err)
	c.work.Add(1)
	go c.watch()
}

// watch probes until the store answers.
func (c *circuit) watch() {
	defer c.work.Done()
	timer := time.NewTimer(c.every)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
		err := c.probe(ctx)
		cancel()
		if err == nil {
			break
		}
		timer.Reset(c.every)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.row.Store(0)
	c.open.Store(false)
	c.changed(true, nil)
}

// close ends the probing, and waits for it.
func (c *circuit) close() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.work.Wait()
}

// newCircuit makes the circuit of l's store.
func (l *Limiter) newCircuit(o *Outage) *circuit {
	c := &circuit{failures: int32(min(o.Failures, 1<<30)), every: o.Probe, timeout: l.opts.Timeout, probe: l.probe}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.changed = func(up bool, cause error) {
		l.logChange(up, cause)
		if b := l.opts.Observer; b != nil && b.StoreChanged != nil {
			b.StoreChanged(up, cause)
		}
		if up {
			l.local.settle()
		}
	}
	return c
}

func (l *Limiter) logChange(up bool, cause error) {
	log := l.opts.Logger
	if log == nil {
		log = slog.Default()
	}
	if up {
		log.Info("ration: the store answers again; decisions are made there", "store", l.info.Kind)
		return
	}
	log.Warn("ration: the store is down; decisions follow OnError until a probe finds it up", "store", l.info.Kind, "cause", cause)
}

// probe asks the store for what changes nothing.
func (l *Limiter) probe(ctx context.Context) error {
	op := driver.Op{Key: driver.Key{ID: Global.id}, Size: 1, Span: driver.Micros(time.Second / time.Microsecond)}
	for _, k := range []struct {
		kind driver.Kind
		cap  driver.Caps
	}{{driver.Counter, driver.CapCounter}, {driver.Window, driver.CapWindow}, {driver.Bucket, driver.CapBucket}, {driver.Budget, driver.CapBudget}} {
		if l.info.Caps.Has(k.cap) {
			op.Kind = k.kind
			break
		}
	}
	op.Key.Space = l.space(op.Kind, "", "")
	if op.Kind == driver.Bucket {
		op.Rate, op.Gain, op.Unit, op.Tick = 1, 1, 1_000_000, 1
	}
	t := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{op}}
	if l.opts.Clock != nil {
		t.Now = l.now()
	}
	l.inFlight.RLock()
	defer l.inFlight.RUnlock()
	if l.closed.Load() {
		return ErrClosed
	}
	return l.callStore(ctx, []*driver.Txn{t})
}

// decision reports whether t asks for a decision, which does not wait for a store that is down. What ends a decision, or
// takes one back, does.
func isDecision(v driver.Verb) bool { return v == driver.Take || v == driver.Peek || v == driver.Hit }
