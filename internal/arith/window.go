package arith

import (
	"cmp"
	"slices"
)

// A sliding window keeps its uses in order of time. A use counts until its own window or the asking one, whichever is
// shorter, has passed; it is dropped when its own has.

// MaxUses is how many uses a window keeps before it joins those that lie close together.
const MaxUses = 256

// joinParts is into how many parts a window is cut when uses are joined: one is freed late by at most a part.
const joinParts = 128

func (v *View) until(u Use) int64 { return u.At + min(u.Window, v.lim.Span) }

func (v *View) openWindow() {
	st := v.st
	if !exists(st, v.now) {
		return
	}
	if n := len(st.Uses); n > 0 {
		v.now = max(v.now, st.Uses[n-1].At)
	}
	v.count()
}

// count sums up what counts now.
func (v *View) count() {
	v.used = 0
	for _, u := range v.st.Uses {
		if v.until(u) > v.now {
			v.used = min(v.used+u.Cost, Max)
		}
	}
}

// lastUseOver is when the last use that counts now is over.
func (v *View) lastUseOver() (at int64) {
	for _, u := range v.st.Uses {
		if end := v.until(u); end > v.now {
			at = max(at, end)
		}
	}
	return at
}

// roomAt is when enough uses will be over for cost, which is at most the size.
func (v *View) roomAt(cost int64) int64 {
	uses := v.st.Uses
	over := func(a, b Use) int { return cmp.Compare(v.until(a), v.until(b)) }
	if !slices.IsSortedFunc(uses, over) { // only when the window was changed
		uses = slices.Clone(uses)
		slices.SortFunc(uses, over)
	}
	var used int64
	for _, u := range uses {
		if v.until(u) > v.now {
			used += u.Cost
		}
	}
	for _, u := range uses {
		if end := v.until(u); end > v.now {
			used -= u.Cost
			if used <= v.lim.Size-cost {
				return end
			}
		}
	}
	return v.now
}

func (v *View) chargeWindow(cost int64) {
	st := v.st
	if !exists(st, v.now) {
		*st = State{Since: v.now, Uses: st.Uses[:0]}
	} else if len(st.Uses) == 0 {
		st.Since = max(st.Since, v.now)
	}
	v.dropOver()
	w := v.lim.Span
	added := false
	for i := len(st.Uses) - 1; i >= 0 && st.Uses[i].At == v.now; i-- {
		if u := &st.Uses[i]; u.Window == w {
			u.Cost = min(u.Cost+cost, Max)
			added = true
			break
		}
	}
	if !added {
		st.Uses = append(st.Uses, Use{v.now, cost, w})
	}
	if len(st.Uses) > MaxUses {
		st.Uses = joinUses(st.Uses)
	}
	if len(st.Uses) > MaxUses {
		for _, u := range st.Uses {
			w = max(w, u.Window)
		}
		for i := range st.Uses {
			st.Uses[i].Window = w
		}
		st.Uses = joinUses(st.Uses)
	}
	v.count()
	v.setWindowExpiry()
}

// dropOver removes the uses whose own window is over.
func (v *View) dropOver() {
	v.st.Uses = slices.DeleteFunc(v.st.Uses, func(u Use) bool { return u.At+u.Window <= v.now })
}

func (v *View) setWindowExpiry() {
	st := v.st
	if len(st.Uses) == 0 {
		*st = State{Uses: st.Uses} // nothing is left to remember
	}
	for i, u := range st.Uses {
		if end := min(u.At+u.Window, Max); i == 0 || end > st.Expires {
			st.Expires = end
		}
	}
}

// joinUses makes one of all uses of one window that lie in one part of it, at the latest of their times.
func joinUses(uses []Use) []Use {
	out := uses[:0]
	for _, u := range uses {
		part := ceilDiv(u.Window, joinParts)
		for i := len(out) - 1; i >= 0 && out[i].At/part == u.At/part; i-- {
			if out[i].Window == u.Window {
				u.Cost = min(u.Cost+out[i].Cost, Max)
				out = slices.Delete(out, i, i+1)
				break
			}
		}
		out = append(out, u)
	}
	return out
}

func (v *View) refundWindow(n, at int64) (given int64) {
	w := v.lim.Span
	if at+w <= v.now {
		return 0 // not left to the uses: one at or after that time may be another's
	}
	uses := v.st.Uses
	for i := range uses {
		if u := &uses[i]; u.Window == w && u.At >= at {
			given = min(n, u.Cost)
			u.Cost -= given
			if u.Cost == 0 {
				v.st.Uses = slices.Delete(uses, i, i+1)
				v.setWindowExpiry()
			}
			v.count()
			return given
		}
	}
	return 0
}
