package memstore

import (
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// load sets st to the state of op's key, and answers where its row is (0: there is none) and its flags. one is the room
// for the only use of a window: not on the stack, as the arithmetic would move it to the heap.
func (sh *shard) load(op *driver.Op, hash uint32, now int64, st *arith.State, one []arith.Use) (ref uint32, flags uint8) {
	if ref = sh.find(&op.Key, hash); ref == 0 {
		*st = arith.State{Uses: one[:0:1]}
		return 0, 0
	}
	flags = sh.get(ref, st, one)
	if st.Expires <= now {
		flags = 0
	}
	return ref, flags
}

// get sets st to the state in the row at ref, and answers its flags.
func (sh *shard) get(ref uint32, st *arith.State, one []arith.Use) (flags uint8) {
	r := sh.row(ref)
	r.get(st)
	flags = r.flags()
	switch {
	case flags&flagSide != 0:
		st.Uses = sh.uses[uint32(st.Level)]
	case flags&flagOne != 0:
		one[0] = arith.Use{At: st.Level, Cost: st.Unit, Window: st.Stamp}
		st.Uses = one[:1:1]
	default:
		st.Uses = one[:0:1]
		return flags
	}
	st.Level, st.Unit, st.Stamp = 0, 0, 0
	return flags
}

// save keeps st in the row at ref. Nothing is removed here, so that refs stay what they are while the shard is locked: a
// state that is no more has ended long ago, and goes with the next sweep.
func (s *Store) save(sh *shard, ref uint32, st *arith.State, flags uint8) {
	r := sh.row(ref)
	first, second, third := st.Level, st.Unit, st.Stamp
	if side := r.flags() & flagSide; side != 0 || len(st.Uses) > 0 {
		switch {
		case len(st.Uses) == 0:
			s.bytes.Add(-sh.dropUses(r))
		case side != 0:
			num := r.side()
			sh.uses[num] = st.Uses
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
