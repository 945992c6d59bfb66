package arith

import (
	"cmp"
	"slices"
)

// Slots are held, not used up: each holder's slots end at a time of their own. They are kept as Uses: At is when they end,
// Window is who holds them.

// MaxSlots is the greatest size of a limit of slots.
const MaxSlots = 4096

func (v *View) openSlots() {
	if !exists(v.st, v.now) {
		return
	}
	for _, u := range v.st.Uses {
		if u.At > v.now {
			v.used += u.Cost
		}
	}
}

// Hold gives n slots, which fit, to holder (1 to Max) until the given time.
func (v *View) Hold(n, holder, until int64) {
	if n == 0 {
		return
	}
	v.dirty = true
	st := v.st
	if !exists(st, v.now) {
		*st = State{Since: v.now, Uses: st.Uses[:0]}
	}
	st.Uses = slices.DeleteFunc(st.Uses, func(u Use) bool { return u.At <= v.now })
	v.place(Use{At: until, Cost: n, Window: holder})
	v.used += n
}

// Free ends what holder holds and answers how many slots that were.
func (v *View) Free(holder int64) (given int64) {
	if !exists(v.st, v.now) {
		return 0
	}
	st := v.st
	for i, u := range st.Uses {
		if u.Window == holder {
			if u.At > v.now {
				given = u.Cost
				v.used -= given
			}
			st.Uses = slices.Delete(st.Uses, i, i+1)
			v.slotsExpiry()
			v.dirty = true
			break
		}
	}
	return given
}

// Extend moves the end of what holder holds, and reports false if it holds nothing any more.
func (v *View) Extend(holder, until int64) bool {
	if !exists(v.st, v.now) {
		return false
	}
	st := v.st
	for i, u := range st.Uses {
		if u.Window == holder && u.At > v.now {
			u.At = until
			st.Uses = slices.Delete(st.Uses, i, i+1)
			v.place(u)
			v.dirty = true
			return true
		}
	}
	return false
}

// place puts u where the order of time wants it.
func (v *View) place(u Use) {
	st := v.st
	i, _ := slices.BinarySearchFunc(st.Uses, u, func(a, b Use) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Window, b.Window)) })
	st.Uses = slices.Insert(st.Uses, i, u)
	v.slotsExpiry()
}

func (v *View) slotsExpiry() {
	st := v.st
	if n := len(st.Uses); n > 0 {
		st.Expires = st.Uses[n-1].At
	} else {
		*st = State{Uses: st.Uses}
	}
}

// freeAt is when enough slots are free for n, which is at most the size.
func (v *View) freeAt(n int64) int64 {
	used := v.used
	for _, u := range v.st.Uses {
		if u.At > v.now {
			used -= u.Cost
			if used <= v.lim.Size-n {
				return u.At
			}
		}
	}
	return v.now
}

// lastFree is when all slots are free.
func (v *View) lastFree() int64 {
	if n := len(v.st.Uses); n > 0 && exists(v.st, v.now) {
		return v.st.Uses[n-1].At
	}
	return v.now
}
