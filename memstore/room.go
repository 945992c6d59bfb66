package memstore

import (
	"math/rand/v2"
	"slices"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// room is what a Txn needs of the store beyond what it has.
type room struct{ keys, bytes int64 }

// soon is how far off the end of a state may be that is dropped for want of room.
const soon = 60 * 1_000_000

// How many rows are looked at for one Txn that finds the store full: for ended ones, and then for droppable ones.
const (
	lookForEnded     = 256
	lookForDroppable = 128
	lookAtOnce       = 64 // under one lock
)

// admit takes the room that charging t needs, or answers what is needed.
func (s *Store) admit(t *driver.Txn, cells []cell) room {
	var need room
	for i := range cells {
		if op, c := &t.Ops[i], &cells[i]; op.Cost != 0 {
			n := s.needOf(op, c.known, int64(t.At), &c.state)
			need.keys += n.keys
			need.bytes += n.bytes
		}
	}
	if need == (room{}) || !s.reserve(need) {
		return need
	}
	for i := range cells {
		if op, c := &t.Ops[i], &cells[i]; op.Cost != 0 && s.needOf(op, c.known, int64(t.At), &c.state).uses() {
			c.state.Uses = lengthen(c.state.Uses)
		}
	}
	return room{}
}

// admitOne is admit for one op, which is charged.
func (s *Store) admitOne(op *driver.Op, known bool, now int64, st *arith.State) room {
	need := s.needOf(op, known, now, st)
	if need == (room{}) || !s.reserve(need) {
		return need
	}
	if need.uses() {
		st.Uses = lengthen(st.Uses)
	}
	return room{}
}

// needOf is the room that the charge of op to st needs.
func (s *Store) needOf(op *driver.Op, known bool, now int64, st *arith.State) room {
	if !known {
		return room{1, keyCost(keyLen(&op.Key, s.spaces.number(op.Key.Space) == 0))}
	}
	if op.Kind != driver.Window {
		return room{}
	}
	n := len(st.Uses)
	if n == 0 || n < cap(st.Uses) {
		return room{}
	}
	now = max(now, st.Uses[n-1].At)
	for i := range st.Uses {
		if u := &st.Uses[i]; u.At+u.Window <= now || u.At == now && u.Window == int64(op.Span) {
			return room{} // one goes, or takes in the new one
		}
	}
	bytes := int64(longer(n)-n) * useCost
	if n == 1 {
		bytes += useCost + usesCost // it was in the row
	}
	return room{0, bytes}
}

// uses reports whether the need is for a longer list of uses.
func (r room) uses() bool { return r.keys == 0 && r.bytes > 0 }

func lengthen(uses []arith.Use) []arith.Use {
	return append(make([]arith.Use, 0, longer(len(uses))), uses...)
}

// longer is how many uses there is room for when n are not enough.
func longer(n int) int {
	if n >= arith.MaxUses {
		return arith.MaxUses + 1
	}
	return 2 * n
}

// reserve adds need to what is kept, if that stays within the bounds.
func (s *Store) reserve(need room) bool {
	if need.keys > 0 && s.keys.Add(need.keys) > s.maxKeys {
		s.keys.Add(-need.keys)
		return false
	}
	if s.bytes.Add(need.bytes) > s.mostBytes(need) {
		s.bytes.Add(-need.bytes)
		s.keys.Add(-need.keys)
		return false
	}
	if need.bytes > 0 && !s.armed.Load() {
		s.arm()
	}
	return true
}

// mostBytes is the bound for need: new keys leave an eighth to the windows that are kept already.
func (s *Store) mostBytes(need room) int64 {
	if need.keys > 0 {
		return s.maxBytes - s.maxBytes/8
	}
	return s.maxBytes
}

// findRoom drops what may go, until need is there or enough was looked at: first what has ended, then, from a sample, what
// is hardly used and soon ends. It holds one lock at a time, so that another may take what it found.
func (s *Store) findRoom(t *driver.Txn, cells []cell, need room) bool {
	if need.keys > s.maxKeys || need.bytes > s.mostBytes(need) {
		return false
	}
	f := finder{s: s, need: need, wall: int64(t.At), other: int64(t.At), cells: cells}
	if t.Now == 0 {
		f.other = s.injected.floor()
	} else {
		f.wall = int64(s.clock.now())
	}
	return f.look(lookForEnded, false) || f.look(lookForDroppable, true)
}

// A finder looks for rows that may go, in favour of one Txn.
type finder struct {
	s     *Store
	need  room
	wall  int64  // now, for rows of the process's clock
	other int64  // now, for rows of injected clocks
	cells []cell // of the Txn; these stay
}

func (f *finder) look(rows int, droppable bool) (found bool) {
	shards := f.s.shards
	first := rand.IntN(len(shards))
	for i := range shards {
		if f.done() {
			return true
		}
		if rows <= 0 {
			break
		}
		rows -= f.lookAt((first+i)&(len(shards)-1), droppable)
	}
	return f.done()
}

func (f *finder) done() bool {
	s := f.s
	return s.keys.Load()+f.need.keys <= s.maxKeys && s.bytes.Load()+f.need.bytes <= s.mostBytes(f.need)
}

// lookAt goes through a few rows of one shard, on from somewhere in each of its tables.
func (f *finder) lookAt(num int, droppable bool) (rows int) {
	sh := &f.s.shards[num]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.eachTable(func(t *table, width int) bool {
		at := rand.IntN(int(t.places)) * width
		for range min(int(t.places), lookAtOnce) {
			switch {
			case f.mayGo(num, t.row(at, width), droppable):
				f.s.drop(sh, t, at, width)
				rows++
				if droppable && f.done() {
					t.fit(width)
					return false
				}
				continue // something else may be there now
			case !empty(t.row(at, width).meta()):
				rows++
			}
			if at += width; at == t.end(width) {
				at = 0
			}
		}
		t.fit(width)
		return true
	})
	return max(rows, 1)
}

func (f *finder) mayGo(num int, r row, droppable bool) bool {
	m := r.meta()
	if empty(m) {
		return false
	}
	now := f.wall
	if m&flagInjected != 0 {
		now = f.other
	}
	if r.expires() <= now {
		return true
	}
	return droppable && r.droppable(now) &&
		!slices.ContainsFunc(f.cells, func(c cell) bool { return int(c.shard) == num && uint64(c.tag) == m>>tagShift })
}

// droppable reports whether r may be forgotten for want of room: what is lost is less than half a limit, for a minute at
// most, and nobody that it stands against gets free.
func (r row) droppable(now int64) bool {
	const want, not = flagLimited | flagLow, flagHit | flagRefused
	return r.flags()&(want|not) == want && r.expires()-now <= soon
}

// drop removes a row of sh, which is locked. The table is not made smaller.
func (s *Store) drop(sh *shard, t *table, at, width int) {
	s.bytes.Add(-sh.remove(t, at, width))
	s.keys.Add(-1)
}
