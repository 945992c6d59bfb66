package ration_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/storetest"
)

// TestConformance drives the Limiter by the case files and random commands of storetest: what a store must answer, a user
// of the verbs is answered.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{Open: func(t testing.TB) driver.Store {
		v := &verbs{store: memstore.New(nil), limiters: map[string]*ration.Limiter{}}
		t.Cleanup(func() { v.Close() })
		return v
	}})
}

// verbs is a store that asks a Limiter: each op is made a limit, each Txn a verb. It decides one call after the other, as
// the Limiter has no verb to look at several limits at once.
type verbs struct {
	store *memstore.Store

	mu       sync.Mutex
	limiters map[string]*ration.Limiter // by namespace
	now      driver.Micros
}

func (v *verbs) Info() driver.Info {
	return driver.Info{Kind: "verbs", Scope: driver.Process, Caps: driver.CapsRun}
}

func (v *verbs) Close() error { return v.store.Close() }

func (v *verbs) limiter(namespace string) *ration.Limiter {
	l := v.limiters[namespace]
	if l == nil {
		l = ration.New(v.store, &ration.Options{Namespace: namespace, Clock: func() time.Time { return v.now.Time() }})
		v.limiters[namespace] = l
	}
	return l
}

func (v *verbs) Apply(ctx context.Context, batch []*driver.Txn) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range batch {
		if v.now = t.Now; v.now == 0 {
			v.now = driver.MicrosOf(time.Now())
		}
		t.At = v.now
		t.Err = v.decide(ctx, t)
		t.Allowed = t.Err == nil
		for i := range t.Ops {
			t.Allowed = t.Allowed && t.Ops[i].Result.Allowed
		}
	}
	return nil
}

func (v *verbs) decide(ctx context.Context, t *driver.Txn) (err error) {
	namespace, _, _ := strings.Cut(t.Ops[0].Key.Space, "|")
	l := v.limiter(namespace)
	limits, keys := make([]ration.Limit, len(t.Ops)), make([]ration.Key, len(t.Ops))
	for i := range t.Ops {
		op := &t.Ops[i]
		keys[i] = keyOf(op.Key)
		if t.Verb == driver.Forget {
			continue
		}
		if limits[i], err = limitOf(op); err != nil {
			return err
		}
		if b := op.Bounds; op.Kind == driver.Budget && (t.Verb == driver.Take || t.Verb == driver.Peek) && (v.now < b[0] || v.now >= b[3]) {
			return driver.ErrClock // the Limiter would ask again
		}
	}
	op := &t.Ops[0]
	switch {
	case t.Verb == driver.Take && len(t.Ops) > 1:
		charges := make([]ration.Charge, len(t.Ops))
		for i := range t.Ops {
			charges[i] = keys[i].Charge(limits[i], t.Ops[i].Cost)
		}
		o, err := l.TakeAll(ctx, charges...)
		for i := range o.Each {
			setResult(&t.Ops[i].Result, o.Each[i])
		}
		return err
	case t.Verb == driver.Take:
		for op.Result.Times < max(op.Times, 1) { // as many as fit
			d, err := l.Take(ctx, keys[0], limits[0], op.Cost)
			if err != nil {
				return err
			}
			if setResult(&op.Result, d); !d.Allowed {
				break
			}
			op.Result.Times++
		}
	case t.Verb == driver.Peek:
		for i := range t.Ops {
			d, err := l.Peek(ctx, keys[i], limits[i], t.Ops[i].Cost)
			if err != nil {
				return err
			}
			setResult(&t.Ops[i].Result, d)
		}
	case t.Verb == driver.Hit:
		count, left, err := l.Hit(ctx, keys[0], op.Span.Duration(), op.Cost)
		op.Result = driver.Result{Allowed: err == nil, Used: count, ResetAt: v.now + micros(left)}
		return err
	case t.Verb == driver.Refund:
		given, err := l.Refund(ctx, keys[0], limits[0], op.Cost, op.At.Time())
		if err != nil {
			return err
		}
		d, err := l.Peek(ctx, keys[0], limits[0], 0)
		op.Result = driver.Result{Allowed: true, Given: given, Used: d.Used}
		return err
	case t.Verb == driver.Reset:
		return l.Reset(ctx, keys[0], limits[0])
	case t.Verb == driver.Forget:
		return l.Forget(ctx, keys[0])
	}
	return nil
}

func micros(d time.Duration) driver.Micros { return driver.Micros(d / time.Microsecond) }

func setResult(r *driver.Result, d ration.Decision) {
	r.Allowed, r.Never, r.Used = d.Allowed, d.Never, d.Used
	r.RetryAfter, r.ResetAt = micros(d.RetryAfter), driver.MicrosOf(d.ResetAt())
}

// keyOf is a key for k. A driver's key may be longer than a user's, as it may be escaped.
func keyOf(k driver.Key) ration.Key {
	id := k.ID
	if len(id) > 1024 {
		id = fmt.Sprintf("%x", sha256.Sum256([]byte(id)))
	}
	return ration.KeyOf(id).In(k.Group)
}

// limitOf is the limit that op is of. The suite writes its rule's name and its calendar into the Space.
func limitOf(op *driver.Op) (ration.Limit, error) {
	words := strings.Split(op.Key.Space, "|")
	r := ration.Rule{Name: words[2]}
	switch op.Kind {
	case driver.Bucket:
		r.Limit = ration.TokenBucket{Burst: op.Size, Refill: ration.Rate{N: op.Rate, Per: op.Span.Duration()}}
	case driver.Window:
		r.Limit = ration.SlidingWindow{Limit: op.Size, Window: op.Span.Duration()}
	case driver.Counter:
		r.Limit = ration.FixedWindow{Limit: op.Size, Window: op.Span.Duration()}
	default:
		limit, err := ration.ParseLimit(fmt.Sprintf("budget %d%s", op.Size, words[3]))
		if err != nil {
			return nil, err
		}
		r.Limit = limit
	}
	if r.Name == "" {
		return r.Limit, nil
	}
	return r, nil
}
