package driver

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ration-go/ration/internal/varint"
)

// HoldRows is a Rows that keeps the records of holds and ids as well, and finds those that are due. With it, Run serves
// CapSlots, CapIDs and CapHolds.
type HoldRows interface {
	Rows

	// LoadHold answers what SaveHold saved last under id; nil if nothing was.
	LoadHold(id string) (blob []byte, err error)

	// SaveHold keeps blob under id until expires; never shorter. If due is not 0 the record is an open hold, which stays
	// until it is ended: from due on the store's next sweep gives it to Lapse.
	SaveHold(id string, blob []byte, expires, due Micros) error
}

// CapsHolds is what Run gives to a store with HoldRows, beside CapsRun.
const CapsHolds = CapSlots | CapIDs | CapHolds

// EndedFor is how long the record of a hold is kept after its end, in microseconds: a day. Within it a late Settle still
// charges the truth, once.
const EndedFor Micros = 24 * 3600 * 1e6

// Digest is of what t asks for under its ID: the same request again has the same digest. Sizes, rates and calendars'
// bounds are not part of it.
func (t *Txn) Digest() (d [16]byte) {
	var room, keyRoom [512]byte
	b := append(room[:0], byte(t.Verb), 0, 0)
	if t.Hold {
		b[1] = 1
	}
	if t.Return {
		b[2] = 1
	}
	for i := range t.Ops {
		op := &t.Ops[i]
		k := op.Key.AppendTo(keyRoom[:0])
		b = binary.AppendUvarint(b, uint64(len(k)))
		b = append(b, k...)
		b = append(b, byte(op.Kind))
		b = binary.AppendVarint(b, op.Cost)
	}
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}

// holder names a hold in a state of Slots: 1 to MaxNumber.
func holder(id string) int64 {
	h := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(h[:])>>11) | 1
}

// How a hold stands.
const (
	answered byte = iota + 1 // a Take that is decided once: no hold
	open
	settled
	cancelled
	lapsed // expired; what had to go back went back
)

// record is what is kept of a hold, or of the answer under an id.
type record struct {
	state   byte
	ret     bool
	digest  [16]byte
	at      Micros // when it was charged
	ttl     Micros
	expires Micros // of the hold
	keep    Micros // end of the record
	ops     []heldOp
}

// heldOp is one op of a record.
type heldOp struct {
	op       Op     // as charged; Result as answered
	at       Micros // when, by the state's clock, which may be ahead of the Txn's: what goes back is what was charged then
	charged  int64  // what counts now
	reported int64  // by Progress, in total
	settled  int64
	given    int64
}

// expiry is when a hold that is made or renewed at now ends: after its ttl, or its shortest lease.
func (rec *record) expiry(now, ttl Micros) Micros {
	for i := range rec.ops {
		if op := &rec.ops[i].op; op.Kind == Slots {
			ttl = min(ttl, op.Span)
		}
	}
	return now + ttl
}

func (r *run) loadHold(id string, now Micros) (*record, error) {
	rec, err := r.anyHold(id)
	if err != nil || rec == nil || rec.keep <= now {
		return nil, err
	}
	return rec, nil
}

// anyHold is loadHold for a record of any age.
func (r *run) anyHold(id string) (*record, error) {
	blob, err := r.rows.(HoldRows).LoadHold(id)
	if err != nil || blob == nil {
		return nil, err
	}
	return decodeRecord(blob)
}

func (r *run) saveHold(id string, rec *record) error {
	due, expires := Micros(0), rec.keep
	if rec.state == open {
		due, expires = rec.expires, MaxNumber // what has to go back does, though nobody sweeps for days
	}
	return r.rows.(HoldRows).SaveHold(id, rec.encode(), expires, due)
}

