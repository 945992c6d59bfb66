package ration

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// Wait takes cost as soon as it passes; nil means charged. In one process the callers of a key and rule are served first
// come, first served. It fails at once with a *RefusedError if the cost can never pass, or not before ctx's deadline.
//
// A Wait whose context is done takes nothing; if it ended while the store was asked, Wait gives back, or says
// ErrOutcomeUnknown.
func (l *Limiter) Wait(ctx context.Context, key Key, limit Limit, cost int64) error {
	start := l.start()
	d, err := l.wait(ctx, key, limit, cost)
	l.observe(ctx, "wait", limit, start, d, err)
	return err
}

func (l *Limiter) wait(ctx context.Context, key Key, limit Limit, cost int64) (d Decision, err error) {
	p, err := l.prepare(key, limit)
	if err != nil {
		return d, err
	}
	if err := errors.Join(checkCost(cost), p.takeable()); err != nil {
		return d, err
	}
	if err := ctx.Err(); err != nil {
		return d, err
	}
	var op driver.Op
	l.ready(&op, p, key, cost)
	w := l.lines.join(op.Key, cost)
	defer l.lines.leave(op.Key, w)
	if !w.first() {
		if d, err := l.tooLate(ctx, p, key, cost, w.ahead); err != nil {
			return d, err
		}
	}
	if err := w.wait(ctx, l); err != nil {
		return d, err
	}
	for {
		d, err = l.tryWait(ctx, p, key, cost)
		if err != nil || d.Allowed {
			return d, err
		}
		if err := refusal(ctx, d); err != nil {
			return d, err
		}
		if err := w.nap(ctx, l, min(d.RetryAfter, maxNap)); err != nil {
			return d, err
		}
	}
}

// first reports whether it is w's turn.
func (w *waiter) first() bool {
	select {
	case <-w.turn:
		return true
	default:
		return false
	}
}

// wait waits for w's turn.
func (w *waiter) wait(ctx context.Context, l *Limiter) error {
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return ErrClosed
	}
}

// nap waits for d, or until there may be room before.
func (w *waiter) nap(ctx context.Context, l *Limiter, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return ErrClosed
	}
}

// maxNap is the longest that a Wait goes without asking the store: other processes, a Reset or a Refund there may make room.
const maxNap = 30 * time.Second

// tryWait takes once. What was charged while ctx ended goes back.
func (l *Limiter) tryWait(ctx context.Context, p *plan, key Key, cost int64) (d Decision, err error) {
	if p.lease > 0 && cost > 0 && ctx.Err() == nil {
		if e := l.leases.of(p, key); e != nil {
			if ok, _ := e.serve(cost, &d); ok {
				return d, nil
			}
		}
	}
	c := l.calls.Get().(*call)
	defer l.put(c)
	l.one(c, driver.Take, p, key, cost)
	if err := l.bounded(ctx, c); err != nil {
		return l.failed(ctx, err, driver.Take, p, key, cost)
	}
	d.fill(p.id.name, &c.ops[0], c.txn.At)
	if ctx.Err() == nil || !d.Allowed || cost == 0 {
		return d, nil
	}
	back, cancel := l.afterCancel(ctx)
	defer cancel()
	l.one(c, driver.Refund, p, key, cost)
	c.ops[0].At = driver.MicrosOf(d.At)
	if err := l.applyCall(back, c); err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(ctx.Err(), err))
	}
	l.lines.wake(c.ops[0].Key)
	return Decision{}, ctx.Err()
}

// bounded is apply within Options.Timeout, however long ctx lasts.
func (l *Limiter) bounded(ctx context.Context, c *call) error {
	if !l.info.Instant {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.opts.Timeout)
		defer cancel()
	}
	return l.applyCall(ctx, c)
}

