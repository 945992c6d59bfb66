package ration

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// Leases: a process that uses a key often has the store charged with a block of uses at once, and serves from it. What is
// served was charged before, and within the lease's life, so it is never too much:
//
//   - A block of a window of fixed length or of a budget ends with the window or period that was charged.
//   - What a sliding window admits in one window's time was charged in that time and a life before it. So a leased one
//     counts for a life longer.
//   - Likewise, a leased bucket is smaller by what refills in a life.
//
// The life runs on the process's monotonic clock, from before the store was asked. What is left of a block is given back: a
// Refund gives only into the state that was charged, so it cannot come too late. If the process dies it stays charged.
const (
	leaseLife    = time.Second
	leastLife    = 10 * time.Millisecond // below, a lease is not worth its price
	leaseTicks   = 4                     // in a life, at which blocks are looked after
	leaseAfter   = 4                     // uses in a life that begin one
	leasePart    = 4                     // a block is at most such a part of what is left
	maxLeased    = 1 << 16               // keys
	leaseForgets = 8                     // ticks without a use, until a key is forgotten
)

// leaseOf sets p to the numbers of a leased limit, for rule.
func (p *plan) leaseOf() (err error) {
	op := &p.op
	life := micros(leaseLife)
	switch op.Kind {
	case driver.Window:
		life = min(life, op.Span/10)
		if life >= micros(leastLife) {
			op.Span += life
		}
	case driver.Bucket:
		// What refills in a life is at most half of the bucket.
		life = min(life, mulDiv(op.Span, op.Size, 2*op.Rate))
		if life >= micros(leastLife) {
			op.Size -= int64(mulDiv(driver.Micros(op.Rate), int64(life), int64(op.Span))) + 1
			op.Gain, op.Unit, op.Tick, err = driver.Units(op.Size, op.Rate, op.Span)
		}
	}
	if life >= micros(leastLife) {
		p.lease, p.leaseLife = p.id.lease, life.Duration()
	}
	return err
}

// mulDiv is a × b / c, rounded down, at most a century.
func mulDiv(a driver.Micros, b, c int64) driver.Micros {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return driver.Century
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return driver.Micros(min(q, uint64(driver.Century)))
}

type leaseKey struct {
	p         *plan
	group, id string
}

// leases are the keys that this process uses often.
type leases struct {
	l    *Limiter
	mu   sync.RWMutex
	keys map[leaseKey]*leased
	runs bool // somebody looks after them
	ends bool
	done chan struct{}
	work sync.WaitGroup

	served atomic.Int64 // calls
}

// leased is a key of a leased rule, and the blocks that this process has of it.
type leased struct {
	key    leaseKey
	served *atomic.Int64 // of all keys

	mu       sync.Mutex
	now      block // that is served from
	next     block // fetched ahead
	old      []block
	fetching bool

	size    int64 // of the next block, as demand has shown
	count   int64 // uses, each half forgotten at a tick
	used    int64 // of the limit, as the store answered last, at
	at      driver.Micros
	touched bool  // since the last tick
	idle    int   // ticks without a use
	returns int64 // how often something went back
}

// block is uses that the store is charged with.
type block struct {
	left    int64
	at      driver.Micros // of the charge
	resetAt driver.Micros
	until   time.Time
}