// takeOnce decides a Take with an ID.
func (r *run) takeOnce(t *Txn) error {
	rec, err := r.loadHold(t.ID, t.At)
	if err != nil {
		return r.ownError(t, err)
	}
	digest := t.Digest()
	if rec != nil {
		if rec.digest != digest {
			t.Err = ErrIDReused
			return nil
		}
		t.At, t.Allowed = rec.at, true
		for i := range t.Ops {
			t.Ops[i].Result = rec.ops[i].op.Result
		}
		return nil
	}
	rec = &record{state: answered, ret: t.Return, digest: digest, at: t.At, ttl: t.TTL, ops: make([]heldOp, len(t.Ops))}
	for i := range t.Ops {
		rec.ops[i].op = t.Ops[i]
		rec.ops[i].charged = t.Ops[i].Cost
	}
	rec.keep = t.At + t.TTL
	if t.Hold {
		rec.state = open
		rec.expires = rec.expiry(t.At, t.TTL)
		rec.keep = rec.expires + EndedFor
	}
	cells, err := r.open(t, t.Ops)
	if err != nil || t.Err != nil {
		return err
	}
	if err := r.take(t, cells, holder(t.ID), rec.expires); err != nil || !t.Allowed {
		return err
	}
	for i := range t.Ops {
		rec.ops[i].op.Result = t.Ops[i].Result
		rec.ops[i].at = Micros(cells[i].view.ChargedAt())
	}
	return r.saveHold(t.ID, rec)
}

// ownError keeps a record that cannot be read t's own trouble.
func (r *run) ownError(t *Txn, err error) error {
	if err == ErrCorrupt {
		t.Err = err
		return nil
	}
	return err
}

// end decides Settle, Cancel, Progress and Renew.
func (r *run) end(t *Txn) error {
	rec, err := r.loadHold(t.ID, t.At)
	if err != nil {
		return r.ownError(t, err)
	}
	if rec == nil || rec.state == answered {
		t.Err = ErrNoHold
		return nil
	}
	sent := t.Ops
	t.Ops = make([]Op, len(rec.ops))
	for i := range rec.ops {
		t.Ops[i] = rec.ops[i].op
		t.Ops[i].Result = Result{}
		if len(sent) == len(rec.ops) && sent[i].Kind == Budget {
			t.Ops[i].Bounds = sent[i].Bounds
		}
	}
	amounts, err := rec.amounts(t)
	if err != nil {
		t.Err = err
		return nil
	}
	if rec.state == open && rec.expires <= t.At {
		if t.Err, err = r.lapse(t.ID, rec, t.At); err != nil || t.Err != nil {
			return err
		}
	}
	switch t.Verb {
	case Settle:
		return r.settle(t, rec, amounts)
	case Cancel:
		return r.cancel(t, rec)
	default:
		return r.progress(t, rec, amounts)
	}
}

// amounts is what t says was used, for each op; nil if it says nothing.
func (rec *record) amounts(t *Txn) ([]int64, error) {
	if t.Verb != Settle && t.Verb != Progress {
		return nil, nil
	}
	all := make([]int64, len(rec.ops))
	switch len(t.Amounts) {
	case len(rec.ops):
		copy(all, t.Amounts)
	case 0:
		if t.Verb == Progress {
			return nil, nil
		}
		for i := range rec.ops {
			all[i] = max(rec.ops[i].op.Cost, rec.ops[i].reported)
		}
	case 1:
		cost := int64(-1)
		for i := range rec.ops {
			op := &rec.ops[i].op
			if op.Kind == Slots {
				continue
			}
			if cost >= 0 && op.Cost != cost {
				return nil, ErrAmounts
			}
			cost = op.Cost
			all[i] = t.Amounts[0]
		}
	default:
		return nil, ErrAmounts
	}
	return all, nil
}

func (r *run) settle(t *Txn, rec *record, amounts []int64) error {
	switch rec.state {
	case cancelled:
		t.Err = ErrEnded
		return nil
	case settled:
		for i := range rec.ops {
			if h := &rec.ops[i]; h.op.Kind != Slots && h.settled != amounts[i] {
				t.Err = ErrEnded
				return nil
			}
		}
	default:
		cells, err := r.open(t, t.Ops)
		if err != nil || t.Err != nil {
			return err
		}
		for i := range cells {
			h, c := &rec.ops[i], &cells[i]
			more := amounts[i] - h.charged
			h.given = 0 // of what went back at the expiry nothing is answered
			switch {
			case h.op.Kind == Slots:
				h.given = c.view.Free(holder(t.ID))
			case more > 0:
				if !c.bounded && !c.view.Running() {
					t.Err = ErrClock
					return nil
				}
				c.view.Debit(more)
			case more < 0:
				h.given = c.view.Refund(-more, int64(h.at))
			}
			h.charged, h.settled = amounts[i], amounts[i]
		}
		if err := r.saveCells(t, cells); err != nil {
			return err
		}
		rec.state, rec.keep = settled, t.At+EndedFor
		if err := r.saveHold(t.ID, rec); err != nil {
			return err
		}
		rec.show(t, cells)
	}
	t.Allowed = true
	for i := range rec.ops {
		t.Ops[i].Result.Allowed, t.Ops[i].Result.Given = true, rec.ops[i].given
	}
	return nil
}

