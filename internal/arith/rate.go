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

// NearRate is a rate close to n per span, not above it, that a bucket of burst tokens can hold.
func NearRate(burst, n, span int64) (Near, bool) {
	if burst > MaxBurst {
		return Near{}, false
	}
	// Coarser and coarser periods, whole seconds at last, whose Unit fits beside burst.
	for grain := int64(1); grain <= maxTick; grain *= 10 {
		s := ceilDiv(span, grain) * grain
		if _, ok := RateOf(burst, n, s); ok {
			return Near{n, s}, true
		}
	}
	// Fewer digits in the period: tokens per the longest period that fits, rounded down.
	for s := maxTick * max(1, maxCap/max(burst, 1)); s >= maxTick; s /= 2 {
		s -= s % maxTick
		hi, lo := bits.Mul64(uint64(n), uint64(s))
		if hi >= uint64(span) {
			continue
		}
		q, _ := bits.Div64(hi, lo, uint64(span))
		if q < 1 || q > Max {
			continue
		}
		if _, ok := RateOf(burst, int64(q), s); ok {
			return Near{int64(q), s}, true
		}
	}
	return Near{}, false
}
