package memstore

import (
	"encoding/binary"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// A row is the record of one state: a head of fixed layout, then the key. Rows hold no pointers: a million of them are
// nothing to the garbage collector. With a key of up to 16 bytes a row is one cache line, and the only one that a decision
// has to fetch if there are many keys.
//
// The key is id, group and, for a space without a number, the space; before them the lengths of group and space in two
// bytes each, if there is one. A long key is not in the row: in its place stands its number in more.keys.
type row []byte

// The layout. A window with one use keeps it in the first three numbers; with more, the first is the number of its uses
// in more.uses.
const (
	atMeta    = 0 // flags; length of id + 1, 15 bits, 0: the row is empty; 1 for a long key; number of the space, 16; tag
	atLevel   = 8
	atUnit    = 16
	atStamp   = 24
	atSince   = 32
	atExpires = 40
	headLen   = 48

	longest   = 128 // key in a row
	minWidth  = headLen + 16
	maxWidth  = headLen + longest
	widthStep = 8

	idShift    = 8
	longKey    = 1 << 23
	spaceShift = 24
	tagShift   = 40
	tagLen     = 24
)

// Flags of a row.
const (
	flagOne      = 1 << iota // a window with one use
	flagSide                 // a window with its uses in more.uses
	flagInjected             // last changed by an injected clock
	flagLimited              // of a kind that may be dropped, changed by a verb that knows the limit
	flagLow                  // less than half used after the last change
	flagHit                  // changed by Hit
	flagRefused              // it has refused since its last change
	flagGroup                // the key has a group: part of the identity, not of the state
)

func (r row) meta() uint64 { return binary.LittleEndian.Uint64(r) }

func (r row) setMeta(m uint64) { binary.LittleEndian.PutUint64(r, m) }

func empty(meta uint64) bool { return meta&(0x7fff<<idShift) == 0 }

func (r row) flags() uint8 { return r[atMeta] }

// space is the number of the space; 0: it is spelled out.
func (r row) space() uint16 { return uint16(r.meta() >> spaceShift) }

func (r row) expires() int64 { return int64(binary.LittleEndian.Uint64(r[atExpires:])) }

func (r row) side() uint32 { return uint32(binary.LittleEndian.Uint64(r[atLevel:])) }

// A want is what a key's rows must have in their meta, besides flags and space.
func wantOf(k *driver.Key, tag uint32) uint64 {
	return uint64(tag)<<tagShift | uint64(len(k.ID)+1)<<idShift
}

const wantMask = (1<<tagLen-1)<<tagShift | 0x7fff<<idShift

// is reports whether r, whose meta is as wanted, is of k, given the spaces by number.
func (sh *shard) is(r row, k *driver.Key, spaces []string) bool {
	m, space := r.meta(), r.space()
	if m&(flagGroup|longKey) == 0 && space != 0 {
		return string(r[headLen:headLen+len(k.ID)]) == k.ID && k.Group == "" && spaces[space] == k.Space
	}
	id, group, name := sh.parts(r)
	if string(id) != k.ID || string(group) != k.Group {
		return false
	}
	if space != 0 {
		return spaces[space] == k.Space
	}
	return string(name) == k.Space
}

// parts are the parts of the key of r; space only if it has no number.
func (sh *shard) parts(r row) (id, group, space []byte) {
	m := r.meta()
	rest, groupLen, spaceLen := []byte(r[headLen:]), 0, 0
	if m&longKey != 0 {
		rest = sh.more.keys.all[r.long()]
	}
	if m&flagGroup != 0 {
		groupLen = int(binary.LittleEndian.Uint16(rest))
		rest = rest[2:]
	}
	if r.space() == 0 {
		spaceLen = int(binary.LittleEndian.Uint16(rest))
		rest = rest[2:]
	}
	idLen := int(m>>idShift&0x7fff) - 1
	return rest[:idLen], rest[idLen : idLen+groupLen], rest[idLen+groupLen : idLen+groupLen+spaceLen]
}

// long is the number of a long key.
func (r row) long() uint32 { return binary.LittleEndian.Uint32(r[headLen:]) }

// name makes r, which is empty, the row of k.
func (sh *shard) name(r row, k *driver.Key, tag uint32, space uint16) {
	m := wantOf(k, tag) | uint64(space)<<spaceShift
	rest := []byte(r[headLen:])
	if n := keyLen(k, space == 0); n > longest {
		m |= longKey
		rest = make([]byte, n)
		binary.LittleEndian.PutUint32(r[headLen:], sh.extra().keys.add(rest))
	}
	if k.Group != "" {
		m |= flagGroup
		binary.LittleEndian.PutUint16(rest, uint16(len(k.Group)))
		rest = rest[2:]
	}
	if space == 0 {
		binary.LittleEndian.PutUint16(rest, uint16(len(k.Space)))
		rest = rest[2:]
	}
	rest = rest[copy(rest, k.ID):]
	rest = rest[copy(rest, k.Group):]
	if space == 0 {
		copy(rest, k.Space)
	}
	r.setMeta(m)
}

// get reads the numbers of st, all but the uses.
func (r row) get(st *arith.State) {
	_ = r[headLen-1]
	st.Level = int64(binary.LittleEndian.Uint64(r[atLevel:]))
	st.Unit = int64(binary.LittleEndian.Uint64(r[atUnit:]))
	st.Stamp = int64(binary.LittleEndian.Uint64(r[atStamp:]))
	st.Since = int64(binary.LittleEndian.Uint64(r[atSince:]))
	st.Expires = int64(binary.LittleEndian.Uint64(r[atExpires:]))
}

func (r row) put(first, second, third, since, expires int64, flags uint8) {
	_ = r[headLen-1]
	r[atMeta] = r[atMeta]&flagGroup | flags
	binary.LittleEndian.PutUint64(r[atLevel:], uint64(first))
	binary.LittleEndian.PutUint64(r[atUnit:], uint64(second))
	binary.LittleEndian.PutUint64(r[atStamp:], uint64(third))
	binary.LittleEndian.PutUint64(r[atSince:], uint64(since))
	binary.LittleEndian.PutUint64(r[atExpires:], uint64(expires))
}

// keyLen is the length of a key in a row. A space without a number is spelled out.
func keyLen(k *driver.Key, spelled bool) int {
	n := len(k.ID)
	if k.Group != "" {
		n += 2 + len(k.Group)
	}
	if spelled {
		n += 2 + len(k.Space)
	}
	return n
}

// widthOf is the width of the row for a key of n bytes.
func widthOf(n int) int {
	if n > longest {
		return minWidth
	}
	return max(minWidth, (headLen+n+widthStep-1)&^(widthStep-1))
}

// keyCost is what a row with a key of n bytes counts for: itself and its part of the places that a table keeps empty, and
// a long key with what the allocator rounds up and the slice that it is found by.
func keyCost(n int) int64 {
	cost := rowCost(widthOf(n))
	if n > longest {
		cost += longCost(n)
	}
	return cost
}

func rowCost(width int) int64 { return int64(width + width/3) }

func longCost(n int) int64 { return int64(n + n/8 + 32) }
