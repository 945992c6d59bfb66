package arith

// A counter counts in a window that opens with its first use; a budget in a calendar period. Both keep the count in
// Level and the end in Stamp. A Stamp of 0 is what Reset leaves: nothing is open.

func (v *View) openCounter() {
	v.end = v.now + v.lim.Span
	v.openCount()
}

func (v *View) openBudget() (ok bool) {
	b := &v.lim.Bounds
	v.end = b[3]
	if v.now < b[2] {
		v.end = b[2]
	}
	if v.now < b[1] {
		v.end = b[1]
	}
	v.openCount()
	return b[0] <= v.now && v.now < b[3]
}

func (v *View) openCount() {
	if exists(v.st, v.now) && v.st.Stamp != 0 {
		v.used, v.end, v.open = v.st.Level, v.st.Stamp, true
	}
}

func (v *View) setCount(n int64) {
	if !v.open {
		since := v.now
		if exists(v.st, v.now) {
			since = max(since, v.st.Since)
		}
		*v.st = State{Stamp: v.end, Since: since, Expires: v.end}
		v.open = true
	}
	v.st.Level, v.used = n, n
}

// Hit adds n, of either sign, and reports false if the count would pass ±Max. n = 0 reads.
func (v *View) Hit(n int64) bool {
	if sum := v.used + n; sum > Max || sum < -Max {
		return false
	}
	if n != 0 {
		v.dirty = true
		v.setCount(v.used + n)
	}
	return true
}
