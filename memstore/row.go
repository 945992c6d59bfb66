package memstore

import (
	"encoding/binary"
	"math/bits"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// A row is the record of one state: a head of fixed layout, then id and group. Rows hold no pointers: a million of them
// are nothing to the garbage collector. With a key of 16 bytes a row is one cache line.
type row []byte

// The layout. A window with one use keeps it in the first three numbers; with more, the first is the number of its uses
// in shard.uses.
const (
	atLevel   = 0
	atUnit    = 8
	atStamp   = 16
	atSince   = 24
	atExpires = 32
	atSpace   = 40 // 24 bits, and above them the flags
	atFlags   = 43
	atGroup   = 44 // lengths
	atID      = 46
	headLen   = 48
)

// Flags of a row.
const (
	flagOne      = 1 << iota // a window with one use
	flagSide                 // a window with its uses in shard.uses
	flagInjected             // last changed by an injected clock
	flagLimited              // of a kind that may be dropped, changed by a verb that knows the limit
	flagLow                  // less than half used after the last change
	flagHit                  // changed by Hit
	flagRefused              // it has refused since its last change
)

// maxSpaces is how many spaces 24 bits can number.
const maxSpaces = 1 << 24

func (r row) flags() uint8 { return r[atFlags] }

func (r row) space() uint32 { return binary.LittleEndian.Uint32(r[atSpace:]) & (maxSpaces - 1) }

func (r row) expires() int64 { return int64(binary.LittleEndian.Uint64(r[atExpires:])) }

func (r row) side() uint32 { return uint32(binary.LittleEndian.Uint64(r[atLevel:])) }

func (r row) lens() (id, group int) {
	return int(binary.LittleEndian.Uint16(r[atID:])), int(binary.LittleEndian.Uint16(r[atGroup:]))
}

func (r row) id() []byte {
	n, _ := r.lens()
	return r[headLen : headLen+n]
}

func (r row) group() []byte {
	n, g := r.lens()
	return r[headLen+n : headLen+n+g]
}

// is reports whether r is of k, the space apart.
func (r row) is(k *driver.Key) bool {
	lens := binary.LittleEndian.Uint32(r[atGroup:])
	return lens == uint32(len(k.ID))<<16|uint32(len(k.Group)) &&
		string(r[headLen:headLen+len(k.ID)]) == k.ID &&
		(k.Group == "" || string(r.group()) == k.Group)
}

// name makes r a row of k, with a state that never was.
func (r row) name(k *driver.Key, space uint32) {
	clear(r[:headLen])
	binary.LittleEndian.PutUint32(r[atSpace:], space)
	binary.LittleEndian.PutUint16(r[atGroup:], uint16(len(k.Group)))
	binary.LittleEndian.PutUint16(r[atID:], uint16(len(k.ID)))
	copy(r[headLen:], k.ID)
	copy(r[headLen+len(k.ID):], k.Group)
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
	binary.LittleEndian.PutUint64(r[atLevel:], uint64(first))
	binary.LittleEndian.PutUint64(r[atUnit:], uint64(second))
	binary.LittleEndian.PutUint64(r[atStamp:], uint64(third))
	binary.LittleEndian.PutUint64(r[atSince:], uint64(since))
	binary.LittleEndian.PutUint64(r[atExpires:], uint64(expires))
	r[atFlags] = flags
}

// rowLen is the length of a row of k.
func rowLen(k *driver.Key) int { return headLen + len(k.ID) + len(k.Group) }

// Rows are rounded up to classes of one size: steps of 8 bytes up to 128, then eight to a doubling.
func classOf(n int) (class, size int) {
	if n <= 128 {
		c := (n + 7) / 8
		return c, c * 8
	}
	log := bits.Len(uint(n-1)) - 1
	step := log - 3
	part := (n - 1) >> step // 8 to 15
	return 17 + (log-7)*8 + part - 8, (part + 1) << step
}
