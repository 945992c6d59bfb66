package ration

import (
	"context"
	"errors"
	"time"

	"github.com/ration-go/ration/driver"
)

// Take charges cost against limit for key, all or nothing, and does not block: a refusal is a Decision that says when to
// come back. A refused call changes nothing.
//
// Cost 0 is a question that charges nothing: it passes as long as Used ≤ Limit, so also when nothing is left. To ask
// whether there is room for one more, Peek with cost 1.
func (l *Limiter) Take(ctx context.Context, key Key, limit Limit, cost int64) (d Decision, err error) {
	start := l.start()
	err = l.decide(ctx, driver.Take, key, limit, cost, &d)
	if l.opts.Observer != nil {
		l.observe(ctx, "take", limit, start, d, err)
	}
	return d, err
}

// Peek answers what Take would, and changes nothing: it makes no state, starts no window and moves no expiry.
func (l *Limiter) Peek(ctx context.Context, key Key, limit Limit, cost int64) (d Decision, err error) {
	start := l.start()
	err = l.decide(ctx, driver.Peek, key, limit, cost, &d)
	l.observe(ctx, "peek", limit, start, d, err)
	return d, err
}

// prepare checks what all verbs on one key check.
func (l *Limiter) prepare(key Key, limit Limit) (*plan, error) {
	if l.err != nil {
		return nil, l.err
	}
	p, err := l.plan(limit)
	if err != nil {
		return nil, err
	}
	return p, key.check()
}

// decide sets d. Most calls come through here, and each nanosecond counts: no defer, no copy of a Decision or of what the
// call's last user left right.
func (l *Limiter) decide(ctx context.Context, verb driver.Verb, key Key, limit Limit, cost int64, d *Decision) (err error) {
	p, err := l.prepare(key, limit)
	if err != nil {
		return err
	}
	if err := checkCost(cost); err != nil {
		return err
	}
	if verb == driver.Take {
		if p.quick != nil && l.aside(ctx) == nil && l.quickly(ctx, p, key, cost, d) {
			return nil
		}
		if err := p.takeable(); err != nil {
			return err
		}
		if (p.lease > 0 || l.refusals.life > 0) && l.aside(ctx) == nil {
			return l.takeNear(ctx, p, key, cost, d)
		}
	} else if p.lease > 0 {
		return l.peekLeased(ctx, p, key, cost, d)
	}
	return l.askStore(ctx, verb, p, key, cost, d)
}

// takeNear is a Take for which the store may not have to be asked.
func (l *Limiter) takeNear(ctx context.Context, p *plan, key Key, cost int64, d *Decision) (err error) {
	if l.refusals.life > 0 && ctx.Err() == nil && l.refusals.knows(p, key, cost, d) {
		return nil
	}
	var e *leased
	if p.lease > 0 {
		var done bool
		if e, done, err = l.takeLeased(ctx, p, key, cost, d); done {
			if err != nil {
				*d, err = l.failed(ctx, err, driver.Take, p, key, cost)
			}
			return err
		}
	}
	sent := time.Now()
	if err = l.askStore(ctx, driver.Take, p, key, cost, d); err != nil {
		return err
	}
	if e != nil && !d.Degraded {
		e.noted(d, cost)
	}
	if l.refusals.life > 0 {
		l.refusals.note(p, key, cost, d, sent)
	}
	return nil
}

// askStore has the store decide on one key.
func (l *Limiter) askStore(ctx context.Context, verb driver.Verb, p *plan, key Key, cost int64, d *Decision) (err error) {
	c := l.calls.Get().(*call)
	l.one(c, verb, p, key, cost)
	if err = l.applyCall(ctx, c); err == nil {
		d.fill(p.id.name, &c.ops[0], c.txn.At)
	}
	l.put(c)
	if err != nil {
		*d, err = l.failed(ctx, err, verb, p, key, cost)
	}
	return err
}

// quickly has the store decide the short way, if it can.
func (l *Limiter) quickly(ctx context.Context, p *plan, key Key, cost int64, d *Decision) bool {
	if cost == 0 || key.group != "" || l.closed.Load() || ctx.Err() != nil {
		return false
	}
	used, retryAfter, resetAt, at, allowed, known := l.memory.TakeBucket(p.quick, key.id, cost)
	if !known {
		return false
	}
	d.Allowed, d.Name, d.Limit = allowed, p.id.name, p.id.size
	d.Used, d.Remaining = used, max(0, p.id.size-used)
	d.RetryAfter, d.ResetAfter = driver.Micros(retryAfter).Duration(), driver.Micros(resetAt-at).Duration()
	d.At = driver.Micros(at).Time()
	return true
}

// one makes c a transaction of one op.
func (l *Limiter) one(c *call, verb driver.Verb, p *plan, key Key, cost int64) {
	c.txn = driver.Txn{Verb: verb, Ops: c.ops[:]}
	op := &c.ops[0]
	if c.plan == p && !l.hashes {
		op.Key.Group, op.Key.ID = key.group, key.id
		op.Cost, op.At, op.Result = cost, 0, driver.Result{}
		if p.cal != nil {
			op.Bounds = p.boundsAt(l.now())
		}
		return
	}
	l.ready(op, p, key, cost)
	c.plan = p
}

