package memstore

import (
	"hash/maphash"
	"sync"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// A shard is a part of the states with a lock of its own. Its table is open addressing with linear probing: a slot holds
// 32 bits of hash and 32 bits that say where the row is, so that a search touches no row but its own.
type shard struct {
	mu     sync.Mutex
	slots  []uint64 // hash << 32 | ref; 0: empty
	blocks [][]byte // by number; see arena.go
	spaces []space
	n      int

	classes  []class
	unused   []uint32 // numbers of blocks
	byName   map[string]uint32
	nameless []uint32 // numbers of spaces
	uses     [][]arith.Use
	useless  []uint32 // numbers of uses
	hand     hand
	one      [1]arith.Use // room for the only use of a window, for the Txn that has the lock

	_ [8]byte // 256 bytes in all: shards do not share cache lines
}

// A space is a Key.Space as rows name it: by its number in their shard.
type space struct {
	name string
	rows int
}

func home(slot uint64, n int) int { return int(slot >> 32 * uint64(n) >> 32) }

// find answers where the row of k is; 0: there is none.
func (sh *shard) find(k *driver.Key, hash uint32) (ref uint32) {
	slots := sh.slots
	if len(slots) == 0 {
		return 0
	}
	i := home(uint64(hash)<<32, len(slots))
	for {
		slot := slots[i]
		if slot == 0 {
			return 0
		}
		if uint32(slot>>32) == hash {
			r := sh.row(uint32(slot))
			if r.is(k) && sh.spaces[r.space()].name == k.Space {
				return uint32(slot)
			}
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
}

// add makes a row of k, which has none.
func (sh *shard) add(k *driver.Key, hash uint32) (ref uint32) {
	if (sh.n+1)*5 > len(sh.slots)*4 {
		sh.resize(len(sh.slots) + len(sh.slots)/4 + 8)
	}
	ref, r := sh.alloc(rowLen(k))
	r.name(k, sh.spaceOf(k.Space))
	sh.insert(uint64(hash)<<32 | uint64(ref))
	sh.n++
	return ref
}

func (sh *shard) insert(slot uint64) {
	i := home(slot, len(sh.slots))
	for sh.slots[i] != 0 {
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	sh.slots[i] = slot
}

func (sh *shard) resize(n int) {
	old := sh.slots
	sh.slots = make([]uint64, n)
	for _, slot := range old {
		if slot != 0 {
			sh.insert(slot)
		}
	}
}

// remove forgets the row at ref. The last row of its class moves to its place.
func (sh *shard) remove(s *Store, ref uint32) (freed int64) {
	r := sh.row(ref)
	id, group := r.lens()
	class, size := classOf(headLen + id + group)
	freed = sh.dropUses(r) + rowCost(size)
	sh.unslot(sh.hashOf(s, r), ref)
	sh.leaveSpace(r.space())
	if last := sh.refOf(class, sh.classes[class].n-1); last != ref {
		moved := sh.row(last)
		sh.slots[sh.slotOf(sh.hashOf(s, moved), last)] += uint64(ref) - uint64(last)
		copy(r[:size], moved)
	}
	sh.shorten(class)
	sh.n--
	if len(sh.slots) > 16 && sh.n*3 < len(sh.slots) {
		sh.resize(sh.n + sh.n/2 + 8)
	}
	return freed
}

func (sh *shard) hashOf(s *Store, r row) uint32 {
	h := maphash.Bytes(s.seed, r.id())
	if g := r.group(); len(g) > 0 {
		h = mix(h, maphash.Bytes(s.seed, g))
	}
	return hashIn(h, maphash.String(s.seed, sh.spaces[r.space()].name))
}

func (sh *shard) slotOf(hash, ref uint32) int {
	slot := uint64(hash)<<32 | uint64(ref)
	i := home(slot, len(sh.slots))
	for sh.slots[i] != slot {
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	return i
}

// unslot empties a slot, and moves up those behind it that would not be found any more.
func (sh *shard) unslot(hash, ref uint32) {
	slots, n := sh.slots, len(sh.slots)
	hole := sh.slotOf(hash, ref)
	for i := hole; ; {
		if i++; i == n {
			i = 0
		}
		slot := slots[i]
		if slot == 0 {
			break
		}
		// How far a slot is from its home, and from the hole; around the end of the table.
		if far, near := (i-home(slot, n)+n)%n, (i-hole+n)%n; far >= near {
			slots[hole] = slot
			hole = i
		}
	}
	slots[hole] = 0
}

// spaceOf numbers name. A name is kept as long as a row bears it, so that invented names do not add up.
func (sh *shard) spaceOf(name string) uint32 {
	num, ok := sh.byName[name]
	if !ok {
		if n := len(sh.nameless); n > 0 {
			num, sh.nameless = sh.nameless[n-1], sh.nameless[:n-1]
		} else {
			num = uint32(len(sh.spaces))
			sh.spaces = append(sh.spaces, space{})
		}
		if sh.byName == nil {
			sh.byName = make(map[string]uint32)
		}
		sh.byName[name] = num
		sh.spaces[num].name = name
	}
	sh.spaces[num].rows++
	return num
}

func (sh *shard) leaveSpace(num uint32) {
	sp := &sh.spaces[num]
	if sp.rows--; sp.rows > 0 {
		return
	}
	delete(sh.byName, sp.name)
	*sp = space{}
	sh.nameless = append(sh.nameless, num)
	if len(sh.byName) == 0 {
		sh.byName, sh.spaces, sh.nameless = nil, nil, nil
	}
}
