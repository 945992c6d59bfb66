package ration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/calendar"
	"github.com/ration-go/ration/internal/join"
	"github.com/ration-go/ration/memstore"
)

// A Limiter decides on a store. Its methods are safe for concurrent use, and return by the end of their context; if that
// has no deadline, each store call ends after Options.Timeout.
type Limiter struct {
	store     driver.Store
	info      driver.Info
	opts      Options
	onError   atomic.Uint32 // the OnError of limits that do not say
	namespace string        // escaped
	hashes    bool          // keys
	err       error         // what is wrong with the options

	plans   plans
	calls   sync.Pool       // of *call
	memory  *memstore.Store // nil: there is no short way
	joiner  *join.Joiner    // nil: each call goes to the store by itself
	lines   lines
	circuit *circuit // nil: the store is Instant
	local   *local

	leases   leases
	refusals refusals

	asides   atomic.Bool // Aside was used
	closed   atomic.Bool
	done     chan struct{}
	inFlight sync.RWMutex // held for reading by calls to a store that is not Instant
}

// call is a transaction of one op, reused.
type call struct {
	txn   driver.Txn
	ops   [1]driver.Op
	batch [1]*driver.Txn
	plan  *plan // of its op, as it was used last
	lost  bool  // it is still in the hands of the store
}

// New makes a Limiter that owns store: Close closes it. nil options are the defaults; options that are invalid make every
// verb answer ErrInvalidLimit or ErrInvalidKey with the reason.
//
// New logs one warning if production is stated (Options.Production, or RATION_ENV=production) and the store is one that
// each process keeps for itself.
func New(store driver.Store, opts *Options) *Limiter {
	l := &Limiter{store: store, info: store.Info(), done: make(chan struct{})}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.OnError == 0 {
		l.opts.OnError = DenyOnError
	}
	l.onError.Store(uint32(l.opts.OnError))
	if l.opts.Timeout <= 0 {
		l.opts.Timeout = 5 * time.Second
	}
	switch {
	case len(l.opts.Namespace) > maxNamespace:
		l.err = invalidf(ErrInvalidKey, "a namespace of %d bytes is longer than %d", len(l.opts.Namespace), maxNamespace)
	case l.opts.KeySecret != nil && len(l.opts.KeySecret) < minSecret:
		l.err = invalidf(ErrInvalidKey, "a key secret of %d bytes is shorter than %d", len(l.opts.KeySecret), minSecret)
	case l.opts.OnError > LocalOnError:
		l.err = invalidf(ErrInvalidLimit, "an unknown OnError in the options")
	}
	l.opts.KeySecret = bytes.Clone(l.opts.KeySecret)
	l.hashes = l.opts.KeySecret != nil
	l.namespace = escapeNamespace(l.opts.Namespace)
	l.plans.spaces = map[string]string{}
	l.plans.calendars = map[calendar.Spec]*calendar.Calendar{}
	l.lines.byKey = map[driver.Key]*line{}
	l.calls.New = func() any {
		c := new(call)
		c.batch[0] = &c.txn
		return c
	}
	if !l.info.Instant && l.info.MaxBatch > 1 && !l.opts.NoJoin {
		l.joiner = join.New(join.Options{Apply: store.Apply, MaxBatch: l.info.MaxBatch, InFlight: max(1, l.info.InFlight),
			MaxQueue: maxQueue, Timeout: l.opts.Timeout, Applied: l.applied()})
	}
	// Not an interface: whoever embeds a memstore.Store to see its calls shall see all of them.
	if m, ok := store.(*memstore.Store); ok && l.opts.Clock == nil && !l.hashes {
		l.memory = m
	}
	l.leases = leases{l: l, keys: map[leaseKey]*leased{}, done: make(chan struct{})}
	if !l.info.Instant && l.opts.Clock == nil {
		l.refusals = refusals{life: min(max(l.opts.RememberRefusals, 0), time.Second), young: map[leaseKey]remembered{}}
	}
	outage := l.opts.Outage.withDefaults()
	l.local = newLocal(l, &outage)
	if !l.info.Instant {
		l.circuit = l.newCircuit(&outage)
	}
	l.warn()
	return l
}

// maxQueue is how many calls wait for a store at most; then ErrOverloaded.
const maxQueue = 1 << 14

const (
	maxNamespace = 256
	minSecret    = 16
)

