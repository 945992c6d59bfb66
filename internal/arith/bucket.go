package arith

import "math/bits"

// A bucket keeps its level in units of 1/Unit token, so that a refill is a multiplication: Gain units each Tick. The
// level was right at Stamp; whole ticks count. Unknown and expired buckets are full.

func (v *View) cap() int64 { return v.lim.Size * v.lim.Unit }

// floor is the lowest level: a debt stops there.
func (v *View) floor() int64 { return v.cap() - Max }

func (v *View) openBucket() {
	full := v.cap()
	v.level = full
	tick := v.now
	if v.lim.Tick > 1 {
		tick = v.now / v.lim.Tick
	}
	v.base = tick
	if !exists(v.st, v.now) || v.st.Unit == 0 {
		return
	}
	level := v.st.Level
	if v.st.Unit != v.lim.Unit {
		tokens := floorDiv(level, v.st.Unit)
		switch {
		case tokens >= v.lim.Size:
			level = full
		case tokens <= floorDiv(v.floor(), v.lim.Unit):
			level = v.floor()
		default:
			level = tokens * v.lim.Unit
		}
	}
	level = min(max(level, v.floor()), full)
	stamp := v.st.Stamp
	if v.lim.Tick > 1 {
		stamp = ceilDiv(v.st.Stamp, v.lim.Tick)
	}
	v.base = max(tick, stamp)
	if passed := tick - stamp; passed > 0 {
		// A multiplication of two words costs a fraction of a division.
		missing := full - level
		if hi, gained := bits.Mul64(uint64(passed), uint64(v.lim.Gain)); hi != 0 || gained >= uint64(missing) {
			level = full
		} else {
			level += int64(gained)
		}
	}
	v.level, v.open = level, level < full
}

func (v *View) chargeBucket(cost int64) {
	v.writeBucket(max(v.level-cost*v.lim.Unit, v.floor()), v.level)
}

func (v *View) refundBucket(n int64) (given int64) {
	full := v.cap()
	if v.level >= full {
		return 0
	}
	missing := full - v.level
	if n <= missing/v.lim.Unit {
		v.writeBucket(v.level+n*v.lim.Unit, v.level+n*v.lim.Unit)
		return n
	}
	given = missing / v.lim.Unit
	v.writeBucket(full, full)
	return given
}

// writeBucket sets the level. top is the higher of the levels before and after: if a tick's refill on it would have
// reached the brim, the part of the tick that is gone must not be counted later.
func (v *View) writeBucket(level, top int64) {
	lim, st := v.lim, v.st
	v.dirty = true
	full := v.cap()
	if !exists(st, v.now) {
		*st = State{Since: v.now}
	} else if !v.open {
		st.Since = max(v.now, st.Since)
	}
	stamp := v.now
	if lim.Tick > 1 {
		stamp -= v.now % lim.Tick
		if stamp < v.now && top >= full-lim.Gain {
			stamp += lim.Tick
		}
	}
	st.Stamp = max(st.Stamp, stamp)
	st.Level, st.Unit = level, lim.Unit
	v.level, v.open = level, level < full
	if v.base = max(v.now, st.Stamp); lim.Tick > 1 {
		v.base = max(v.now/lim.Tick, ceilDiv(st.Stamp, lim.Tick))
	}
	st.Expires = min(v.refilledAt(full), v.now+Century)
}

// refilledAt is when the level will have reached level.
func (v *View) refilledAt(level int64) int64 {
	return (v.base + v.ticks(level-v.level)) * v.lim.Tick
}

// passesAt is when the level will be at least level, which it is not now: also if the row ends before, as one does that was
// written at a higher rate and would be full by that.
func (v *View) passesAt(level int64) int64 { return min(v.refilledAt(level), v.st.Expires) }

// ticks is how many ticks it takes to gain so many units: a century's at most, so that they can be multiplied.
func (v *View) ticks(units int64) int64 {
	if v.lim.Gain > 1 {
		units = ceilDiv(units, v.lim.Gain)
	}
	if v.lim.Tick == 1 {
		return min(units, Century)
	}
	return min(units, Century/v.lim.Tick)
}