// Refund gives back n of what was charged at the given time (Decision.At of the Take), and answers how much went back:
// only into the state that was charged. If its window has ended, its period has turned, the bucket has been full since, or
// it was reset, that is 0. A count never goes below 0 by it.
//
// The zero time is ErrInvalidTime. Refund runs although ctx is done, for at most 5 s.
func (l *Limiter) Refund(ctx context.Context, key Key, limit Limit, n int64, at time.Time) (given int64, err error) {
	start := l.start()
	var d Decision
	d, given, err = l.refund(ctx, key, limit, n, at)
	l.observe(ctx, "refund", limit, start, d, err)
	return given, err
}

func (l *Limiter) refund(ctx context.Context, key Key, limit Limit, n int64, at time.Time) (d Decision, given int64, err error) {
	p, err := l.prepare(key, limit)
	if err != nil {
		return d, 0, err
	}
	if err := errors.Join(checkCost(n), p.takeable()); err != nil {
		return d, 0, err
	}
	then := driver.MicrosOf(at)
	if at.IsZero() || then < 1 || then > driver.MaxNumber {
		return d, 0, invalidf(ErrInvalidTime, "give Refund the Decision.At of the Take; %v is not one", at)
	}
	ctx, cancel := l.afterCancel(ctx)
	defer cancel()
	c := l.calls.Get().(*call)
	defer l.put(c)
	l.one(c, driver.Refund, p, key, n)
	c.ops[0].At = then
	if err := l.applyCall(ctx, c); err != nil {
		return d, 0, err
	}
	l.lines.wake(c.ops[0].Key)
	l.refusals.forget()
	r := &c.ops[0].Result
	d = Decision{Allowed: true, Name: p.id.name, Limit: p.op.Size, Used: r.Used, Remaining: max(0, p.op.Size-r.Used), At: c.txn.At.Time()}
	return d, r.Given, nil
}

// Reset forgets what was counted for key under limit. Charges made before are not given back by a later Refund.
func (l *Limiter) Reset(ctx context.Context, key Key, limit Limit) error {
	start := l.start()
	p, err := l.prepare(key, limit)
	d := Decision{}
	if err == nil {
		d.Name, d.Limit = p.id.name, p.id.size
		err = l.wipe(ctx, driver.Reset, p, key)
	}
	d.Allowed = err == nil
	l.observe(ctx, "reset", limit, start, d, err)
	return err
}

// Forget forgets all that was counted for key, of every kind and rule of this namespace and group.
func (l *Limiter) Forget(ctx context.Context, key Key) error {
	start := l.start()
	err := l.need(driver.CapForget, "Forget")
	if err == nil {
		err = key.check()
	}
	if l.err != nil {
		err = l.err
	}
	if err == nil {
		err = l.wipe(ctx, driver.Forget, &plan{op: driver.Op{Key: driver.Key{Space: l.namespace + "|"}}}, key)
	}
	l.observe(ctx, "forget", nil, start, Decision{Allowed: err == nil}, err)
	return err
}

func (l *Limiter) wipe(ctx context.Context, verb driver.Verb, p *plan, key Key) error {
	c := l.calls.Get().(*call)
	defer l.put(c)
	l.one(c, verb, p, key, 0)
	if err := l.applyCall(ctx, c); err != nil {
		return err
	}
	l.refusals.forget()
	if verb == driver.Forget {
		l.lines.wakeAll(c.ops[0].Key)
	} else {
		l.lines.wake(c.ops[0].Key)
	}
	return nil
}

// Hit adds n to the counter of key, and answers the count after it and how long its window still lasts. If no window is
// open, one of the given length opens and starts at n; an open window keeps its end, whatever window says. n = 0 reads: it
// opens nothing and answers 0 and the whole window if none is open.
//
// A negative n takes back, and is not clamped: with no window open it starts one below zero. A bare counter cannot know
// which window a charge belonged to; Refund knows, and never does this. A window is 1 ms to 87 660 h.
func (l *Limiter) Hit(ctx context.Context, key Key, window time.Duration, n int64) (count int64, left time.Duration, err error) {
	start := l.start()
	count, left, err = l.hit(ctx, key, window, n)
	l.observe(ctx, "hit", nil, start, Decision{Allowed: err == nil, Used: max(0, count), ResetAfter: left}, err)
	return count, left, err
}

func (l *Limiter) hit(ctx context.Context, key Key, window time.Duration, n int64) (int64, time.Duration, error) {
	p, err := l.prepare(key, FixedWindow{Window: window})
	if err != nil {
		return 0, 0, err
	}
	if n > MaxCount || n < -MaxCount {
		return 0, 0, invalidf(ErrInvalidCost, "%d is not within ±(2^53 − 1)", n)
	}
	c := l.calls.Get().(*call)
	defer l.put(c)
	l.one(c, driver.Hit, p, key, n)
	if err := l.applyCall(ctx, c); err != nil {
		return 0, 0, err
	}
	return c.ops[0].Result.Used, (c.ops[0].Result.ResetAt - c.txn.At).Duration(), nil
}