func (l *Limiter) warn() {
	if l.info.Scope != driver.Process || !l.opts.Production && os.Getenv("RATION_ENV") != "production" {
		return
	}
	log := l.opts.Logger
	if log == nil {
		log = slog.Default()
	}
	log.Warn("ration: counts are kept by this process alone; with more than one process each admits the whole limit. "+
		"Use a store they share: sqlitestore on one machine, pgstore or redisstore on several, or the client of a ration server",
		"store", l.info.Kind)
}

// Close closes the store, after the calls under way. Calls of Wait end with ErrClosed, and so do later calls. A second
// Close does nothing.
func (l *Limiter) Close() error {
	if !l.closed.CompareAndSwap(false, true) {
		return nil
	}
	close(l.done)
	l.leases.close()
	if l.circuit != nil {
		l.circuit.close()
		l.local.close()
	}
	if l.joiner != nil {
		l.joiner.Close()
	}
	l.inFlight.Lock()
	defer l.inFlight.Unlock()
	return l.store.Close()
}

// now is the caller's clock; not what decides, unless it is injected.
func (l *Limiter) now() driver.Micros {
	if l.opts.Clock != nil {
		return driver.MicrosOf(l.opts.Clock())
	}
	return driver.MicrosOf(time.Now())
}

// apply has the one transaction of batch decided, and answers its own error as well. After a lostError nobody may look at
// the transaction. What stands beside the call in ctx is taken with it; an error of that is none of the call's.
func (l *Limiter) apply(ctx context.Context, batch []*driver.Txn) error {
	t := batch[0]
	verb := t.Verb
	var beside *Aside
	if verb == driver.Take {
		if beside = l.aside(ctx); beside != nil {
			batch = append(batch[:1:1], beside.txns(l)...)
		}
	}
	err := l.send(ctx, batch)
	if beside != nil && err == nil {
		beside.answered(batch[1:])
		batch = batch[:1]
	}
	if err == nil && errors.Is(t.Err, driver.ErrClock) {
		// The store's clock is in another period than ours. Ask again, from its time.
		for i := range t.Ops {
			t.Ops[i].Result = driver.Result{}
		}
		l.bound(t.Ops, t.At)
		t.Err, t.Allowed = nil, false
		err = l.send(ctx, batch)
	}
	if err == nil {
		err = t.Err
	}
	if err != nil && verb != driver.Peek {
		return unknown(err)
	}
	return err
}

// send makes one store call.
func (l *Limiter) send(ctx context.Context, batch []*driver.Txn) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return tooLateError{notSent(err)}
	}
	if l.opts.Clock != nil {
		now := l.now()
		if now < 1 || now > driver.MaxNow {
			return notSent(invalidf(ErrInvalidTime, "Options.Clock answers %v; it must be after 1970 and before 2155", now.Time()))
		}
		for _, t := range batch {
			t.Now = now
		}
	}
	if l.info.Instant {
		return l.store.Apply(ctx, batch)
	}
	if l.circuit.open.Load() && isDecision(batch[0].Verb) {
		return ErrUnavailable
	}
	sent := time.Now()
	if l.joiner == nil {
		err := l.alone(ctx, batch)
		l.circuit.note(err, time.Since(sent))
		return err
	}
	lost, err := l.joiner.Do(ctx, batch[0], batch[1:]...)
	switch {
	case errors.Is(err, join.ErrQueueFull):
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case errors.Is(err, ErrClosed):
		return err
	}
	l.circuit.note(err, time.Since(sent))
	if lost {
		return lostError{err}
	}
	return err
}

// alone makes the call of one caller.
func (l *Limiter) alone(ctx context.Context, batch []*driver.Txn) error {
	l.inFlight.RLock()
	defer l.inFlight.RUnlock()
	if l.closed.Load() {
		return ErrClosed
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.opts.Timeout)
		defer cancel()
	}
	return l.callStore(ctx, batch)
}

// tooLateError is of a call whose context was done before: no trouble of the store.
type tooLateError struct{ error }

func (e tooLateError) Unwrap() error { return e.error }

// lostError is of a call whose caller's time ended while a batch had it.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// applyCall is apply for a call of the pool.
func (l *Limiter) applyCall(ctx context.Context, c *call) error {
	err := l.apply(ctx, c.batch[:])
	if err != nil {
		_, c.lost = errors.AsType[lostError](err)
	}
	return err
}

