package memstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// The decisions are those of driver.Run, in every field. They are written anew because Run needs bytes, and this is the
// path on which nothing may be allocated. A test holds the two together.

var (
	errNoVerb = fmt.Errorf("%w: the store does not know this verb", driver.ErrNotApplied)
	errSlots  = fmt.Errorf("%w: slots are taken by a hold", driver.ErrNotApplied)
)

// cell is one op's state, as loaded and as seen by its limit.
type cell struct {
	shard, tag uint32
	known      bool  // there is a row
	flags      uint8 // of the row, if its state is
	lim        arith.Limit
	state      arith.State
	view       arith.View
	one        [1]arith.Use // room for the only use of a window
}

// scratch is the room for a Txn of many ops.
type scratch struct {
	cells [driver.MaxOps]cell
	locks [driver.MaxOps]uint32
}

// list decides a Txn of any number of ops. t.At is set.
func (s *Store) list(t *driver.Txn) {
	if t.Verb == 0 {
		t.Err = errNoVerb
		return
	}
	if (t.Verb == driver.Take || t.Verb == driver.Hit || t.Verb == driver.Refund) &&
		slices.ContainsFunc(t.Ops, func(op driver.Op) bool { return op.Kind == driver.Slots }) {
		t.Err = errSlots
		return
	}
	sc := s.scratch.Get().(*scratch)
	n := min(len(t.Ops), driver.MaxOps)
	cells, locks := sc.cells[:n], sc.locks[:n]
	for i := range cells {
		c := &cells[i]
		c.shard, c.tag = s.place(&t.Ops[i].Key)
		locks[i] = c.shard
	}
	slices.Sort(locks)
	locks = slices.Compact(locks)
	need := s.locked(t, cells, locks)
	for range tries {
		if need == (room{}) || !s.findRoom(t, cells, need) {
			break
		}
		need = s.locked(t, cells, locks)
	}
	if need != (room{}) {
		refuseFull(t)
	}
	clear(cells) // what belongs to a key must not outlive it
	s.scratch.Put(sc)
}

// tries is how often room is looked for: what was found may be taken by others.
const tries = 3

func refuseFull(t *driver.Txn) {
	t.Allowed = false
	for i := range t.Ops {
		t.Ops[i].Result = driver.Result{}
	}
	t.Err = driver.ErrFull
}

// locked evaluates t under its locks, which are taken in one order everywhere.
func (s *Store) locked(t *driver.Txn, cells []cell, locks []uint32) room {
	s.lock(t, locks)
	need := s.evaluate(t, cells)
	s.unlock(locks)
	return need
}

// evaluate decides t under its locks. If it needs room that the store does not have, it changes nothing and answers how
// much.
func (s *Store) evaluate(t *driver.Txn, cells []cell) (need room) {
	if t.Verb == driver.Forget {
		s.forget(t, cells)
		return room{}
	}
	for i := range cells {
		if t.Err = s.loadCell(t, &t.Ops[i], &cells[i]); t.Err != nil {
			return room{}
		}
	}
	switch t.Verb {
	case driver.Take, driver.Peek:
		return s.take(t, cells)
	case driver.Hit:
		return s.hit(t, cells)
	case driver.Refund:
		s.refund(t, cells)
	default:
		s.reset(t, cells)
	}
	return room{}
}

func (s *Store) loadCell(t *driver.Txn, op *driver.Op, c *cell) error {
	r, flags := s.load(&s.shards[c.shard], &op.Key, c.tag, int64(t.At), &c.state, c.one[:])
	c.known, c.flags = r != nil, flags
	if err := driver.LimitOf(op, &c.lim); err != nil {
		return err
	}
	var ok bool
	if c.view, ok = arith.Open(&c.state, &c.lim, int64(t.At)); !ok && (t.Verb == driver.Take || t.Verb == driver.Peek) {
		return driver.ErrClock
	}
	return nil
}

// changed is the flags of a row after a change under a limit, given those before. op is answered.
func changed(op *driver.Op, before uint8) uint8 {
	flags := before & flagHit
	if op.Kind != driver.Budget {
		flags |= flagLimited
		if op.Result.Used < op.Size-op.Size/2 {
			flags |= flagLow
		}
	}
	return flags
}