// tooLate is a *RefusedError if cost, behind ahead in the line, can never pass or surely not before ctx's deadline. A store
// that cannot tell is no reason to give up yet.
func (l *Limiter) tooLate(ctx context.Context, p *plan, key Key, cost, ahead int64) (d Decision, err error) {
	size, total := p.op.Size, min(ahead+cost, MaxCount)
	asked := total
	if cost > size {
		asked = cost
	} else if total > size {
		asked = size // what is ahead must pass before, and the size is the most that passes at a time
	}
	d, ok := l.ask(ctx, p, key, asked)
	if !ok {
		return d, nil
	}
	if more := total - size; more > 0 && size > 0 && !d.Never {
		switch p.id.kind {
		case driver.Bucket:
			d.RetryAfter += refillTime(p, more)
		case driver.Window, driver.Counter:
			// Once the room of now is used, each window admits a size.
			room := d.Remaining
			first, ok := l.ask(ctx, p, key, min(size, room+1))
			if !ok {
				return d, nil
			}
			windows := min((total-room-1)/size, int64(driver.Century/p.op.Span))
			d.RetryAfter = max(d.RetryAfter, first.RetryAfter+time.Duration(windows)*p.op.Span.Duration())
		}
	}
	d.Allowed = false
	return d, refusal(ctx, d)
}

// ask peeks, for an estimate.
func (l *Limiter) ask(ctx context.Context, p *plan, key Key, cost int64) (d Decision, ok bool) {
	c := l.calls.Get().(*call)
	defer l.put(c)
	l.one(c, driver.Peek, p, key, cost)
	if l.bounded(ctx, c) != nil {
		return d, false
	}
	d.fill(p.id.name, &c.ops[0], c.txn.At)
	return d, true
}

// refillTime is how long a bucket needs for n tokens, rounded down.
func refillTime(p *plan, n int64) time.Duration {
	most := uint64(driver.Century / p.op.Tick)
	hi, lo := bits.Mul64(uint64(n), uint64(p.op.Unit))
	ticks := most
	if hi < uint64(p.op.Gain) {
		ticks, _ = bits.Div64(hi, lo, uint64(p.op.Gain))
	}
	return time.Duration(min(ticks, most)) * p.op.Tick.Duration()
}

// refusal is a *RefusedError if d can never pass, or not before ctx's deadline.
func refusal(ctx context.Context, d Decision) error {
	if d.Never {
		return &RefusedError{Decision: d}
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d.RetryAfter {
		return &RefusedError{Decision: d, late: context.DeadlineExceeded}
	}
	return nil
}

// lines are the callers of Wait, for each state in the order in which they came.
type lines struct {
	mu    sync.Mutex
	byKey map[driver.Key]*line
}

type line struct {
	waiters []*waiter
	cost    int64 // of all of them
}

type waiter struct {
	cost  int64
	ahead int64         // cost of those before, when this one came
	turn  chan struct{} // closed when it is first
	wake  chan struct{} // there may be room earlier than thought
}

func (ls *lines) join(key driver.Key, cost int64) *waiter {
	w := &waiter{cost: cost, turn: make(chan struct{}), wake: make(chan struct{}, 1)}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q := ls.byKey[key]
	if q == nil {
		q = new(line)
		ls.byKey[key] = q
		close(w.turn)
	}
	w.ahead = min(q.cost, MaxCount)
	q.cost += cost
	q.waiters = append(q.waiters, w)
	return w
}

func (ls *lines) leave(key driver.Key, w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q := ls.byKey[key]
	q.cost -= w.cost
	for i, other := range q.waiters {
		if other != w {
			continue
		}
		q.waiters = append(q.waiters[:i], q.waiters[i+1:]...)
		if len(q.waiters) == 0 {
			delete(ls.byKey, key)
		} else if i == 0 {
			close(q.waiters[0].turn)
		}
		return
	}
}

// wake makes the first in line of key look again.
func (ls *lines) wake(key driver.Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q := ls.byKey[key]; q != nil {
		q.wake()
	}
}

// wakeAll does so for every rule of key.
func (ls *lines) wakeAll(key driver.Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for k, q := range ls.byKey {
		if k.Group == key.Group && k.ID == key.ID {
			q.wake()
		}
	}
}

func (q *line) wake() {
	select {
	case q.waiters[0].wake <- struct{}{}:
	default:
	}
}
