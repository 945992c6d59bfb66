package simulate

import (
	"bytes"
	"hash/maphash"
)

// table numbers keys from 0, in the order in which they come. It is a hash table of its own because it takes bytes without
// making strings of them, keeps them close together, and knows what it takes.
type table struct {
	seed  maphash.Seed
	slots []uint64 // the upper half of the key's hash, and its number + 1; 0: free
	refs  []uint64 // where each key stands: chunk, place, length
	text  [][]byte
}

const (
	chunkSize   = 1 << 20
	placeShift  = 12 // a length needs 11 bits
	chunkShift  = placeShift + 20
	lengthMask  = 1<<placeShift - 1
	placeMask   = 1<<20 - 1
	firstSlots  = 1 << 12
	maxKeyCount = 1<<32 - 2
)

func newTable() table {
	return table{seed: maphash.MakeSeed(), slots: make([]uint64, firstSlots)}
}

func (t *table) len() int { return len(t.refs) }

// bytes is about what the table takes.
func (t *table) bytes() int64 {
	return int64(len(t.slots))*8 + int64(cap(t.refs))*8 + int64(len(t.text))*chunkSize
}

func (t *table) key(n int) []byte {
	ref := t.refs[n]
	at := ref >> placeShift & placeMask
	return t.text[ref>>chunkShift][at : at+ref&lengthMask]
}

// find answers the number of a key. If it is new, it is added, if add says so; else the answer is −1.
func (t *table) find(key []byte, add bool) (n int, isNew bool) {
	h := maphash.Bytes(t.seed, key)
	mask := uint64(len(t.slots) - 1)
	for i := h >> 32 & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			if !add || len(t.refs) >= maxKeyCount {
				return -1, false
			}
			t.slots[i] = h>>32<<32 | uint64(len(t.refs)+1)
			t.keep(key)
			if len(t.refs) > len(t.slots)/2 {
				t.grow()
			}
			return len(t.refs) - 1, true
		}
		if slot>>32 == h>>32 {
			if n := int(uint32(slot)) - 1; bytes.Equal(t.key(n), key) {
				return n, false
			}
		}
	}
}

func (t *table) keep(key []byte) {
	last := len(t.text) - 1
	if last < 0 || len(t.text[last])+len(key) > chunkSize {
		t.text = append(t.text, make([]byte, 0, chunkSize))
		last++
	}
	at := len(t.text[last])
	t.text[last] = append(t.text[last], key...)
	t.refs = append(t.refs, uint64(last)<<chunkShift|uint64(at)<<placeShift|uint64(len(key)))
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint64, 2*len(old))
	mask := uint64(len(t.slots) - 1)
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		i := slot >> 32 & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = slot
	}
}
