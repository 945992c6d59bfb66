package memstore

import (
	"sync"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// A shard is a part of the states with a lock of its own. All states of one group and id are in one shard.
type shard struct {
	mu    sync.Mutex
	short table // rows of shortWidth
	more  *more
	_     [16]byte // the above is one cache line, and what most decisions touch

	mid table        // rows of midWidth
	one [1]arith.Use // room for the only use of a window, for the Txn that has the lock
	_   [8]byte
}

const (
	shortWidth = headLen + 16
	midWidth   = headLen + 32
)

// more is what few shards have.
type more struct {
	tables []wideTable
	uses   [][]arith.Use // by number: the uses of a window that has several
	free   []uint32      // numbers
}

type wideTable struct {
	table
	width int
}

// table answers the table of a width; nil if there is none yet. The next one that is made moves it.
func (sh *shard) table(width int) *table {
	switch width {
	case shortWidth:
		return &sh.short
	case midWidth:
		return &sh.mid
	}
	if sh.more != nil {
		for i := range sh.more.tables {
			if t := &sh.more.tables[i]; t.width == width {
				return &t.table
			}
		}
	}
	return nil
}

// nth answers the tables of sh one after the other; nil: there are no more.
func (sh *shard) nth(i int) (t *table, width int) {
	switch {
	case i == 0:
		return &sh.short, shortWidth
	case i == 1:
		return &sh.mid, midWidth
	case sh.more != nil && i-2 < len(sh.more.tables):
		w := &sh.more.tables[i-2]
		return &w.table, w.width
	}
	return nil, 0
}

// tables calls f for each table that has rows, until it answers false.
func (sh *shard) tables(f func(t *table, width int) bool) {
	for i := 0; ; i++ {
		t, width := sh.nth(i)
		if t == nil || t.n > 0 && !f(t, width) {
			return
		}
	}
}

func (sh *shard) extra() *more {
	if sh.more == nil {
		sh.more = &more{}
	}
	return sh.more
}

// find answers the row of k; nil: there is none.
func (s *Store) find(sh *shard, k *driver.Key, tag uint32) row {
	spaces := s.spaces.list()
	if r := sh.search(k, tag, widthOf(k, false), spaces); r != nil || !s.spaces.full() {
		return r
	}
	return sh.search(k, tag, widthOf(k, true), spaces)
}

func (sh *shard) search(k *driver.Key, tag uint32, width int, spaces []string) row {
	t := sh.table(width)
	if t == nil || t.places == 0 {
		return nil
	}
	rows, want := t.rows, wantOf(k, tag)
	for at := t.home(uint64(tag), width); ; {
		r := row(rows[at:])
		m := r.meta()
		if m&wantMask == want && r.is(k, spaces) {
			return r[:width:width]
		}
		if empty(m) {
			return nil
		}
		if at += width; at == len(rows) {
			at = 0
		}
	}
}

// add makes the row of k, which has none, with a state that never was. Other rows of the shard may move.
func (s *Store) add(sh *shard, k *driver.Key, tag uint32) row {
	space := s.spaces.number(k.Space)
	width := widthOf(k, space == 0)
	t := sh.table(width)
	if t == nil {
		x := sh.extra()
		x.tables = append(x.tables, wideTable{width: width})
		t = sh.table(width)
	}
	r := t.add(tag, width)
	r.name(k, tag, space)
	return r
}

// load sets st to the state of k, and answers its row (nil: there is none) and its flags. one is the room for the only
// use of a window: not on the stack, as the arithmetic would move it to the heap.
func (s *Store) load(sh *shard, k *driver.Key, tag uint32, now int64, st *arith.State, one []arith.Use) (r row, flags uint8) {
	if r = s.find(sh, k, tag); r == nil {
		*st = arith.State{Uses: one[:0:1]}
		return nil, 0
	}
	if sh.get(r, st, one); st.Expires > now {
		flags = r.flags()
	}
	return r, flags
}

// get sets st to the state in r.
func (sh *shard) get(r row, st *arith.State, one []arith.Use) {
	r.get(st)
	switch flags := r.flags(); {
	case flags&flagSide != 0:
		st.Uses = sh.more.uses[uint32(st.Level)]
	case flags&flagOne != 0:
		one[0] = arith.Use{At: st.Level, Cost: st.Unit, Window: st.Stamp}
		st.Uses = one[:1:1]
	default:
		st.Uses = one[:0:1]
		return
	}
	st.Level, st.Unit, st.Stamp = 0, 0, 0
}

// save keeps st in r. A row is not removed here, so that other rows stay where they are: a state that is no more has ended
// long ago, and goes with the next sweep.
func (s *Store) save(sh *shard, r row, st *arith.State, flags uint8) {
	first, second, third := st.Level, st.Unit, st.Stamp
	if side := r.flags() & flagSide; side != 0 || len(st.Uses) > 0 {
		switch {
		case len(st.Uses) == 0:
			s.bytes.Add(-sh.dropUses(r))
		case side != 0:
			num := r.side()
			sh.more.uses[num] = st.Uses
			first, flags = int64(num), flags|flagSide
		case len(st.Uses) == 1:
			u := &st.Uses[0]
			first, second, third = u.At, u.Cost, u.Window
			flags |= flagOne
		default:
			first, flags = int64(sh.addUses(st.Uses)), flags|flagSide
		}
	}
	r.put(first, second, third, st.Since, st.Expires, flags)
}

// remove forgets the row at a place of a table of sh, and answers what it counted for.
func (sh *shard) remove(t *table, at, width int) (freed int64) {
	freed = sh.dropUses(t.row(at, width)) + rowCost(width)
	t.remove(at, width)
	return freed
}

// A use, and what belongs to a list of them: its slice, and the number of it when it is free.
const (
	useCost  = 24
	usesCost = 32
)

func sideCost(uses []arith.Use) int64 { return int64(cap(uses))*useCost + usesCost }

// addUses keeps uses and answers their number.
func (sh *shard) addUses(uses []arith.Use) (num uint32) {
	x := sh.extra()
	if last := len(x.free) - 1; last >= 0 {
		num, x.free = x.free[last], x.free[:last]
		x.uses[num] = uses
		return num
	}
	x.uses = append(x.uses, uses)
	return uint32(len(x.uses) - 1)
}

// dropUses forgets the uses that r keeps in the shard, if any.
func (sh *shard) dropUses(r row) (freed int64) {
	if r.flags()&flagSide == 0 {
		return 0
	}
	x, num := sh.more, r.side()
	freed = sideCost(x.uses[num])
	x.uses[num] = nil
	if x.free = append(x.free, num); len(x.free) == len(x.uses) {
		x.uses, x.free = nil, nil
	}
	return freed
}
