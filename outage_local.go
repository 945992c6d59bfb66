package ration

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// local decides for LocalOnError: on a part of each limit, in memory. What it admits is a debt to the store, charged there
// when the store is up again.
type local struct {
	l       *Limiter
	parts   int64
	maxKeys int

	mu      sync.Mutex
	store   *memstore.Store
	charged map[driver.Key]driver.Op // as for the store, of cost 0
	debts   []debt
	pays    bool // a goroutine does
	work    sync.WaitGroup
}

// debt is what the store has to be told of.
type debt struct {
	id     string // so that it is charged once
	op     driver.Op
	amount int64
}

func newLocal(l *Limiter, o *Outage) *local {
	return &local{l: l, parts: int64(o.Parts), maxKeys: o.MaxKeys, charged: map[driver.Key]driver.Op{}}
}

// part is op on its part of the limit; false if there is none.
func (lo *local) part(op *driver.Op) (part driver.Op, ok bool) {
	part = driver.Op{Key: op.Key, Kind: op.Kind, Size: op.Size / lo.parts, Rate: op.Rate, Span: op.Span, Bounds: op.Bounds, Cost: op.Cost}
	switch {
	case part.Size == 0 || op.Kind == driver.Slots:
		return part, false
	case op.Kind == driver.Bucket:
		part.Span *= driver.Micros(lo.parts)
		var err error
		part.Gain, part.Unit, part.Tick, err = driver.Units(part.Size, part.Rate, part.Span)
		return part, err == nil
	}
	return part, true
}

// decide decides t's verb (Take or Peek) on the parts of ops. It reports false if it cannot: then it is denied. Of ops, it
// reads only what a store does not write.
func (lo *local) decide(verb driver.Verb, id string, ops []driver.Op) (t *driver.Txn, ok bool) {
	t = &driver.Txn{Verb: verb, ID: id, Ops: make([]driver.Op, len(ops))}
	if id != "" {
		t.TTL = micros(defaultTTL)
	}
	for i := range ops {
		if t.Ops[i], ok = lo.part(&ops[i]); !ok {
			return nil, false
		}
	}
	if lo.l.opts.Clock != nil {
		t.Now = lo.l.now()
	}
	lo.mu.Lock()
	defer lo.mu.Unlock()
	if lo.l.circuit == nil || lo.l.closed.Load() || len(lo.debts) >= lo.maxKeys {
		return nil, false
	}
	if lo.store == nil {
		lo.store = memstore.New(&memstore.Options{MaxKeys: lo.maxKeys})
	}
	if verb == driver.Take {
		more := 0
		for i := range ops {
			if _, known := lo.charged[ops[i].Key]; !known {
				more++
			}
		}
		if len(lo.charged)+more > lo.maxKeys {
			return nil, false
		}
	}
	if err := lo.store.Apply(context.Background(), []*driver.Txn{t}); err != nil || t.Err != nil {
		return nil, false
	}
	if verb == driver.Take && t.Allowed {
		for i := range ops {
			op := &ops[i]
			lo.charged[op.Key] = driver.Op{Key: op.Key, Kind: op.Kind, Size: op.Size, Rate: op.Rate, Gain: op.Gain, Unit: op.Unit,
				Tick: op.Tick, Span: op.Span, Bounds: op.Bounds}
		}
		lo.start(lo.l.circuit.every)
	}
	return t, true
}

// adjust corrects what was charged for ops from costs to actual. What was charged and is a debt to the store by now is not
// given back.
func (lo *local) adjust(ops []driver.Op, costs, actual []int64) {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	for i := range ops {
		more := actual[i] - costs[i]
		if more > 0 {
			op := ops[i]
			op.Result, op.Cost = driver.Result{}, 0
			lo.owe(op, more)
			continue
		}
		if _, open := lo.charged[ops[i].Key]; !open || more == 0 {
			continue
		}
		part, ok := lo.part(&ops[i])
		if !ok {
			continue
		}
		t := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{part}}
		t.Ops[0].Cost = 0
		if lo.l.opts.Clock != nil {
			t.Now = lo.l.now()
		}
		if lo.store.Apply(context.Background(), []*driver.Txn{t}) != nil || t.Err != nil {
			continue
		}
		t.Verb, t.Ops[0].Cost, t.Ops[0].At, t.Ops[0].Result = driver.Refund, min(-more, t.Ops[0].Result.Used), t.At, driver.Result{}
		_ = lo.store.Apply(context.Background(), []*driver.Txn{t}) // what is not given back stays charged
	}
	lo.start(0)
}

// owe notes a debt. lo.mu is held.
func (lo *local) owe(op driver.Op, amount int64) {
	lo.debts = append(lo.debts, debt{rand.Text(), op, amount})
}

// collect turns what was charged here into debts. lo.mu is held.
func (lo *local) collect() {
	for key, op := range lo.charged {
		part, _ := lo.part(&op)
		t := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{part}}
		if lo.l.opts.Clock != nil {
			t.Now = lo.l.now()
		}
		lo.l.bound(t.Ops, lo.l.now())
		err := lo.store.Apply(context.Background(), []*driver.Txn{t})
		if used := t.Ops[0].Result.Used; err == nil && t.Err == nil && used > 0 {
			lo.owe(op, used)
		}
		delete(lo.charged, key)
	}
	if lo.store != nil {
		lo.store.Close()
		lo.store = nil
	}
}

