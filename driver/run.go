package driver

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/ration-go/ration/internal/arith"
)

// Rows is the data of a store that can run Go where it is: what Run needs of one open transaction.
//
// Keys are opaque bytes (some begin with a zero byte: those are Run's own records); blobs are opaque bytes too. A key given
// to Load or Save may be kept. An error of Load or Save ends Run at once, with that error; the store then rolls back.
type Rows interface {
	// Load answers what was saved last under key, by this Run too; nil if nothing was. The blob is not changed by Run, and
	// not used after the next call. A blob past its expiry may still be answered, or not.
	Load(key []byte) (blob []byte, err error)

	// Save keeps blob under key; nil deletes. From expires on, on the time line of the Txn's At, the store may remove it;
	// never before.
	Save(key, blob []byte, expires Micros) error
}

// SpaceRows is for a Rows that keeps the set of Key.Space itself, which verb Forget needs; otherwise Run keeps it in a
// record of its own, read when a state is made.
type SpaceRows interface {
	Rows
	AddSpace(space string) error
	Spaces() ([]string, error)
}

// Run decides batch by all the rules, on rows, at now (the store's clock, read once). The store opens a transaction, calls
// Run, and commits: all of what Run saved or, after an error, nothing.
//
//	tx := begin()
//	if err := driver.Run(tx, driver.MicrosOf(time.Now()), batch); err != nil {
//		tx.rollback()
//		return errors.Join(err, driver.ErrNotApplied)
//	}
//	return tx.commit() // a plain error means: unknown
func Run(rows Rows, now Micros, batch []*Txn) error {
	r := run{rows: rows}
	for _, t := range batch {
		t.At = now
		if t.Now != 0 {
			t.At = t.Now
		}
		if err := r.decide(t); err != nil {
			return err
		}
	}
	return nil
}

type run struct {
	rows Rows
	key  []byte
	blob []byte
}

// cell is one op's state, as loaded and as seen by its limit.
type cell struct {
	key     []byte
	lim     arith.Limit
	state   arith.State
	view    arith.View
	fresh   bool // nothing was saved under the key
	bounded bool // a Budget's Bounds hold now
}

// decide fills in t. An error is one of the rows; what concerns t alone goes into t.Err.
func (r *run) decide(t *Txn) error {
	_, holds := r.rows.(HoldRows)
	switch {
	case t.Verb == 0 || t.Verb > Renew || !holds && (t.ID != "" || t.Verb > Forget):
		t.Err = fmt.Errorf("%w: this store does not know verb %d, or has no holds and ids", ErrNotApplied, t.Verb)
		return nil
	case t.Verb == Forget:
		return r.forget(t)
	case t.Verb > Forget:
		return r.end(t)
	case t.Hold && t.Verb == Take && t.ID == "":
		t.Err = fmt.Errorf("%w: a hold is made by a take with an id", ErrNotApplied)
		return nil
	case !t.Hold && t.Verb != Peek && t.Verb != Reset && slices.ContainsFunc(t.Ops, isSlots):
		t.Err = fmt.Errorf("%w: slots are taken by a hold", ErrNotApplied)
		return nil
	case t.ID != "" && t.Verb == Take:
		return r.takeOnce(t)
	}
	cells, err := r.open(t, t.Ops)
	if err != nil || t.Err != nil {
		return err
	}
	switch t.Verb {
	case Take, Peek:
		return r.take(t, cells, 0, 0)
	case Hit:
		return r.hit(t, cells)
	case Refund:
		return r.refund(t, cells)
	default:
		return r.reset(t, cells)
	}
}

func isSlots(op Op) bool { return op.Kind == Slots }

// open loads the states of ops as their limits see them.
func (r *run) open(t *Txn, ops []Op) ([]cell, error) {
	cells := make([]cell, len(ops))
	for i := range ops {
		op, c := &ops[i], &cells[i]
		c.key = op.Key.AppendTo(nil)
		blob, err := r.rows.Load(c.key)
		if err != nil {
			return nil, err
		}
		c.fresh = blob == nil
		if err := c.state.Decode(blob); err != nil {
			t.Err = ErrCorrupt
			return nil, nil
		}
		if err := LimitOf(op, &c.lim); err != nil {
			t.Err = err
			return nil, nil
		}
		if c.view, c.bounded = arith.Open(&c.state, &c.lim, int64(t.At)); !c.bounded && (t.Verb == Take || t.Verb == Peek) {
			t.Err = ErrClock
			return nil, nil
		}
	}
	return cells, nil
}

func (r *run) save(op *Op, c *cell) error {
	if c.state.Expires == 0 {
		return r.rows.Save(c.key, nil, 0)
	}
	if c.fresh {
		if err := r.addSpace(op.Key.Space); err != nil {
			return err
		}
	}
	r.blob = c.state.Append(r.blob[:0])
	return r.rows.Save(c.key, slices.Clone(r.blob), Micros(c.state.Expires))
}

