package arith

import "math/bits"

// CanBeQuick reports whether TakeQuick serves a bucket of this rate.
func (r Rate) CanBeQuick() bool { return r.Tick == 1 }

// TakeQuick is Open, Fits, Charge and Answer in one, for a bucket of size tokens that exists at now, whose rate CanBeQuick
// and whose State is in the rate's Unit. cost is from 1 to size. It answers the State as it is then, and the Answer; all of
// them in registers, as each trip through memory costs as much as the arithmetic.
func TakeQuick(level, stamp, since, expires, size, gain, unit, now, cost int64) (
	toLevel, toStamp, toSince, toExpires, used, retryAfter, resetAt int64, allowed bool,
) {
	full := size * unit
	have := min(max(level, full-Max), full)
	if passed := now - stamp; passed > 0 {
		if hi, gained := bits.Mul64(uint64(passed), uint64(gain)); hi != 0 || gained >= uint64(full-have) {
			have = full
		} else {
			have += int64(gained)
		}
	}
	base := max(now, stamp)
	units := cost * unit
	if have < units {
		resetAt = min(max(min(base+quickTicks(full-have, gain), expires), now), now+Century)
		retryAfter = min(max(min(base+quickTicks(units-have, gain), expires)-now, 1), Century)
		return level, stamp, since, expires, min(size-floorDiv(have, unit), Max), retryAfter, resetAt, false
	}
	if have == full {
		since = max(now, since)
	}
	have -= units
	expires = min(base+quickTicks(full-have, gain), now+Century)
	used = size - int64(uint64(have)/uint64(unit)) // what passed leaves no debt
	return have, base, since, expires, used, 0, max(expires, now), true
}

func quickTicks(units, gain int64) int64 {
	if gain > 1 {
		units = ceilDiv(units, gain)
	}
	return min(units, Century)
}