// settle has the store, which is up again, charged with what was admitted while it was down.
func (lo *local) settle() {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	lo.collect()
	lo.start(0)
}

// start starts paying after a while, if there is what to pay. lo.mu is held.
func (lo *local) start(after time.Duration) {
	if len(lo.debts)+len(lo.charged) == 0 || lo.pays || lo.l.circuit.ctx.Err() != nil {
		return
	}
	lo.pays = true
	lo.work.Add(1)
	go lo.pay(after)
}

// payAtOnce is how many debts travel together.
const payAtOnce = 64

// pay charges debts until there are none, or the circuit is open: when it closes, settle goes on.
func (lo *local) pay(after time.Duration) {
	defer lo.work.Done()
	c := lo.l.circuit
	timer := time.NewTimer(after)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
		case <-timer.C:
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
		up := !c.open.Load() && lo.l.probe(ctx) == nil // parts are given anew only when the store is up
		if left := lo.payOnce(ctx, up); left < 0 {
			cancel()
			return
		} else if left > 0 || !up {
			timer.Reset(c.every)
		} else {
			timer.Reset(0)
		}
		cancel()
	}
}

// payOnce pays some debts, and answers how many of them are left; −1: there is no more to do.
func (lo *local) payOnce(ctx context.Context, up bool) (left int) {
	c := lo.l.circuit
	lo.mu.Lock()
	if up {
		lo.collect()
	}
	if len(lo.debts)+len(lo.charged) == 0 || c.ctx.Err() != nil || c.open.Load() {
		lo.pays = false
		lo.mu.Unlock()
		return -1
	}
	if !up {
		lo.mu.Unlock()
		return 0
	}
	some := lo.debts[:min(len(lo.debts), payAtOnce, max(1, lo.l.info.MaxBatch))]
	lo.debts = lo.debts[len(some):]
	lo.mu.Unlock()
	unpaid := lo.charge(ctx, some)
	lo.mu.Lock()
	defer lo.mu.Unlock()
	lo.debts = append(lo.debts, unpaid...)
	return len(unpaid)
}

// charge has debts charged, beyond the limit if need be, and answers those that were not, or of which it is not known.
func (lo *local) charge(ctx context.Context, debts []debt) (left []debt) {
	l := lo.l
	l.inFlight.RLock()
	defer l.inFlight.RUnlock()
	batch := make([]*driver.Txn, len(debts))
	for i := range debts {
		t := &driver.Txn{Verb: driver.Take, Ops: []driver.Op{debts[i].op}}
		batch[i] = t
		l.bound(t.Ops, l.now())
		if l.opts.Clock != nil {
			t.Now = l.now()
		}
		op := &t.Ops[0]
		switch {
		case op.Kind != driver.Bucket:
			op.Cost, op.Size = debts[i].amount, driver.MaxNumber
		case l.info.Caps.Has(driver.CapHolds): // the level of a bucket depends on its size; what a hold used is charged in any case
			t.Hold = true
		default:
			op.Cost, op.Times = 1, debts[i].amount // what does not fit is more than the limit
		}
		if l.info.Caps.Has(driver.CapIDs) && op.Times == 0 {
			id, err := l.routed(debts[i].id, t.Ops)
			if err != nil {
				return debts
			}
			t.ID, t.TTL = l.txnID(id), micros(minTTL)
		}
	}
	if err := l.callStore(ctx, batch); err != nil {
		return debts
	}
	var ends []*driver.Txn
	var owed []debt
	for i, t := range batch {
		switch {
		case t.Err != nil || !t.Allowed && t.Ops[0].Times == 0:
			left = append(left, debts[i]) // in debt already: later
		case t.Hold:
			ends = append(ends, &driver.Txn{Verb: driver.Settle, ID: t.ID, Amounts: []int64{debts[i].amount}, Now: t.Now})
			owed = append(owed, debts[i])
		}
	}
	if len(ends) == 0 {
		return left
	}
	err := l.callStore(ctx, ends)
	for i, t := range ends {
		if err != nil || t.Err != nil {
			left = append(left, owed[i])
		}
	}
	return left
}

// close pays what can be paid at once, after the paying that was under way has ended.
func (lo *local) close() {
	lo.work.Wait()
	lo.mu.Lock()
	defer lo.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lo.l.opts.Timeout)
	defer cancel()
	if !lo.l.circuit.open.Load() {
		lo.collect()
		for len(lo.debts) > 0 {
			some := lo.debts[:min(len(lo.debts), payAtOnce, max(1, lo.l.info.MaxBatch))]
			if lo.debts = lo.debts[len(some):]; len(lo.charge(ctx, some)) > 0 {
				break
			}
		}
	}
	if lo.store != nil {
		lo.store.Close()
		lo.store = nil
	}
}