// put gives c back to the pool.
func (l *Limiter) put(c *call) {
	if !c.lost {
		l.calls.Put(c)
	}
}

// afterCancel is for calls that give back: they run although ctx is done, for a bounded time.
func (l *Limiter) afterCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if l.info.Instant {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, giveBackTime)
}

// giveBackTime is how long Refund may outlive its context.
const giveBackTime = 5 * time.Second

// failed applies the outage policy to err of a decision on p.
func (l *Limiter) failed(ctx context.Context, err error, verb driver.Verb, p *plan, key Key, cost int64) (Decision, error) {
	if !outage(ctx, err) {
		return Decision{}, err
	}
	s := list{plans: []*plan{p}, ops: make([]driver.Op, 1)}
	if key.id != "" {
		l.ready(&s.ops[0], p, key, cost)
	}
	ds, _, err := l.byPolicy(err, verb, "", &s)
	if err != nil {
		return Decision{}, err
	}
	return ds[0], nil
}

func (l *Limiter) policy(p *plan) OnError {
	if p.id.onError != 0 {
		return p.id.onError
	}
	return OnError(l.onError.Load())
}

// SetOnError changes Options.OnError, for failures from now on; 0 is the default. A value that is none of the policies is
// ErrInvalidLimit, and changes nothing.
func (l *Limiter) SetOnError(o OnError) error {
	if o > LocalOnError {
		return invalidf(ErrInvalidLimit, "an unknown OnError")
	}
	if o == 0 {
		o = DenyOnError
	}
	l.onError.Store(uint32(o))
	return nil
}

func (l *Limiter) isLocal(p *plan) bool { return l.policy(p) == LocalOnError }

// byPolicy decides s without the store, because of cause, or answers cause.
func (l *Limiter) byPolicy(cause error, verb driver.Verb, id string, s *list) (each []Decision, allowed bool, err error) {
	each = make([]Decision, len(s.plans))
	ops := make([]driver.Op, 0, len(s.plans)) // that are decided locally
	for i, p := range s.plans {
		switch l.policy(p) {
		case AllowOnError:
			each[i] = Decision{Allowed: true, Degraded: true, Name: p.id.name, Limit: p.id.size, At: l.now().Time()}
		case LocalOnError:
			// Not the whole op: the store may still write its results.
			op := &s.ops[i]
			ops = append(ops, driver.Op{Key: op.Key, Kind: op.Kind, Size: op.Size, Rate: op.Rate, Gain: op.Gain, Unit: op.Unit, Tick: op.Tick,
				Span: op.Span, Bounds: op.Bounds, Cost: op.Cost})
		default:
			return nil, false, cause
		}
	}
	if len(ops) == 0 {
		return each, true, nil
	}
	t, ok := l.local.decide(verb, id, ops)
	if !ok {
		return nil, false, cause
	}
	for i, next := 0, 0; i < len(each); i++ {
		if !each[i].Degraded {
			each[i].fill(s.plans[i].id.name, &t.Ops[next], t.At)
			each[i].Degraded = true
			next++
		}
	}
	return each, t.Allowed, nil
}

// outage reports whether err is the store's trouble, not the caller's.
func outage(ctx context.Context, err error) bool {
	if _, late := errors.AsType[tooLateError](err); late || errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	return !callersFault(err)
}

// callersFault reports whether err is about the call, not the store.
func callersFault(err error) bool {
	for _, own := range []error{ErrInvalidKey, ErrInvalidLimit, ErrInvalidCost, ErrInvalidTime, ErrInvalidID, ErrUnsupported, ErrOverflow,
		ErrCrossGroup, ErrClosed, ErrIDReused, ErrEnded, ErrNoReservation, driver.ErrAmounts} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

func checkCost(cost int64) error {
	if cost < 0 || cost > MaxCount {
		return invalidf(ErrInvalidCost, "a cost of %d is not between 0 and 2^53 − 1", cost)
	}
	return nil
}

// need is ErrUnsupported unless the store has cap.
func (l *Limiter) need(cap driver.Caps, what string) error {
	if l.info.Caps.Has(cap) {
		return nil
	}
	return fmt.Errorf("%w: the %s store has no %s", ErrUnsupported, l.info.Kind, what)
}
