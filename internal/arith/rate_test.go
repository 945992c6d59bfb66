package arith

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// per is a rate in tokens per microsecond.
func per(n, span int64) *big.Rat { return big.NewRat(n, span) }

func randomRate(r *rand.Rand) (burst, n, span int64) {
	burst, n, span = wide(r, 0, Max), wide(r, 1, Max), wide(r, 1000, 10*year)
	switch r.IntN(4) {
	case 0:
		span -= span % second // whole seconds
	case 1:
		span = []int64{second, minute, hour, day, 7 * day, 30 * day, year}[r.IntN(7)]
	case 2:
		burst = wide(r, 1<<40, MaxBurst)
	}
	return burst, n, max(1000, span)
}

func TestRateOf(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 20))
	for range rounds(40_000) {
		burst, n, span := randomRate(r)
		rate, ok := RateOf(burst, n, span)
		// The first tick, in big numbers.
		var want *Rate
		for tick := int64(1); tick <= maxTick && want == nil; tick *= 10 {
			units := new(big.Rat).Mul(per(n, span), new(big.Rat).SetInt64(tick))
			full := new(big.Int).Mul(units.Denom(), num(burst))
			if units.Num().Cmp(num(Max)) <= 0 && full.Cmp(num(maxCap)) <= 0 && units.Denom().Cmp(num(maxCap)) <= 0 {
				want = &Rate{units.Num().Int64(), units.Denom().Int64(), tick}
			}
		}
		if ok != (want != nil) || ok && rate != *want {
			t.Fatalf("%d, %d per %d: %+v, %v; want %+v", burst, n, span, rate, ok, want)
		}
		if ok && !rate.Valid(burst) {
			t.Fatalf("%d, %d per %d: %+v is not valid", burst, n, span, rate)
		}
	}
}

func TestRateValid(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rate  Rate
		burst int64
		valid bool
	}{
		{Rate{1, 1, 1}, maxCap, true},
		{Rate{1, 1, 1}, maxCap + 1, false},
		{Rate{1, 2, 1}, maxCap / 2, true},
		{Rate{1, 2, 1}, maxCap/2 + 1, false},
		{Rate{Max, maxCap, maxTick}, 1, true},
		{Rate{Max + 1, 1, 1}, 1, false},
		{Rate{1, maxCap + 1, 1}, 0, false},
		{Rate{1, 1, 1000}, 1, true},
		{Rate{1, 1, 2}, 1, false},
		{Rate{1, 1, 10_000_000}, 1, false},
		{Rate{0, 1, 1}, 1, false},
		{Rate{1, 0, 1}, 1, false},
		{Rate{1, 1, 0}, 1, false},
		{Rate{}, 0, false},
	} {
		if got := tc.rate.Valid(tc.burst); got != tc.valid {
			t.Errorf("%+v with burst %d: %v", tc.rate, tc.burst, got)
		}
	}
}

// TestNearRate: what is named works, is not above what was asked, and loses less than a thousandth or as little as can be.
func TestNearRate(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 22))
	named, none := 0, 0
	for range rounds(60_000) {
		burst, n, span := randomRate(r)
		if _, ok := RateOf(burst, n, span); ok || burst > MaxBurst {
			continue
		}
		near, ok := NearRate(burst, n, span)
		asked := per(n, span)
		if ok {
			named++
			rate, works := RateOf(burst, near.N, near.Span)
			if !works || !rate.Valid(burst) || near.N < 1 || near.N > Max || near.Span < 1000 || near.Span > 10*year {
				t.Fatalf("%d, %d per %d: %+v does not work", burst, n, span, near)
			}
			if per(near.N, near.Span).Cmp(asked) > 0 {
				t.Fatalf("%d, %d per %d: %+v is above it", burst, n, span, near)
			}
			if lost := new(big.Rat).Sub(asked, per(near.N, near.Span)); lost.Cmp(new(big.Rat).Mul(asked, big.NewRat(1, 1000))) <= 0 {
				continue
			}
		} else {
			none++
		}
		// No rate of a second's tick may be nearer; all of them, or many.
		most := min(maxCap/max(burst, 1), longest/maxTick)
		for i := range min(most, 300) {
			unit := i + 1
			if most > 300 {
				unit = 1 + r.Int64N(most)
			}
			gain := new(big.Int).Mul(num(n), num(unit*maxTick))
			if gain.Div(gain, num(span)); gain.Sign() > 0 && gain.Cmp(num(Max)) <= 0 && (!ok || per(gain.Int64(), unit*maxTick).Cmp(per(near.N, near.Span)) > 0) {
				t.Fatalf("%d, %d per %d: %+v, %v; %d per %d is nearer", burst, n, span, near, ok, gain, unit*maxTick)
			}
		}
	}
	if named < rounds(1000) || none < rounds(100) {
		t.Errorf("%d rates named, %d times none", named, none)
	}
}

func TestNearRateNice(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ burst, n, span, wantN, wantSpan int64 }{
		{1 << 40, 7, hour + 1, 3, 1543 * second},
		{1 << 35, 7, hour + 1, 7, hour + 100_000},
		{1 << 35, 1_000_003, day + 123_457, 11_794, 1019 * second},
		{1 << 50, 7, 1001, 6993, second},
		{1 << 50, 100_001, 60_000_000, 1666, second},
		{MaxBurst, 1000, 1001, 999_000, second},
	} {
		near, ok := NearRate(tc.burst, tc.n, tc.span)
		if want := (Near{tc.wantN, tc.wantSpan}); !ok || near != want {
			t.Errorf("%d, %d per %d: %+v, %v; want %+v", tc.burst, tc.n, tc.span, near, ok, want)
		}
	}
}

func TestBurstFor(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(23, 24))
	for range rounds(50_000) {
		_, n, span := randomRate(r)
		burst := BurstFor(n, span)
		if _, ok := RateOf(burst, n, span); !ok && burst > 0 {
			t.Fatalf("%d per %d does not work with burst %d", n, span, burst)
		}
		if _, ok := RateOf(burst+1, n, span); ok {
			t.Fatalf("%d per %d works with burst %d too", n, span, burst+1)
		}
	}
}