func (r *run) cancel(t *Txn, rec *record) error {
	t.Allowed = true
	for i := range rec.ops {
		t.Ops[i].Result.Allowed = true
		if rec.state == cancelled {
			t.Ops[i].Result.Given = rec.ops[i].given
		}
	}
	if rec.state != open {
		return nil
	}
	cells, err := r.giveBack(t, t.ID, rec)
	if err != nil || t.Err != nil {
		t.Allowed = false
		return err
	}
	rec.state, rec.keep = cancelled, t.At+EndedFor
	rec.show(t, cells)
	return r.saveHold(t.ID, rec)
}

// giveBack ends the charges of rec but for what was reported.
func (r *run) giveBack(t *Txn, id string, rec *record) ([]cell, error) {
	cells, err := r.open(t, t.Ops)
	if err != nil || t.Err != nil {
		return nil, err
	}
	for i := range cells {
		h, c := &rec.ops[i], &cells[i]
		if h.op.Kind == Slots {
			h.given = c.view.Free(holder(id))
		} else {
			h.given = c.view.Refund(h.charged-h.reported, int64(h.at))
		}
		h.charged = h.reported
		t.Ops[i].Result.Allowed, t.Ops[i].Result.Given = true, h.given
	}
	return cells, r.saveCells(t, cells)
}

// progress decides Progress and Renew.
func (r *run) progress(t *Txn, rec *record, amounts []int64) error {
	if rec.state != open {
		t.Err = ErrEnded
		return nil
	}
	if t.TTL > 0 {
		rec.ttl = t.TTL
	}
	expires := rec.expiry(t.At, rec.ttl)
	cells, err := r.open(t, t.Ops)
	if err != nil || t.Err != nil {
		return err
	}
	t.Allowed = true
	for i := range cells {
		h, c := &rec.ops[i], &cells[i]
		fits := true
		if h.op.Kind == Slots {
			if !c.view.Extend(holder(t.ID), int64(expires)) && h.op.Cost > 0 {
				t.Allowed, t.Err = false, ErrEnded // the slot is lost: it was reset
				return nil
			}
		} else if amounts != nil {
			h.reported = max(h.reported, amounts[i])
			if over := h.reported - h.charged; over > 0 {
				// It is used already: counted now, not when the hold ends.
				if !c.bounded && !c.view.Running() {
					t.Allowed, t.Err = false, ErrClock
					return nil
				}
				c.view.Debit(over)
				h.charged = h.reported
			}
		}
		if t.Verb == Progress && h.reported > h.op.Cost {
			fits = c.view.Used() <= h.op.Size // said again until it does: the first answer may be lost
		}
		t.Ops[i].Result.Allowed = fits
		t.Allowed = t.Allowed && fits
	}
	if err := r.saveCells(t, cells); err != nil {
		return err
	}
	rec.expires, rec.keep = expires, expires+EndedFor
	rec.show(t, cells)
	return r.saveHold(t.ID, rec)
}

