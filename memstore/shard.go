package memstore

import (
	"sync"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// A shard is a part of the states with a lock of its own. All states of one group and id are in one shard.
type shard struct {
	mu    sync.Mutex
	first table         // the rows of minWidth
	last  driver.Micros // when the process's clock last decided here
	more  *more
	_     [8]byte // of 64-bit machines, the cache line that most decisions touch ends here

	tables [5]table     // the next widths
	one    [1]arith.Use // room for the only use of a window, for the Txn that has the lock
	_      [8]byte
}

// inOrder lets t, which has the lock, decide no earlier than whoever had it before: its clock was read before it waited. A
// use of a window would else be kept at another time than was answered, and not be found when it is given back.
func (s *Store) inOrder(sh *shard, t *driver.Txn) {
	if t.Now != 0 {
		return
	}
	if t.At < sh.last {
		t.At = s.clock.now()
	}
	sh.last = t.At
}

// more is what few shards have.
type more struct {
	tables [(maxWidth-minWidth)/widthStep - 5]table // the widths after those of the shard
	keys   slab[byte]                               // long keys
	uses   slab[arith.Use]                          // of windows that have several
}

// slab keeps slices by number.
type slab[T any] struct {
	all  [][]T
	free []uint32
}

func (sl *slab[T]) add(v []T) (num uint32) {
	if last := len(sl.free) - 1; last >= 0 {
		num, sl.free = sl.free[last], sl.free[:last]
		sl.all[num] = v
		return num
	}
	sl.all = append(sl.all, v)
	return uint32(len(sl.all) - 1)
}

func (sl *slab[T]) remove(num uint32) {
	sl.all[num] = nil
	if sl.free = append(sl.free, num); len(sl.free) == len(sl.all) {
		*sl = slab[T]{}
	}
}

// table answers the table of a width; nil if there is none yet.
func (sh *shard) table(width int) *table {
	i := (width - minWidth) / widthStep
	switch {
	case i == 0:
		return &sh.first
	case i <= len(sh.tables):
		return &sh.tables[i-1]
	case sh.more == nil:
		return nil
	}
	return &sh.more.tables[i-1-len(sh.tables)]
}

// eachTable calls f for each table that has rows, until it answers false.
func (sh *shard) eachTable(f func(t *table, width int) bool) {
	for width := minWidth; width <= maxWidth; width += widthStep {
		t := sh.table(width)
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

// lock takes the locks that t needs (nil: a sweep), which are sorted, and lets it decide in order with all of them.
func (s *Store) lock(t *driver.Txn, locks []uint32) {
	for _, i := range locks {
		s.shards[i].mu.Lock()
		if t != nil {
			s.inOrder(&s.shards[i], t)
		}
	}
	if t != nil && t.Now == 0 {
		for _, i := range locks {
			s.shards[i].last = t.At
		}
	}
}

func (s *Store) unlock(locks []uint32) {
	for _, i := range locks {
		s.shards[i].mu.Unlock()
	}
}

// find answers the row of k; nil: there is none.
func (s *Store) find(sh *shard, k *driver.Key, tag uint32) row {
	spaces := s.spaces.list()
	if r := sh.search(k, tag, widthOf(keyLen(k, false)), spaces); r != nil || len(spaces) < maxSpaces {
		return r
	}
	return sh.search(k, tag, widthOf(keyLen(k, true)), spaces)
}

func (sh *shard) search(k *driver.Key, tag uint32, width int, spaces []string) row {
	t := sh.table(width)
	if t == nil || t.places == 0 {
		return nil
	}
	marks, mark, want := t.marks(width), markOf(uint64(tag)), wantOf(k, tag)
	for i := t.home(uint64(tag)); ; {
		switch marks[i] {
		case mark:
			if r := t.row(i*width, width); r.meta()&wantMask == want && sh.is(r, k, spaces) {
				return r
			}
		case 0:
			return nil
		}
		if i++; i == len(marks) {
			i = 0
		}
	}
}

// add makes the row of k, which has none, with a state that never was. Other rows of the shard may move.
func (s *Store) add(sh *shard, k *driver.Key, tag uint32) row {
	space := s.spaces.number(k.Space)
	width := widthOf(keyLen(k, space == 0))
	t := sh.table(width)
	if t == nil {
		sh.extra()
		t = sh.table(width)
	}
	r := t.add(tag, width)
	sh.name(r, k, tag, space)
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
		st.Uses = sh.more.uses.all[uint32(st.Level)]
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
			sh.more.uses.all[num] = st.Uses
			first, flags = int64(num), flags|flagSide
		case len(st.Uses) == 1:
			u := &st.Uses[0]
			first, second, third = u.At, u.Cost, u.Window
			flags |= flagOne
		default:
			first, flags = int64(sh.extra().uses.add(st.Uses)), flags|flagSide
		}
	}
	r.put(first, second, third, st.Since, st.Expires, flags)
}

// remove forgets the row at a place of a table of sh, and answers what it counted for.
func (sh *shard) remove(t *table, at, width int) (freed int64) {
	r := t.row(at, width)
	freed = rowCost(width) + sh.dropUses(r)
	if r.meta()&longKey != 0 {
		freed += longCost(len(sh.more.keys.all[r.long()]))
		sh.more.keys.remove(r.long())
	}
	t.remove(at, width)
	return freed
}

// dropUses forgets the uses that r keeps in the shard, if any.
func (sh *shard) dropUses(r row) (freed int64) {
	if r.flags()&flagSide == 0 {
		return 0
	}
	freed = sideCost(sh.more.uses.all[r.side()])
	sh.more.uses.remove(r.side())
	return freed
}

// A use, and what belongs to a list of them: its slice, and its number when it is free.
const (
	useCost  = 24
	usesCost = 32
)

func sideCost(uses []arith.Use) int64 { return int64(cap(uses))*useCost + usesCost }
