package ration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// ReserveOptions of Reserve; nil is the zero value.
type ReserveOptions struct {
	// ID makes the call happen once: the same ID with the same charges answers the same, and charges once. 1 to 128 bytes;
	// default: a random one.
	ID string
	// TTL is how long the reservation is held if nobody renews it: 1 s to 31 days, default 10 min. A Concurrency limit
	// among the charges makes it at most its Lease.
	TTL time.Duration
	// RefundOnExpiry gives back what Progress has not reported when the reservation expires. Otherwise it stays charged.
	RefundOnExpiry bool
	// Wait waits for its turn instead of refusing, as Limiter.Wait does.
	Wait bool
}

// Lives of reservations and ids.
const (
	defaultTTL = 10 * time.Minute
	minTTL     = time.Second
	maxTTL     = 31 * 24 * time.Hour
	maxIDLen   = 128
)

// A Reservation holds what Reserve charged, until Settle, Cancel or its expiry ends it; the first end wins. Any process may
// end it, by its ID. Settle, Cancel, Progress and Renew run although ctx is done, for at most 5 s, and may be repeated: they
// happen once. On a nil or refused Reservation they do nothing. Methods are safe for concurrent use.
type Reservation struct {
	Outcome

	l       *Limiter
	id      string
	list    list // without ops: by id alone
	costs   []int64
	held    bool
	local   bool        // charged by LocalOnError
	settled atomic.Bool // of a local one
	ttl     time.Duration
	expires atomic.Int64              // driver.Micros
	renewed atomic.Pointer[time.Time] // when the call was sent that the life counts from
	life    atomic.Int64              // driver.Micros: from the last renewal that is known to the expiry; 0: none is
}

// Reserve charges 1 to 64 limits, all or none, as TakeAll does, and holds the charge: do the work, then Settle what it
// really used, or Cancel. Look at Allowed: a refused Reservation holds nothing. If the caller dies, the hold expires after
// ReserveOptions.TTL, and the charge stays or goes back as ReserveOptions says.
//
//	r, err := limiter.Reserve(ctx, nil, ration.KeyOf(user).Charge(day, estimate))
//	if err != nil || !r.Allowed { … }
//	defer r.Cancel(ctx) // nothing after Settle
//	…
//	err = r.Settle(ctx, actual)
//
// After ErrOutcomeUnknown, call again with the same ReserveOptions.ID: it is charged once.
func (l *Limiter) Reserve(ctx context.Context, opts *ReserveOptions, charges ...Charge) (*Reservation, error) {
	start := l.start()
	r, err := l.reserve(ctx, opts, charges)
	var o Outcome
	if r != nil {
		o = r.Outcome
	}
	l.observeList(ctx, "reserve", charges, start, o, err)
	return r, err
}