// of is the record of a key; nil if there are too many.
func (ls *leases) of(p *plan, key Key) *leased {
	k := leaseKey{p, key.group, key.id}
	ls.mu.RLock()
	e := ls.keys[k]
	ls.mu.RUnlock()
	if e != nil {
		return e
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if e = ls.keys[k]; e != nil || len(ls.keys) >= maxLeased || ls.ends {
		return e
	}
	e = &leased{key: k, served: &ls.served}
	ls.keys[k] = e
	if !ls.runs {
		ls.runs = true
		ls.work.Add(1)
		go ls.tend()
	}
	return e
}

// serve takes cost from a block that this process has.
func (e *leased) serve(cost int64, d *Decision) (ok, low bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count += cost
	e.touched = true
	now := time.Now()
	for {
		b := &e.now
		if b.left >= cost && now.Before(b.until) {
			b.left -= cost
			e.fill(b, d)
			e.served.Add(1)
			return true, !e.fetching && e.next.left == 0 && b.left < e.size/2 && e.want() > 1
		}
		e.stash(*b) // it has ended, or is too little for this cost
		if e.now, e.next = e.next, (block{}); e.now.left == 0 {
			return false, false
		}
	}
}

// fill sets d to the answer of a use that was served from b.
func (e *leased) fill(b *block, d *Decision) {
	op := driver.Op{Size: e.key.p.op.Size}
	op.Result = driver.Result{Allowed: true, Used: max(0, e.used-e.ahead()), ResetAt: b.resetAt}
	d.fill(e.key.p.id.name, &op, b.at)
}

// stash keeps b until it is given back.
func (e *leased) stash(b block) {
	if b.left == 0 {
		return
	}
	if n := len(e.old); n > 0 && e.key.p.id.kind != driver.Window && e.old[n-1].resetAt == b.resetAt {
		o := &e.old[n-1]
		o.left += b.left
		if o.at = b.at; b.until.Before(o.until) {
			o.until = b.until
		}
		return
	}
	e.old = append(e.old, b)
}

// answered notes what the store said last.
func (e *leased) answered(used int64, at driver.Micros) {
	if at > e.at || at == e.at && used > e.used {
		e.used, e.at = used, at
	}
}

// ahead is what the store is charged with and was not served.
func (e *leased) ahead() int64 {
	n := e.now.left + e.next.left
	for i := range e.old {
		n += e.old[i].left
	}
	return n
}

// want is how large the next block may be: what this process has ahead is never more than the Lease.
func (e *leased) want() int64 {
	return min(e.size, e.key.p.lease-e.ahead(), (e.key.p.op.Size-e.used)/leasePart)
}

// grown is the size after a block was used up in its life.
func (e *leased) grown() { e.size = min(max(2*e.size, 2*e.count), e.key.p.lease) }

// takeLeased decides a Take on a leased rule, or reports that the store has to be asked in the usual way; e may be nil.
func (l *Limiter) takeLeased(ctx context.Context, p *plan, key Key, cost int64, d *Decision) (e *leased, done bool, err error) {
	if e = l.leases.of(p, key); e == nil || cost == 0 || ctx.Err() != nil {
		return nil, false, nil
	}
	ok, low := e.serve(cost, d)
	if low {
		l.fetchAhead(e)
	}
	if ok {
		return e, true, nil
	}
	e.mu.Lock()
	if e.now.left >= cost { // it came this moment
		e.mu.Unlock()
		ok, _ = e.serve(cost, d)
		return e, ok, nil
	}
	k := e.want()
	if e.fetching || k < 2 || e.count < leaseAfter {
		e.mu.Unlock()
		return e, false, nil
	}
	e.fetching = true
	e.mu.Unlock()
	b, err := l.fetch(ctx, e, cost+k)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fetching = false
	switch {
	case err != nil:
		return e, true, err
	case b.left < cost:
		e.stash(b)
		e.size /= 2
		return e, false, nil
	}
	b.left -= cost
	e.stash(e.now)
	e.now = b
	e.fill(&e.now, d)
	e.grown()
	return e, true, nil
}

// noted learns from an answer of the store to a single use.
func (e *leased) noted(d *Decision, cost int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answered(d.Used, driver.MicrosOf(d.At))
	if !d.Allowed {
		e.size = 0
		return
	}
	if e.count >= leaseAfter && e.size == 0 {
		e.size = min(e.count, e.key.p.lease)
	}
}

// fetchAhead fetches the next block while this one is served from.
func (l *Limiter) fetchAhead(e *leased) {
	ls := &l.leases
	e.mu.Lock()
	k := e.want()
	if e.fetching || k < 2 {
		e.mu.Unlock()
		return
	}
	e.fetching = true
	e.mu.Unlock()
	ls.mu.Lock()
	if ls.ends {
		ls.mu.Unlock()
		return
	}
	ls.work.Add(1)
	ls.mu.Unlock()
	go func() {
		defer ls.work.Done()
		b, err := l.fetch(context.Background(), e, k)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.fetching = false
		switch {
		case err != nil || b.left == 0:
		case e.now.left == 0:
			e.now = b
			e.grown()
		default:
			e.next = b
			e.grown()
		}
	}()
}

// fetch has the store charged with up to n uses.
func (l *Limiter) fetch(ctx context.Context, e *leased, n int64) (b block, err error) {
	c := l.calls.Get().(*call)
	defer l.put(c)
	l.one(c, driver.Take, e.key.p, Key{group: e.key.group, id: e.key.id}, 1)
	c.ops[0].Times = n
	sent := time.Now()
	err = l.applyCall(ctx, c)
	if err == nil {
		r := &c.ops[0].Result
		b = block{left: r.Times, at: c.txn.At, resetAt: r.ResetAt}
		life := e.key.p.leaseLife
		if kind := e.key.p.id.kind; kind == driver.Counter || kind == driver.Budget {
			life = min(life, (r.ResetAt - c.txn.At).Duration())
		}
		b.until = sent.Add(life)
		e.mu.Lock()
		e.answered(r.Used, c.txn.At)
		e.mu.Unlock()
	}
	if !c.lost {
		c.ops[0].Times = 0
	}
	return b, err
}

// rest is what this process has of a key and has not served, and how often something of it went back so far.
func (l *Limiter) rest(p *plan, key Key) (left, returns int64) {
	ls := &l.leases
	ls.mu.RLock()
	e := ls.keys[leaseKey{p, key.group, key.id}]
	ls.mu.RUnlock()
	if e == nil {
		return 0, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); now.Before(e.now.until) || now.Before(e.next.until) {
		left = e.ahead()
	}
	return left, e.returns
}

// peekLeased is a Peek at a leased rule: what this process has ahead is added to what the store answers. A block that comes or
// goes back while the store is asked may be in its answer or not, so the answer may be too strict by such a block; it is never too
// generous.
func (l *Limiter) peekLeased(ctx context.Context, p *plan, key Key, cost int64, d *Decision) error {
	left, returns := l.rest(p, key)
	if err := l.askStore(ctx, driver.Peek, p, key, cost, d); err != nil || d.Degraded {
		return err
	}
	after, returnsAfter := l.rest(p, key)
	if left = min(left, after); returns != returnsAfter {
		left = 0
	}
	d.Used = max(0, d.Used-left)
	d.Remaining = max(0, d.Limit-d.Used)
	if !d.Allowed && cost <= left {
		d.Allowed, d.RetryAfter = true, 0
	}
	return nil
}

// tend gives back what is not used, until no key is leased any more.
func (ls *leases) tend() {
	defer ls.work.Done()
	timer := time.NewTimer(ls.tick())
	defer timer.Stop()
	for {
		select {
		case <-ls.done:
			return
		case <-timer.C:
		}
		ls.giveBack(ls.collect(false))
		ls.mu.Lock()
		if len(ls.keys) == 0 {
			ls.runs = false
			ls.mu.Unlock()
			return
		}
		ls.mu.Unlock()
		timer.Reset(ls.tick())
	}
}

// tick is a part of the shortest life.
func (ls *leases) tick() time.Duration {
	life := leaseLife
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	for k := range ls.keys {
		life = min(life, k.p.leaseLife)
	}
	return life / leaseTicks
}

// back is uses to be given back.
type back struct {
	key leaseKey
	block
}

// collect takes blocks that are near their end or not used, and forgets keys that are not used. all: all of them.
func (ls *leases) collect(all bool) (list []back) {
	now := time.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for k, e := range ls.keys {
		e.mu.Lock()
		if e.idle++; e.touched {
			e.idle, e.touched = 0, false
		}
		margin := k.p.leaseLife * 2 / leaseTicks // the next tick may be too late
		for _, b := range []*block{&e.now, &e.next} {
			if b.left > 0 && (all || e.idle > 0 || now.Add(margin).After(b.until)) {
				if e.size > b.left { // demand was less than thought
					e.size -= b.left / 2
				}
				e.stash(*b)
				*b = block{}
			}
		}
		for _, b := range e.old {
			list = append(list, back{k, b})
			e.used -= b.left
			e.returns++
		}
		e.old, e.count = e.old[:0], e.count/2
		forget := e.idle >= leaseForgets && !e.fetching
		e.mu.Unlock()
		if forget {
			delete(ls.keys, k)
		}
	}
	return list
}

// giveBack refunds blocks; what the store does not take back stays charged.
func (ls *leases) giveBack(list []back) {
	l := ls.l
	ctx, cancel := context.WithTimeout(context.Background(), l.opts.Timeout)
	defer cancel()
	for len(list) > 0 {
		some := list[:min(len(list), max(1, l.info.MaxBatch))]
		list = list[len(some):]
		batch := make([]*driver.Txn, len(some))
		for i, b := range some {
			t := &driver.Txn{Verb: driver.Refund, Ops: make([]driver.Op, 1)}
			l.ready(&t.Ops[0], b.key.p, Key{group: b.key.group, id: b.key.id}, b.left)
			t.Ops[0].At = b.at
			if l.opts.Clock != nil {
				t.Now = l.now()
			}
			batch[i] = t
		}
		if l.callStore(ctx, batch) != nil {
			return
		}
		for _, t := range batch {
			l.lines.wake(t.Ops[0].Key)
		}
	}
}

// close gives back all blocks.
func (ls *leases) close() {
	ls.mu.Lock()
	ls.ends = true
	close(ls.done)
	ls.mu.Unlock()
	ls.work.Wait()
	ls.giveBack(ls.collect(true))
}