// take decides Take and Peek. Slots go to holder until the given time.
func (r *run) take(t *Txn, cells []cell, holder int64, until Micros) error {
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result.Times = c.view.FitsTimes(op.Cost, op.times())
		op.Result.Allowed = op.Result.Times == op.times()
		t.Allowed = t.Allowed && op.Result.Allowed
	}
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		if t.Verb == Take {
			if !t.Allowed && len(cells) > 1 {
				op.Result.Times = 0
			}
			switch cost := op.Cost * op.Result.Times; {
			case op.Kind == Slots:
				c.view.Hold(cost, holder, int64(until))
			default:
				c.view.Charge(cost)
			}
			if c.view.Changed() {
				if err := r.save(op, c); err != nil {
					return err
				}
			}
		}
		op.Result.set(c.view.Answer(op.Cost, op.Result.Allowed))
	}
	return nil
}

func (r *run) hit(t *Txn, cells []cell) error {
	for i := range cells {
		if !cells[i].view.Hit(t.Ops[i].Cost) {
			t.Err = ErrOverflow
			return nil
		}
	}
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result = Result{Allowed: true, Used: c.view.Used(), ResetAt: Micros(c.view.ResetAt())}
		if op.Cost != 0 {
			if err := r.save(op, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) refund(t *Txn, cells []cell) error {
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result = Result{Allowed: true, Given: c.view.Refund(op.Cost, int64(op.At))}
		op.Result.Used = max(0, c.view.Used())
		if c.view.Changed() {
			if err := r.save(op, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) reset(t *Txn, cells []cell) error {
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result.Allowed = true
		if c.view.Reset(); c.view.Changed() {
			if err := r.save(op, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget resets the states of each op's group and id under every space that begins with the op's: that of a namespace.
func (r *run) forget(t *Txn) error {
	spaces, err := r.spaces()
	if err != nil {
		return err
	}
	t.Allowed = true
	for i := range t.Ops {
		op := &t.Ops[i]
		op.Result.Allowed = true
		for _, space := range spaces {
			if !strings.HasPrefix(space, op.Key.Space) {
				continue
			}
			key := Key{Space: space, Group: op.Key.Group, ID: op.Key.ID}.AppendTo(nil)
			blob, err := r.rows.Load(key)
			if err != nil {
				return err
			}
			var st arith.State
			if len(blob) == 0 || st.Decode(blob) != nil {
				continue // what is not ours is not forgotten
			}
			st.Forget(int64(t.At))
			if blob = nil; st.Expires != 0 {
				blob = st.Append(nil)
			}
			if err := r.rows.Save(key, blob, Micros(st.Expires)); err != nil {
				return err
			}
		}
	}
	return nil
}

var spacesKey = []byte("\x00spaces")

func (r *run) spaces() (all []string, err error) {
	if s, ok := r.rows.(SpaceRows); ok {
		return s.Spaces()
	}
	blob, err := r.rows.Load(spacesKey)
	for len(blob) > 0 {
		n, size := binary.Uvarint(blob)
		if size <= 0 || n > uint64(len(blob)-size) {
			return all, ErrCorrupt
		}
		blob = blob[size:]
		all = append(all, string(blob[:n]))
		blob = blob[n:]
	}
	return all, err
}

func (r *run) addSpace(space string) error {
	if s, ok := r.rows.(SpaceRows); ok {
		return s.AddSpace(space)
	}
	all, err := r.spaces()
	if err != nil || slices.Contains(all, space) {
		return err
	}
	var blob []byte
	for _, s := range append(all, space) {
		blob = append(binary.AppendUvarint(blob, uint64(len(s))), s...)
	}
	return r.rows.Save(slices.Clone(spacesKey), blob, MaxNumber)
}

// set takes over the numbers of a.
func (res *Result) set(a arith.Answer) {
	res.Never, res.Used = a.Never, a.Used
	res.RetryAfter, res.ResetAt = Micros(a.RetryAfter), Micros(a.ResetAt)
}

// LimitOf sets lim to the numbers of op. It is for the stores of this module, which decide without Run.
func LimitOf(op *Op, lim *arith.Limit) error {
	lim.Kind, lim.Size, lim.Span = arith.Kind(op.Kind), op.Size, int64(op.Span)
	switch op.Kind {
	case Bucket:
		lim.Rate = arith.Rate{Gain: op.Gain, Unit: op.Unit, Tick: int64(op.Tick)}
		if op.Gain <= 0 || op.Unit <= 0 || op.Tick <= 0 {
			gain, unit, tick, err := Units(op.Size, op.Rate, op.Span)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrNotApplied, err)
			}
			lim.Rate = arith.Rate{Gain: gain, Unit: unit, Tick: int64(tick)}
		}
	case Budget:
		lim.Bounds = [4]int64{int64(op.Bounds[0]), int64(op.Bounds[1]), int64(op.Bounds[2]), int64(op.Bounds[3])}
	}
	return nil
}