func (l *Limiter) reserve(ctx context.Context, opts *ReserveOptions, charges []Charge) (*Reservation, error) {
	o := ReserveOptions{}
	if opts != nil {
		o = *opts
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.TTL < minTTL || o.TTL > maxTTL {
		return nil, invalidf(ErrInvalidTime, "a reservation's TTL of %v is not between %v and %v", o.TTL, minTTL, maxTTL)
	}
	if err := l.need(driver.CapHolds, "reservations"); err != nil {
		return nil, err
	}
	s, err := l.list(charges, true)
	if err != nil {
		return nil, err
	}
	if len(s.ops) != len(charges) {
		return nil, invalidf(ErrInvalidLimit, "two charges of a reservation share a count, and Settle could not tell them apart; make them one charge")
	}
	if o.ID == "" {
		o.ID = rand.Text()
	}
	id, err := l.routed(o.ID, s.ops)
	if err != nil {
		return nil, err
	}
	r := &Reservation{l: l, id: id, list: s, ttl: o.TTL}
	for i := range charges {
		r.costs = append(r.costs, charges[i].cost)
	}
	txn := driver.Txn{Verb: driver.Take, Hold: true, Return: o.RefundOnExpiry, TTL: micros(o.TTL)}
	if o.Wait {
		err = l.reserveInTurn(ctx, r, txn)
	} else {
		err = r.take(ctx, txn)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// take makes the charge and fills in r.
func (r *Reservation) take(ctx context.Context, txn driver.Txn) error {
	l := r.l
	txn.ID = l.txnID(r.id)
	txn.Ops = append([]driver.Op(nil), r.list.ops...)
	sent := time.Now()
	if cause := l.applyOnce(ctx, &txn); cause != nil {
		o, err := l.degraded(ctx, cause, &r.list, txn.ID)
		r.Outcome = o
		r.local = err == nil && o.Allowed && slices.ContainsFunc(r.list.plans, l.isLocal)
		// Decided by the outage policy. There may be a hold all the same, to be ended.
		r.held = err == nil && errors.Is(cause, ErrOutcomeUnknown)
		return err
	}
	r.Outcome = r.list.outcome(&txn)
	r.held = txn.Allowed
	r.id = strings.TrimPrefix(txn.ID, l.namespace+"|") // with its route, if the store is asked by way of another
	r.moveExpiry(&txn, r.ttl, sent)
	return nil
}

// reserveInTurn takes as soon as it passes, first come, first served for the first of the keys.
func (l *Limiter) reserveInTurn(ctx context.Context, r *Reservation, txn driver.Txn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key, cost := r.list.ops[0].Key, r.list.ops[0].Cost
	nap := maxNap
	for i := range r.list.ops {
		if r.list.ops[i].Kind == driver.Slots {
			nap = slotNap
		}
	}
	w := l.lines.join(key, cost)
	defer l.lines.leave(key, w)
	if err := w.wait(ctx, l); err != nil {
		return err
	}
	for {
		err := r.takeInTime(ctx, txn)
		if err != nil || r.Allowed {
			if err == nil && ctx.Err() != nil {
				return errors.Join(ctx.Err(), r.Cancel(ctx))
			}
			return err
		}
		// Slots are nearly always let go of before their lease ends, so its end is no reason to give up.
		if d := r.Decision; nap == maxNap || d.Never {
			if err := refusal(ctx, d); err != nil {
				return err
			}
		}
		if err := w.nap(ctx, l, min(r.RetryAfter, nap)); err != nil {
			return err
		}
	}
}

// slotNap is how often a waiting Reserve looks whether another process has let go of a slot.
const slotNap = 250 * time.Millisecond

func (r *Reservation) takeInTime(ctx context.Context, txn driver.Txn) error {
	if !r.l.info.Instant {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.l.opts.Timeout)
		defer cancel()
	}
	return r.take(ctx, txn)
}

// TakeOnce is TakeAll that happens once for id (1 to 128 bytes): within ten minutes the same id with the same charges
// answers the same, and is charged once. Only admissions are remembered; a refusal is decided anew. With other charges the
// id is ErrIDReused. After ErrOutcomeUnknown, call again with the same id.
func (l *Limiter) TakeOnce(ctx context.Context, id string, charges ...Charge) (Outcome, error) {
	start := l.start()
	o, err := l.takeOnce(ctx, id, charges)
	l.observeList(ctx, "take-once", charges, start, o, err)
	return o, err
}

func (l *Limiter) takeOnce(ctx context.Context, id string, charges []Charge) (o Outcome, err error) {
	if err := l.need(driver.CapIDs, "ids"); err != nil {
		return o, err
	}
	s, err := l.list(charges, false)
	if err != nil {
		return o, err
	}
	if id, err = l.routed(id, s.ops); err != nil {
		return o, err
	}
	txn := &driver.Txn{Verb: driver.Take, ID: l.txnID(id), TTL: micros(defaultTTL), Ops: s.ops}
	if err := l.applyOnce(ctx, txn); err != nil {
		return l.degraded(ctx, err, &s, txn.ID)
	}
	return s.outcome(txn), nil
}

// routed is id as it is shown to the caller: with where it is, if the store has to know.
func (l *Limiter) routed(id string, ops []driver.Op) (string, error) {
	if id == "" || len(id) > maxIDLen {
		return "", invalidf(ErrInvalidID, "an id of %d bytes is not between 1 and %d", len(id), maxIDLen)
	}
	if router, ok := l.store.(driver.Router); ok {
		id = router.Route(ops[0].Key) + "." + id
	}
	return id, nil
}

// txnID is id as the store sees it: apart from the ids of other namespaces.
func (l *Limiter) txnID(id string) string { return l.namespace + "|" + id }

// applyOnce is apply for a transaction with an id: what happens once may be sent again when its answer was lost.
func (l *Limiter) applyOnce(ctx context.Context, txn *driver.Txn) (err error) {
	ops := append([]driver.Op(nil), txn.Ops...)
	var unknown error // an earlier outcome
	for try := 0; ; try++ {
		err = l.apply(ctx, []*driver.Txn{txn})
		if err != nil && unknown != nil && errors.Is(err, driver.ErrNotApplied) && !callersFault(err) {
			err = unknown // an earlier try may have been applied all the same
		}
		if unknown == nil && errors.Is(err, ErrOutcomeUnknown) {
			unknown = err
		}
		if _, lost := errors.AsType[lostError](err); lost {
			return err
		}
		if err == nil || try == resends || !errors.Is(err, ErrOutcomeUnknown) || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(resendAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		txn.Ops = append(txn.Ops[:0], ops...)
		txn.Allowed, txn.At, txn.Err = false, 0, nil
	}
}

const (
	resends     = 2
	resendAfter = 20 * time.Millisecond
)

// Reservation is the reservation of this ID, made by any process. Nothing is asked before it is used; its Outcome is empty.
func (l *Limiter) Reservation(id string) *Reservation {
	return &Reservation{l: l, id: id, held: true}
}

// ID names the reservation to other processes.
func (r *Reservation) ID() string {
	if r == nil {
		return ""
	}
	return r.id
}

// ExpiresAt is when the reservation ends if nobody renews it, by the store's clock; the zero time if it is not known here.
func (r *Reservation) ExpiresAt() time.Time {
	if r == nil || r.expires.Load() == 0 {
		return time.Time{}
	}
	return driver.Micros(r.expires.Load()).Time()
}

// moveExpiry notes that t gave ttl, or the shortest lease, to live.
func (r *Reservation) moveExpiry(t *driver.Txn, ttl time.Duration, sent time.Time) {
	r.renewed.Store(&sent)
	if ttl == 0 {
		return
	}
	life := micros(ttl)
	for i := range t.Ops {
		if op := &t.Ops[i]; op.Kind == driver.Slots {
			life = min(life, op.Span)
		}
	}
	r.life.Store(int64(life))
	r.expires.Store(int64(t.At + life))
}

// Settle ends the reservation with what was really used: the difference is charged, also beyond the limit (a debt), or
// given back to the state that was charged. Without numbers it is what was reserved; one number is for all charges, which
// then must all have been equal (Concurrency aside); else there is one for each charge.
//
// After another end it is ErrEnded; the same Settle again does nothing. After the expiry it still charges the truth, for a
// day.
func (r *Reservation) Settle(ctx context.Context, actual ...int64) error {
	if r == nil || !r.held && !r.local {
		return nil
	}
	amounts, err := r.amounts(actual)
	if err != nil {
		return err
	}
	if r.local {
		return r.endLocally(ctx, amounts)
	}
	_, err = r.end(ctx, "settle", &driver.Txn{Verb: driver.Settle, Amounts: amounts})
	return err
}

// Cancel ends the reservation and gives back what Progress has not reported. After any end it does nothing, so it can be
// deferred.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r == nil || !r.held && !r.local {
		return nil
	}
	if r.local {
		return r.endLocally(ctx, make([]int64, len(r.list.ops)))
	}
	_, err := r.end(ctx, "cancel", &driver.Txn{Verb: driver.Cancel})
	return err
}

// Progress reports what was used so far, in total, and renews the reservation. What goes beyond the reservation is charged
// at once; ok says whether it fits, so whether to go on. Numbers are as in Settle.
func (r *Reservation) Progress(ctx context.Context, soFar ...int64) (ok bool, err error) {
	if r == nil || !r.held || r.local {
		return r != nil && r.Degraded, nil
	}
	amounts, err := r.amounts(soFar)
	if err != nil {
		return false, err
	}
	sent := time.Now()
	t, err := r.end(ctx, "progress", &driver.Txn{Verb: driver.Progress, Amounts: amounts})
	if err != nil {
		return false, err
	}
	r.moveExpiry(t, r.ttl, sent)
	return t.Allowed, nil
}

// Renew moves the expiry to ttl from now (0: the reservation's own TTL). After the end or the expiry it is ErrEnded.
func (r *Reservation) Renew(ctx context.Context, ttl time.Duration) error {
	if r == nil || !r.held || r.local {
		return nil
	}
	if ttl != 0 && (ttl < minTTL || ttl > maxTTL) {
		return invalidf(ErrInvalidTime, "a reservation's TTL of %v is not between %v and %v", ttl, minTTL, maxTTL)
	}
	sent := time.Now()
	t, err := r.end(ctx, "renew", &driver.Txn{Verb: driver.Renew, TTL: micros(ttl)})
	if err == nil {
		if ttl == 0 {
			ttl = r.ttl
		}
		r.moveExpiry(t, ttl, sent)
	}
	return err
}

// end makes one of the calls on a hold.
func (r *Reservation) end(ctx context.Context, verb string, t *driver.Txn) (*driver.Txn, error) {
	l := r.l
	start := l.start()
	err := l.err
	if err == nil {
		err = l.need(driver.CapHolds, "reservations")
	}
	if err == nil && (r.id == "" || len(r.id) > driver.MaxTxnID-len(l.namespace)-1) {
		err = invalidf(ErrInvalidID, "an id of %d bytes is none of a reservation", len(r.id))
	}
	if err == nil {
		t.ID = l.txnID(r.id)
		t.Ops = l.rebound(r.list.ops)
		ctx, cancel := l.afterCancel(ctx)
		err = l.applyOnce(ctx, t)
		cancel()
	}
	if r.Degraded && errors.Is(err, ErrNoReservation) {
		t.Allowed, err = true, nil // there was none
	}
	if errors.Is(err, driver.ErrAmounts) {
		err = fmt.Errorf("%w: %w", ErrInvalidCost, err)
	}
	var d Decision
	if err == nil { // else t may be lost
		d.Allowed = t.Allowed
		l.refusals.forget()
		for i := range t.Ops {
			l.lines.wake(t.Ops[i].Key)
		}
		if len(r.list.plans) > 0 && r.Index < len(t.Ops) {
			d.fill(r.Name, &t.Ops[r.list.at[r.Index]], t.At)
		}
	}
	l.observe(ctx, verb, nil, start, d, err)
	return t, err
}

// endLocally ends what LocalOnError admitted, and a hold that the store may have made all the same.
func (r *Reservation) endLocally(ctx context.Context, amounts []int64) error {
	if !r.settled.Swap(true) && len(amounts) > 0 {
		var ops []driver.Op
		var costs, actual []int64
		for i, p := range r.list.plans {
			if r.l.isLocal(p) {
				ops, costs, actual = append(ops, r.list.ops[i]), append(costs, r.list.ops[i].Cost), append(actual, amounts[i])
			}
		}
		r.l.local.adjust(ops, costs, actual)
	}
	if !r.held {
		return nil
	}
	_, err := r.end(ctx, "cancel", &driver.Txn{Verb: driver.Cancel})
	return err
}

// amounts is one number for each op, of what the caller gave for each charge.
func (r *Reservation) amounts(given []int64) ([]int64, error) {
	for _, n := range given {
		if err := checkCost(n); err != nil {
			return nil, err
		}
	}
	if len(given) == 0 || len(r.list.ops) == 0 {
		return given, nil
	}
	slots := func(i int) bool { return r.list.ops[r.list.at[i]].Kind == driver.Slots }
	if len(given) == 1 && len(r.costs) > 1 {
		cost := int64(-1)
		all := make([]int64, len(r.costs))
		for i, c := range r.costs {
			if slots(i) {
				continue
			}
			if cost >= 0 && c != cost {
				return nil, invalidf(ErrInvalidCost, "one amount for charges of different costs; give one for each of the %d", len(r.costs))
			}
			cost, all[i] = c, given[0]
		}
		given = all
	}
	if len(given) != len(r.costs) {
		return nil, invalidf(ErrInvalidCost, "%d amounts for %d charges", len(given), len(r.costs))
	}
	amounts := make([]int64, len(r.list.ops))
	for i, n := range given {
		amounts[r.list.at[i]] = min(amounts[r.list.at[i]]+n, MaxCount)
	}
	return amounts, nil
}

// KeepAlive renews the reservation until stop is called or ctx is done. The context that it returns ends if the
// reservation is lost: it was ended elsewhere, or could not be renewed before it expired. stop waits for a renewal that is
// under way. A reservation known by its ID alone is given ten minutes with each renewal.
func (r *Reservation) KeepAlive(ctx context.Context) (alive context.Context, stop context.CancelFunc) {
	alive, cancel := context.WithCancelCause(ctx)
	if r == nil || !r.held || r.local {
		return alive, func() { cancel(context.Canceled) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.renewUntil(alive, cancel)
	}()
	return alive, func() {
		cancel(context.Canceled)
		<-done
	}
}

func (r *Reservation) renewUntil(alive context.Context, lost context.CancelCauseFunc) {
	life := driver.Micros(r.life.Load()).Duration()
	ttl, wait, last := time.Duration(0), life/3, time.Now()
	if sent := r.renewed.Load(); sent != nil {
		last = *sent
		wait -= time.Since(last)
	}
	if life == 0 { // by its id alone: how long it lives is not known, so it is told
		ttl, life, wait = defaultTTL, defaultTTL, 0
	}
	// A renewal may hang for longer than the reservation lives.
	expired := time.AfterFunc(life-time.Since(last), func() { lost(errLost) })
	defer expired.Stop()
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-alive.Done():
			timer.Stop()
			return
		}
		sent := time.Now()
		err := r.Renew(alive, ttl)
		switch {
		case err == nil:
			if n := driver.Micros(r.life.Load()).Duration(); n > 0 {
				life = n
			}
			last, wait = sent, life/3
			expired.Reset(life - time.Since(last))
		case errors.Is(err, ErrEnded), errors.Is(err, ErrNoReservation), errors.Is(err, ErrClosed):
			lost(fmt.Errorf("%w: %w", errLost, err))
			return
		default:
			wait = min(life/12, time.Second)
		}
	}
}

var errLost = errors.New("ration: the reservation is lost")

// String is the id and how it was decided, without keys.
func (r *Reservation) String() string {
	if r == nil {
		return "no reservation"
	}
	return fmt.Sprintf("reservation %s, allowed %v", r.id, r.held || r.Allowed)
}
