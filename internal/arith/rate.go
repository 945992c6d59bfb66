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

// NearRate is a rate close to n per span, not above it, that works with a bucket of burst tokens: the same tokens in a
// period with fewer digits, if that loses less than a thousandth, or else the greatest rate that works. It reports false if
// even the slowest rate that works is above n per span; a smaller burst has a slower one, see BurstFor.
func NearRate(burst, n, span int64) (Near, bool) {
	if burst > MaxBurst {
		return Near{}, false
	}
	for grain := int64(10); grain <= maxTick; grain *= 10 {
		s := ceilDiv(span, grain) * grain
		if s-span > span/1000 {
			break
		}
		if _, ok := RateOf(burst, n, s); ok {
			return Near{n, s}, true
		}
	}
	// A longer tick can express what a shorter one can, unless it gains more than Max.
	for tick := int64(maxTick); tick >= 1; tick /= 10 {
		most := min(maxCap/max(burst, 1), longest/tick)
		if gain, unit := fraction(n, tick, span, most); gain > 0 {
			k := ceilDiv(minSpan, unit*tick)
			near := Near{gain * k, unit * tick * k}
			if _, ok := RateOf(burst, near.N, near.Span); ok && near.N <= Max {
				return near, true
			}
		}
	}
	return Near{}, false
}

// fraction is the greatest p / q not above n × tick / span with p ≤ Max and q ≤ most, by walking down the tree of Stern and
// Brocot: any fraction between two neighbours of it has at least the sums of their terms.
func fraction(n, tick, span, most int64) (p, q int64) {
	above := func(p, q int64) bool {
		h1, l1 := bits.Mul64(uint64(p), uint64(span))
		h2, l2 := bits.Mul64(uint64(q*tick), uint64(n))
		return h1 > h2 || h1 == h2 && l1 > l2
	}
	p, q = 0, 1
	topP, topQ := int64(1), int64(0)
	for p+topP <= Max && q+topQ <= most {
		k := (Max - p) / topP
		if topQ > 0 {
			k = min(k, (most-q)/topQ)
		}
		k = last(k, func(k int64) bool { return !above(p+k*topP, q+k*topQ) })
		p, q = p+k*topP, q+k*topQ
		k = last(min((Max-topP)/max(p, 1), (most-topQ)/q), func(k int64) bool { return above(topP+k*p, topQ+k*q) })
		topP, topQ = topP+k*p, topQ+k*q
	}
	return p, q
}

// last is the greatest k from 0 to n for which ok holds, as it does for all before.
func last(n int64, ok func(k int64) bool) (k int64) {
	for k < n {
		if mid := k + (n-k+1)/2; ok(mid) {
			k = mid
		} else {
			n = mid - 1
		}
	}
	return k
}

// minSpan is the shortest period of a rate: a millisecond.
const minSpan = 1000

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