func (s *Store) take(t *driver.Txn, cells []cell) (need room) {
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		times := max(op.Times, 1)
		op.Result.Times = c.view.FitsTimes(op.Cost, times)
		op.Result.Allowed = op.Result.Times == times
		t.Allowed = t.Allowed && op.Result.Allowed
	}
	charge := t.Verb == driver.Take && (t.Allowed || len(cells) == 1 && t.Ops[0].Cost > 0 && t.Ops[0].Result.Times > 0)
	if charge {
		if need = s.admit(t, cells); need != (room{}) {
			return need
		}
	}
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		if t.Verb == driver.Take && !t.Allowed && len(cells) > 1 {
			op.Result.Times = 0
		}
		if charge {
			c.view.Charge(op.Cost * op.Result.Times)
		}
		answer(op, &c.view, op.Result.Allowed)
		if c.view.Changed() {
			flags := changed(op, c.flags)
			if !t.Allowed {
				flags |= flagRefused // some of its Times
			}
			s.saveCell(t, op, c, flags)
		} else if t.Verb == driver.Take && !op.Result.Allowed && c.known {
			s.find(&s.shards[c.shard], &op.Key, c.tag)[atMeta] |= flagRefused
		}
	}
	return room{}
}

// answer fills in the numbers of a Take or Peek.
func answer(op *driver.Op, v *arith.View, allowed bool) {
	a := v.Answer(op.Cost, allowed)
	op.Result.Never, op.Result.Used = a.Never, a.Used
	op.Result.RetryAfter, op.Result.ResetAt = driver.Micros(a.RetryAfter), driver.Micros(a.ResetAt)
}

func (s *Store) hit(t *driver.Txn, cells []cell) (need room) {
	for i := range cells {
		if !cells[i].view.Hit(t.Ops[i].Cost) {
			t.Err = driver.ErrOverflow
			return room{}
		}
	}
	if need = s.admit(t, cells); need != (room{}) {
		return need
	}
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result = driver.Result{Allowed: true, Used: c.view.Used(), ResetAt: driver.Micros(c.view.ResetAt())}
		if op.Cost != 0 {
			s.saveCell(t, op, c, flagHit)
		}
	}
	return room{}
}

func (s *Store) refund(t *driver.Txn, cells []cell) {
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result = driver.Result{Allowed: true, Given: c.view.Refund(op.Cost, int64(op.At))}
		op.Result.Used = max(0, c.view.Used())
		if c.view.Changed() {
			s.saveCell(t, op, c, changed(op, c.flags))
		}
	}
}

func (s *Store) reset(t *driver.Txn, cells []cell) {
	t.Allowed = true
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result.Allowed = true
		if c.view.Reset(); c.view.Changed() {
			s.saveCell(t, op, c, 0)
		}
	}
}

// forget resets the states of each op's group and id under every space that begins with the op's: that of a namespace.
func (s *Store) forget(t *driver.Txn, cells []cell) {
	t.Allowed = true
	spaces := s.spaces.list()
	for i := range cells {
		op, c := &t.Ops[i], &cells[i]
		op.Result.Allowed = true
		sh := &s.shards[c.shard]
		sh.eachTable(func(tab *table, width int) bool {
			for at := 0; at < tab.end(width); at += width {
				r := tab.row(at, width)
				if empty(r.meta()) {
					continue
				}
				id, group, space := sh.parts(r)
				if string(id) != op.Key.ID || string(group) != op.Key.Group {
					continue
				}
				name := spaces[r.space()]
				if r.space() == 0 {
					name = string(space)
				}
				if !strings.HasPrefix(name, op.Key.Space) {
					continue
				}
				sh.get(r, &c.state, c.one[:])
				c.state.Forget(int64(t.At))
				s.save(sh, r, &c.state, injected(t))
			}
			return true
		})
	}
}

// saveCell keeps the state of c. Its row is looked for again: others may have moved it.
func (s *Store) saveCell(t *driver.Txn, op *driver.Op, c *cell, flags uint8) {
	sh := &s.shards[c.shard]
	r := s.find(sh, &op.Key, c.tag)
	if r == nil {
		if c.state.Expires == 0 {
			return
		}
		r = s.add(sh, &op.Key, c.tag)
	}
	s.save(sh, r, &c.state, flags|injected(t))
}

// injected is the flag of what t changes.
func injected(t *driver.Txn) uint8 {
	if t.Now != 0 {
		return flagInjected
	}
	return 0
}
