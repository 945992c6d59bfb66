package arith

// View is a state as a limit sees it at one time. Its methods change the State it was opened on.
type View struct {
	lim   *Limit
	st    *State
	wall  int64 // the store's clock
	now   int64 // the row's clock: never before its last change
	used  int64 // Window, Counter, Budget: what counts now
	level int64 // Bucket: level now, in the limit's unit
	base  int64 // Bucket: the tick from which refill goes on
	end   int64 // Counter, Budget: end of the open window or period
	open  bool  // Counter, Budget: one is open; Bucket: not full
	dirty bool  // st was changed
}

// Changed reports whether the state was changed and has to be kept. One whose Expires is 0 then has to be removed.
func (v *View) Changed() bool { return v.dirty }

// Open is the view of st as lim sees it at now. It reports false for a Budget whose Bounds do not hold now.
func Open(st *State, lim *Limit, now int64) (v View, ok bool) {
	// Returned by value: through a pointer, st and lim would escape to the heap. Small enough to be inlined, so that the
	// View is made where it stays.
	v = View{lim: lim, st: st, wall: now, now: now}
	ok = v.read()
	return v, ok
}

func (v *View) read() (ok bool) {
	switch v.lim.Kind {
	case Bucket:
		v.openBucket()
	case Window:
		v.openWindow()
	case Counter:
		v.openCounter()
	case Budget:
		return v.openBudget()
	case Slots:
		v.openSlots()
	}
	return true
}

// Running reports whether a window or period is open: a charge then needs no Bounds.
func (v *View) Running() bool { return v.open }

// Fits reports whether cost may be charged now.
func (v *View) Fits(cost int64) bool { return v.FitsTimes(cost, 1) == 1 }

// FitsTimes answers how many of times charges of cost may be made now, one after the other.
func (v *View) FitsTimes(cost, times int64) int64 {
	if cost == 0 {
		if v.Used() <= v.lim.Size {
			return times
		}
		return 0
	}
	if cost > v.lim.Size {
		return 0
	}
	if v.lim.Kind == Bucket {
		units := cost * v.lim.Unit
		switch {
		case v.level < units:
			return 0
		case times == 1:
			return 1
		}
		return min(times, v.level/units)
	}
	room := v.lim.Size - v.used
	switch {
	case room < cost:
		return 0
	case times == 1:
		return 1
	}
	return min(times, room/cost)
}

// Charge adds cost, which fits, to the state. A cost of 0 changes nothing.
func (v *View) Charge(cost int64) {
	if cost == 0 {
		return
	}
	v.dirty = true
	switch v.lim.Kind {
	case Bucket:
		v.chargeBucket(cost)
	case Window:
		v.chargeWindow(cost)
	case Counter, Budget:
		v.setCount(v.used + cost)
	}
}

// Used is what counts against the limit, rounded up; below zero only for a Counter.
func (v *View) Used() int64 {
	if v.lim.Kind == Bucket {
		return v.lim.Size - floorDiv(v.level, v.lim.Unit)
	}
	return v.used
}

// Answer is the decision on cost, given whether it was (or would be) allowed.
func (v *View) Answer(cost int64, allowed bool) Answer {
	a := Answer{Allowed: allowed, Never: cost > v.lim.Size, Used: max(0, min(v.Used(), Max)), ResetAt: v.ResetAt()}
	if !allowed {
		a.RetryAfter = min(max(v.retryAfter(cost, a.Never), 1), Century)
	}
	return a
}

// ResetAt is when the limit is unused again if nothing more is taken.
func (v *View) ResetAt() int64 {
	at := v.wall
	switch v.lim.Kind {
	case Bucket:
		switch {
		case v.level >= v.cap():
		case v.dirty: // it was computed a moment ago
			at = v.st.Expires
		default:
			at = v.passesAt(v.cap())
		}
	case Window:
		at = v.lastUseOver()
	case Counter, Budget:
		at = v.end
	case Slots:
		at = v.lastFree()
	}
	return min(max(at, v.wall), v.wall+Century)
}

func (v *View) retryAfter(cost int64, never bool) int64 {
	switch v.lim.Kind {
	case Bucket:
		switch {
		case !never:
			return v.passesAt(cost*v.lim.Unit) - v.wall
		case v.lim.Size == 0:
			return v.lim.Span
		}
		return v.ticks(v.cap()) * v.lim.Tick
	case Window:
		if never {
			return v.lim.Span
		}
		return v.roomAt(cost) - v.wall
	case Slots:
		if never {
			return v.lim.Span
		}
		return v.freeAt(cost) - v.wall
	}
	return v.end - v.wall
}

// Debit charges n whether it fits or not: what was used is counted. It stops at what a State can hold. Not for Slots.
func (v *View) Debit(n int64) {
	if n == 0 {
		return
	}
	v.dirty = true
	switch v.lim.Kind {
	case Bucket:
		if most := v.level - v.floor(); n > most/v.lim.Unit {
			v.writeBucket(v.floor(), v.level)
		} else {
			v.chargeBucket(n)
		}
	case Window:
		v.chargeWindow(n)
	case Counter, Budget:
		v.setCount(min(v.used+n, Max))
	}
}

// ChargedAt is the time to name to Refund for a charge that was just made. It is ahead of now if the state is: its last
// change was by a clock that was.
func (v *View) ChargedAt() int64 {
	if v.lim.Kind == Window {
		return v.now
	}
	return max(v.now, v.st.Since)
}

// Refund gives back n of what was charged at the given time and answers how much went back.
func (v *View) Refund(n, at int64) (given int64) {
	if n == 0 || !exists(v.st, v.now) || at < v.st.Since {
		return 0
	}
	switch v.lim.Kind {
	case Bucket:
		return v.refundBucket(n)
	case Window:
		given = v.refundWindow(n, at)
		v.dirty = given > 0
		return given
	}
	if !v.open || v.used <= 0 {
		return 0
	}
	given = min(n, v.used)
	v.setCount(v.used - given)
	v.dirty = true
	return given
}

// Reset forgets the state. What is left only remembers, for a microsecond, that charges up to now are not given back.
func (v *View) Reset() {
	st := v.st
	if !exists(st, v.now) {
		return
	}
	tick := int64(0)
	if v.lim.Kind == Bucket {
		tick = v.lim.Tick
	}
	if st.forget(v.now, tick) { // v.now: a window's uses may be ahead of the store's clock
		*v, _ = Open(st, v.lim, v.wall)
		v.dirty = true
	}
}

// Forget is Reset without the limit: nothing is known but the state itself.
func (st *State) Forget(now int64) {
	if !exists(st, now) {
		*st = State{Uses: st.Uses[:0]}
		return
	}
	if n := len(st.Uses); n > 0 {
		now = max(now, st.Uses[n-1].At)
	}
	st.forget(now, maxTick)
}

// forget leaves only that the state runs since after its last change, which may be ahead of now: a charge before is not
// given back. tick is at least that of a bucket, whose Stamp is exact to a tick.
func (st *State) forget(now, tick int64) bool {
	if st.Unit == 0 && st.Stamp == 0 && len(st.Uses) == 0 {
		return false // it is forgotten: to move Since on would forget what comes next, under a clock that stands
	}
	since := now + 1
	if st.Since > since {
		since = st.Since + 1
	}
	if st.Unit > 0 && st.Stamp >= now+tick {
		since = max(since, st.Stamp+tick)
	}
	since = min(since, Max)
	*st = State{Since: since, Expires: since}
	return true
}
