package driver

import (
	"encoding/binary"
	"slices"
)

// MaxID is the greatest length of Key.ID and of Key.Group in bytes.
const MaxID = 4096

// Key is the identity of a state: two ops mean one state if and only if their Keys are equal. A map may be keyed by it;
// other stores use the bytes of AppendTo, or a column for each part.
type Key struct {
	Space string // namespace, kind, rule name, calendar, in printable ASCII: few, and one and the same string each time
	Group string // what is placed together on a cluster; often ""
	ID    string // the caller's key or its keyed hash: any bytes, 1 to MaxID
}

// AppendTo appends an encoding of k to b: different keys, different bytes, and none begins with a zero byte.
func (k Key) AppendTo(b []byte) []byte {
	b = slices.Grow(b, 4+len(k.Space)+len(k.Group)+len(k.ID))
	b = binary.AppendUvarint(b, uint64(len(k.Space)))
	b = append(b, k.Space...)
	b = binary.AppendUvarint(b, uint64(len(k.Group)))
	b = append(b, k.Group...)
	return append(b, k.ID...)
}
