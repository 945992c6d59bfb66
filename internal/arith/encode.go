package arith

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ration-go/ration/internal/varint"
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
		b = append(slices.Grow(b, 1+5*binary.MaxVarintLen64), formPlain)
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

// Decode sets st to what Append wrote, or to the zero State beside an error. No bytes are the zero State too. st keeps the
// room of its Uses.
func (st *State) Decode(b []byte) error {
	*st = State{Uses: st.Uses[:0]}
	if len(b) == 0 {
		return nil
	}
	r := varint.NewReader(b[1:])
	switch b[0] {
	case formPlain:
		for _, n := range [...]*int64{&st.Level, &st.Unit, &st.Stamp, &st.Since, &st.Expires} {
			*n = r.Int()
		}
	case formUses:
		st.Since, st.Expires = r.Int(), r.Int()
		n, at := r.Uint(), int64(0)
		if n == 0 || n > MaxSlots {
			r.Fail()
			n = 0
		}
		for range n {
			at += r.Int()
			st.Uses = append(st.Uses, Use{at, r.Int(), r.Int()})
		}
	default:
		r.Fail()
	}
	if !r.Done() || !st.plausible() {
		*st = State{Uses: st.Uses[:0]}
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
