package arith

import (
	"encoding/binary"
	"errors"
)

// ErrCorrupt says that bytes are not a State that Append wrote.
var ErrCorrupt = errors.New("not a state")

// The first byte of an encoded State names its form, so that later versions can tell old rows from new ones.
const (
	formPlain = 1 // five varints: Level, Unit, Stamp, Since, Expires
	formUses  = 2 // Since, Expires, a count, and for each use the time passed since the one before, Cost, Window
)

// Append appends st to b. Equal states have equal bytes.
func (st *State) Append(b []byte) []byte {
	if len(st.Uses) == 0 {
		b = append(b, formPlain)
		for _, n := range [...]int64{st.Level, st.Unit, st.Stamp, st.Since, st.Expires} {
			b = binary.AppendVarint(b, n)
		}
		return b
	}
	b = append(b, formUses)
	b = binary.AppendVarint(b, st.Since)
	b = binary.AppendVarint(b, st.Expires)
	b = binary.AppendUvarint(b, uint64(len(st.Uses)))
	at := int64(0)
	for _, u := range st.Uses {
		b = binary.AppendVarint(b, u.At-at)
		b = binary.AppendVarint(b, u.Cost)
		b = binary.AppendVarint(b, u.Window)
		at = u.At
	}
	return b
}

// Decode sets st to what Append wrote. No bytes are the zero State. st keeps the room of its Uses.
func (st *State) Decode(b []byte) error {
	*st = State{Uses: st.Uses[:0]}
	if len(b) == 0 {
		return nil
	}
	r := reader{b: b[1:]}
	switch b[0] {
	case formPlain:
		for _, n := range [...]*int64{&st.Level, &st.Unit, &st.Stamp, &st.Since, &st.Expires} {
			*n = r.varint()
		}
	case formUses:
		st.Since, st.Expires = r.varint(), r.varint()
		n, at := r.uvarint(), int64(0)
		if n == 0 || n > MaxUses+1 {
			return ErrCorrupt
		}
		for range n {
			at += r.varint()
			st.Uses = append(st.Uses, Use{at, r.varint(), r.varint()})
		}
	default:
		return ErrCorrupt
	}
	if r.bad || len(r.b) > 0 || !st.plausible() {
		return ErrCorrupt
	}
	return nil
}

// plausible reports whether all numbers are such that the arithmetic on them cannot overflow.
func (st *State) plausible() bool {
	for _, n := range [...]int64{st.Level, st.Unit, st.Stamp, st.Since, st.Expires} {
		if n > Max || n < -Max {
			return false
		}
	}
	for i, u := range st.Uses {
		if u.At < 0 || u.At > Max || u.Cost < 0 || u.Cost > Max || u.Window < 1 || u.Window > Max || i > 0 && u.At < st.Uses[i-1].At {
			return false
		}
	}
	return st.Unit >= 0 && st.Stamp >= 0
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	return n * int64(r.skip(size))
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	return n * uint64(r.skip(size))
}

// skip passes over size bytes, and answers 0 if there was no number.
func (r *reader) skip(size int) int {
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return 1
}
