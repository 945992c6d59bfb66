package arith

import "math/bits"

// Rate is a rate in exact integers: Gain units of 1/Unit token each Tick microseconds.
type Rate struct{ Gain, Unit, Tick int64 }

// maxCap bounds burst × Unit, so that a level, a debt and their difference all stay within Max.
const maxCap = 1<<51 - 1

// maxTick is one second.
const maxTick = 1_000_000

// RateOf is the rate of n tokens per span microseconds for a bucket of burst tokens; ok is false if no tick up to a second
// can express it exactly. n and span are positive.
func RateOf(burst, n, span int64) (r Rate, ok bool) {
	g := gcd(n, span)
	n, span = n/g, span/g
	for tick := int64(1); tick <= maxTick; tick *= 10 {
		g := gcd(tick, span)
		unit := span / g
		hi, gain := bits.Mul64(uint64(n), uint64(tick/g))
		if hi != 0 || gain > Max {
			break // and every longer tick gains more
		}
		hi, full := bits.Mul64(uint64(burst), uint64(unit))
		if hi == 0 && full <= maxCap && unit <= maxCap {
			return Rate{int64(gain), unit, tick}, true
		}
	}
	return Rate{}, false
}

// Valid reports whether r can serve a bucket of burst tokens.
func (r Rate) Valid(burst int64) bool {
	if r.Gain < 1 || r.Gain > Max || r.Unit < 1 || r.Unit > maxCap || burst > maxCap/r.Unit {
		return false
	}
	for tick := int64(1); tick <= maxTick; tick *= 10 {
		if r.Tick == tick {
			return true
		}
	}
	return false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// MaxBurst is the greatest burst that any rate works with.
const MaxBurst = maxCap

// Near is a rate of N tokens each Span microseconds.
type Near struct{ N, Span int64 }

// longest is the longest period of a rate: ten years of 365.25 days.
const longest = Century / 10

// NearRate is a rate close to n per span, not above it, that works with a bucket of burst tokens: less than one token in
// the longest period that works is lost, or a thousandth of the rate. It reports false if even the slowest rate that works
// is above it; with a smaller burst there is a slower one, see BurstFor.
func NearRate(burst, n, span int64) (Near, bool) {
	if burst > MaxBurst {
		return Near{}, false
	}
	// The same tokens in a period that has fewer digits, if that is hardly longer.
	for grain := int64(10); grain <= maxTick; grain *= 10 {
		s := ceilDiv(span, grain) * grain
		if s-span > span/1000 {
			break
		}
		if _, ok := RateOf(burst, n, s); ok {
			return Near{n, s}, true
		}
	}
	// As many tokens as go into the longest period that works: so many of the longest tick that such a rate allows.
	most := maxCap / max(burst, 1)
	for tick := int64(maxTick); tick >= 1; tick /= 10 {
		for unit := min(most, longest/tick); unit >= 1; unit /= 2 {
			tokens, ok := mulDiv(n, unit*tick, span)
			if !ok || tokens < 1 {
				continue
			}
			g := gcd(tokens, unit)
			near := Near{tokens / g, unit / g * tick}
			if near.Span < minSpan {
				k := ceilDiv(minSpan, near.Span)
				near = Near{near.N * k, near.Span * k}
			}
			if _, ok := RateOf(burst, near.N, near.Span); ok && near.N <= Max {
				return near, true
			}
		}
	}
	return Near{}, false
}

// minSpan is the shortest period of a rate: a millisecond.
const minSpan = 1000

// mulDiv is ⌊a × b / c⌋; ok is false if that is above Max.
func mulDiv(a, b, c int64) (q int64, ok bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 0, false
	}
	n, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(n, Max+1)), n <= Max
}

// BurstFor is the greatest burst that works with a rate of n per span exactly, or 0.
func BurstFor(n, span int64) (burst int64) {
	g := gcd(n, span)
	n, span = n/g, span/g
	for tick := int64(1); tick <= maxTick; tick *= 10 {
		g := gcd(tick, span)
		if hi, gain := bits.Mul64(uint64(n), uint64(tick/g)); hi == 0 && gain <= Max {
			burst = max(burst, maxCap/(span/g))
		}
	}
	return burst
}
