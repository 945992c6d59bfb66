package pgstore

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/ration-go/ration/driver"
)

// rawKey is how long a key may be that is kept as it is. Of longer ones a digest is kept: an entry of an index has to fit
// into a third of a page, and shorter ones make a smaller index.
const rawKey = 64

// rowKey names the row of k. Different keys have different names: a raw one never begins with a zero byte.
func rowKey(k driver.Key) []byte {
	return shortened(k.AppendTo(make([]byte, 0, rawKey)))
}

func shortened(key []byte) []byte {
	if len(key) <= rawKey {
		return key
	}
	sum := sha256.Sum256(key)
	return append(make([]byte, 1, 1+len(sum)), sum[:]...)
}

// holdKey names the record of id.
func holdKey(id string) []byte {
	return shortened(append([]byte{1}, id...))
}

// prefix is what the keys of space begin with.
func prefix(space string) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(space))), space...)
}

// tail is what follows the prefix.
func tail(k driver.Key) []byte {
	b := binary.AppendUvarint(nil, uint64(len(k.Group)))
	b = append(b, k.Group...)
	return append(b, k.ID...)
}

// holder names the hold of id in the rows of slots, as driver.Run does.
func holder(id string) int64 {
	h := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(h[:])>>11) | 1
}