func (r *run) saveCells(t *Txn, cells []cell) error {
	for i := range cells {
		if cells[i].view.Changed() {
			if err := r.save(&t.Ops[i], &cells[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// show fills in what the limits of a hold count now.
func (rec *record) show(t *Txn, cells []cell) {
	for i := range cells {
		res := &t.Ops[i].Result
		res.Used, res.ResetAt = max(0, cells[i].view.Used()), Micros(cells[i].view.ResetAt())
	}
}

// lapse ends an open hold that has expired. trouble says why it cannot be ended; it is then as it was.
func (r *run) lapse(id string, rec *record, now Micros) (trouble, err error) {
	if rec.ret {
		t := &Txn{Verb: Cancel, At: now, Ops: make([]Op, len(rec.ops))}
		for i := range rec.ops {
			t.Ops[i] = rec.ops[i].op
		}
		if _, err := r.giveBack(t, id, rec); err != nil || t.Err != nil {
			return t.Err, err
		}
	}
	rec.state = lapsed
	return nil, r.saveHold(id, rec)
}

// Lapse ends the hold of id, if it is open and has expired at now: what it asked to be given back goes back. A store with
// HoldRows calls it, in a transaction of its own or several to one, for each hold that is due when it sweeps.
func Lapse(rows HoldRows, now Micros, id string) error {
	r := run{rows: rows}
	rec, err := r.anyHold(id)
	if err != nil || rec == nil || rec.state != open || rec.expires > now {
		return err
	}
	trouble, err := r.lapse(id, rec, now)
	if trouble != nil {
		return fmt.Errorf("hold: %w", trouble)
	}
	return err
}

// DecodeHold reads a record that Run saved under id, and reports whether it is a hold that is open at now.
func DecodeHold(id string, blob []byte, now Micros) (h Hold, isOpen bool, err error) {
	rec, err := decodeRecord(blob)
	if err != nil {
		return h, false, err
	}
	h = Hold{ID: id, At: rec.at, Expires: rec.expires, Return: rec.ret}
	for i := range rec.ops {
		op := rec.ops[i].op
		op.Cost = rec.ops[i].charged
		h.Ops = append(h.Ops, op)
	}
	return h, rec.state == open && rec.expires > now, nil
}

const recordForm = 1

func (rec *record) encode() []byte {
	var room [512]byte
	b := append(room[:0], recordForm, rec.state, 0)
	if rec.ret {
		b[2] = 1
	}
	b = append(b, rec.digest[:]...)
	for _, n := range [...]Micros{rec.at, rec.ttl, rec.expires, rec.keep, Micros(len(rec.ops))} {
		b = binary.AppendVarint(b, int64(n))
	}
	for i := range rec.ops {
		h := &rec.ops[i]
		for _, s := range [...]string{h.op.Key.Space, h.op.Key.Group, h.op.Key.ID} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
		b = append(b, byte(h.op.Kind))
		for _, n := range h.numbers() {
			b = binary.AppendVarint(b, *n)
		}
	}
	return bytes.Clone(b) // stores keep it
}

// numbers are all numbers of h, in the order in which they are kept.
func (h *heldOp) numbers() [18]*int64 {
	op, res := &h.op, &h.op.Result
	m := func(n *Micros) *int64 { return (*int64)(n) }
	return [...]*int64{
		&op.Size, &op.Rate, &op.Gain, &op.Unit, m(&op.Tick), m(&op.Span), m(&op.Bounds[0]), m(&op.Bounds[1]), m(&op.Bounds[2]), m(&op.Bounds[3]),
		&op.Cost, &res.Used, m(&res.ResetAt), &h.charged, &h.reported, &h.settled, &h.given, m(&h.at),
	}
}

func decodeRecord(b []byte) (*record, error) {
	if len(b) < 19 || b[0] != recordForm || b[1] < answered || b[1] > lapsed {
		return nil, ErrCorrupt
	}
	rec := &record{state: b[1], ret: b[2] == 1}
	copy(rec.digest[:], b[3:])
	r := varint.NewReader(b[19:])
	for _, n := range [...]*Micros{&rec.at, &rec.ttl, &rec.expires, &rec.keep} {
		*n = Micros(r.Int())
	}
	n := r.Int()
	if n < 0 || n > MaxOps {
		return nil, ErrCorrupt
	}
	rec.ops = make([]heldOp, n)
	for i := range rec.ops {
		h := &rec.ops[i]
		for _, s := range [...]*string{&h.op.Key.Space, &h.op.Key.Group, &h.op.Key.ID} {
			*s = r.String()
		}
		h.op.Kind = Kind(r.Byte())
		for _, n := range h.numbers() {
			*n = r.Int()
		}
		h.op.Result.Allowed, h.op.Result.Times = true, 1
	}
	if !r.Done() {
		return nil, ErrCorrupt
	}
	return rec, nil
}
