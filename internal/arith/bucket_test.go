package arith

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// randomBucket has an exact rate; each tick is about as likely as another.
func randomBucket(r *rand.Rand) bucketLimit {
	spans := []int64{1000, second, 7 * second, minute, hour, day, 7 * day, 30 * day, year, 10 * year}
	want := int64(1)
	for range r.IntN(7) {
		want *= 10
	}
	for tries := 0; ; tries++ {
		b := bucketLimit{wide(r, 0, MaxBurst), wide(r, 1, Max), spans[r.IntN(len(spans))]}
		switch r.IntN(4) {
		case 0:
			b.burst, b.n = 1+r.Int64N(100), 1+r.Int64N(1000)
		case 1:
			b.span = wide(r, 1000, 10*year)
		case 2:
			b.burst, b.n = b.burst%1_000_000_000, b.n%1_000_000_000+1
		}
		if rate, ok := RateOf(b.burst, b.n, b.span); ok && (rate.Tick == want || tries > 200) {
			return b
		}
	}
}

// exact is a bucket without any rounding: its level is in units of 1/span token, in which all levels are whole numbers.
type exact struct {
	level *big.Int
	at    int64
	lim   bucketLimit
}

func (x *exact) units(tokens int64) *big.Int { return new(big.Int).Mul(num(tokens), num(x.lim.span)) }

func (x *exact) read(now int64) *big.Int {
	level := new(big.Int).Set(x.level)
	if now > x.at {
		level.Add(level, new(big.Int).Mul(num(now-x.at), num(x.lim.n)))
	}
	return least(level, x.units(x.lim.burst))
}

// TestBucketExact compares a row with two models over random decisions: with the written rules, which it must equal, and,
// as long as the limit stays, with a bucket of rational numbers, which it must never exceed, and trail by little.
func TestBucketExact(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	ticks := map[int64]int{}
	lag, most := new(big.Rat), new(big.Int)
	for range rounds(400) {
		s := bucketSession{t: t, r: r, now: start + r.Int64N(year)}
		if r.IntN(8) == 0 {
			s.now = maxNow - r.Int64N(year) // the numbers are greatest here
		}
		s.change(randomBucket(r))
		for range 1000 {
			s.step()
			ticks[s.lim.Tick]++
			if s.lag.Cmp(lag) > 0 {
				lag.Set(&s.lag)
			}
		}
		most = greatest(most, s.rules.most)
	}
	// A tick that has only begun, the rest of the tick in which a full bucket was written, and the same once more if it
	// was written again within a tick of being full.
	if lag.Cmp(big.NewRat(3, 1)) >= 0 {
		t.Errorf("late by %s ticks of refill", lag.FloatString(3))
	}
	if most.Cmp(num(Max)) > 0 {
		t.Errorf("a step came to %s, which is more than 2^53 − 1", most)
	}
	for tick := int64(1); tick <= maxTick; tick *= 10 {
		if ticks[tick] == 0 {
			t.Errorf("no decision with a tick of %d µs", tick)
		}
	}
	t.Logf("decisions by tick %v; late by at most %s ticks of refill; greatest number %s", ticks, lag.FloatString(3), most)
}

type bucketSession struct {
	t     *testing.T
	r     *rand.Rand
	now   int64
	b     bucketLimit
	lim   *Limit
	st    State
	rules written
	real  exact
	lag   big.Rat // how late the row was at most, in ticks of refill

	changed bool // the limit is not that of the last write
}

func (s *bucketSession) open() View {
	v, _ := Open(&s.st, s.lim, s.now)
	return v
}

// change goes over to another limit. What has flowed in since the last write does so at the new rate, so the rational
// bucket starts from what the row says as of that write.
func (s *bucketSession) change(b bucketLimit) {
	s.b, s.lim, s.changed = b, b.limit(s.t), true
	s.real = exact{lim: b}
	s.real.level = s.real.units(b.burst)
	if s.swept() || s.st.Unit == 0 {
		return
	}
	v, _ := Open(&s.st, s.lim, min(s.now, s.st.Stamp))
	s.real.level, s.real.at = s.units(v.level), s.st.Stamp
}

// swept removes a row that is over, and reports whether it was. The bucket is full then, also at a new rate.
func (s *bucketSession) swept() bool {
	if s.st.Unit == 0 || exists(&s.st, s.now) {
		return false
	}
	s.st, s.rules.level = State{}, nil
	return true
}

// units is a level of the row in those of the exact bucket.
func (s *bucketSession) units(level int64) *big.Int {
	return new(big.Int).Mul(num(level), num(s.b.span/s.lim.Unit))
}

func (s *bucketSession) step() {
	t, r := s.t, s.r
	s.tick()
	if r.IntN(100) == 0 {
		b := randomBucket(r)
		if r.IntN(2) == 0 { // the same bucket at a like rate or size
			b = bucketLimit{max(0, s.b.burst+int64(r.IntN(21)-10)), s.b.n, s.b.span}
			if _, ok := RateOf(b.burst, b.n, b.span); !ok {
				b = s.b
			}
		}
		s.change(b)
	}
	if old := s.st; s.swept() {
		if full := s.real.units(s.b.burst); !s.changed && s.real.read(s.now).Cmp(full) < 0 && old.Expires < old.Stamp+Century {
			t.Fatalf("%+v at %d: the row ended before the bucket was full", s.b, s.now)
		}
		s.change(s.b)
	}
	v, row := s.open(), s.rules.read(s.lim, s.now)
	if row.level.Cmp(num(v.level)) != 0 {
		t.Fatalf("%+v at %d: level %d, by the rules %s", s.b, s.now, v.level, row.level)
	}
	level := s.compareReal(&v)
	cost := s.cost(&v)
	fits := v.Fits(cost)
	if fits && s.real.units(cost).Cmp(level) > 0 {
		t.Fatalf("%+v at %d: %d passes, but there are %s/%d tokens", s.b, s.now, cost, level, s.b.span)
	}
	before := v.level
	switch {
	case r.IntN(12) == 0:
		s.refund(&v)
	case fits:
		v.Charge(cost)
		s.charged(cost)
	case r.IntN(20) == 0: // a debt
		v.Debit(cost)
		s.charged(cost)
	default:
		s.refused(&v, cost)
	}
	if v.Changed() {
		s.changed = false
		s.rules.write(s.lim, s.now, row, num(before), num(v.level))
	}
	s.compareAnswer(&v, cost)
}

// tick moves the clock, sometimes back.
func (s *bucketSession) tick() {
	r := s.r
	full := s.lim.Tick * min(maxNow/s.lim.Tick, ceilDiv(s.lim.Size*s.lim.Unit, s.lim.Gain)+1)
	var d int64
	switch r.IntN(8) {
	case 0:
	case 1:
		d = -r.Int64N(3 * second)
	case 2, 3:
		d = wide(r, 0, min(full, year))
	case 4:
		d = wide(r, 0, year)
	default:
		d = r.Int64N(3*s.lim.Tick + 1)
	}
	s.now = max(1, min(s.now+d, maxNow-maxTick)) // a tick is rounded up
}

func (s *bucketSession) cost(v *View) int64 {
	r, size := s.r, s.lim.Size
	switch level := max(0, floorDiv(v.level, s.lim.Unit)); r.IntN(8) {
	case 0:
		return wide(r, 1, Max)
	case 1:
		return 1
	case 2, 3:
		return max(1, level)
	case 4:
		return min(level+1, Max)
	case 5:
		return max(1, size)
	default:
		return wide(r, 1, max(1, size))
	}
}

func (s *bucketSession) charged(cost int64) {
	s.real.level = s.real.read(s.now)
	s.real.level.Sub(s.real.level, s.real.units(cost))
	s.real.at = max(s.real.at, s.now)
	if s.st.Level == s.lim.Size*s.lim.Unit-Max { // a debt stops there, as of the row's tick
		s.real.level, s.real.at = s.units(s.st.Level), s.st.Stamp
	}
}

func (s *bucketSession) refund(v *View) {
	n := wide(s.r, 1, max(1, s.lim.Size))
	given := v.Refund(n, s.now)
	if given < 0 || given > n {
		s.t.Fatalf("%+v: %d of %d given back", s.b, given, n)
	}
	if v.Changed() {
		s.real.level = s.real.read(s.now)
		s.real.level.Add(s.real.level, s.real.units(n))
		behind := s.now < s.real.at
		s.real.at = max(s.real.at, s.now)
		s.real.level = s.real.read(s.real.at)
		if behind && s.real.level.Cmp(s.real.units(s.lim.Size)) == 0 {
			// The row knows its last change to a tick only. What flows in during that tick counts, although this refund by
			// a clock that is behind has filled the bucket: less than a tick's refill, each time.
			s.real.at = min(s.real.at, s.st.Stamp)
		}
	}
}

// compareReal checks the level against the exact bucket's, which it answers.
func (s *bucketSession) compareReal(v *View) *big.Int {
	want, got := s.real.read(s.now), s.units(v.level)
	late := new(big.Int).Sub(want, got)
	if late.Sign() < 0 {
		s.t.Fatalf("%+v tick %d at %d: level %s, exactly %s", s.b, s.lim.Tick, s.now, got, want)
	}
	if ticks := new(big.Rat).SetFrac(late, s.units(s.lim.Gain)); ticks.Cmp(&s.lag) > 0 {
		s.lag.Set(ticks)
	}
	return want
}

// refused checks that waiting as long as told is enough, and that a microsecond less is not.
func (s *bucketSession) refused(v *View, cost int64) {
	t := s.t
	a := v.Answer(cost, false)
	if a.Never != (cost > s.lim.Size) || a.RetryAfter < 1 || a.RetryAfter > Century {
		t.Fatalf("%+v: cost %d: %+v", s.b, cost, a)
	}
	if a.Never || a.RetryAfter == Century {
		return
	}
	later := s.st
	if v, _ := Open(&later, s.lim, s.now+a.RetryAfter); !v.Fits(cost) {
		t.Fatalf("%+v at %d: %d does not pass after %d µs", s.b, s.now, cost, a.RetryAfter)
	}
	if v, _ := Open(&later, s.lim, s.now+a.RetryAfter-1); v.Fits(cost) {
		t.Fatalf("%+v at %d: %d passes before %d µs are over", s.b, s.now, cost, a.RetryAfter)
	}
	at := s.rules.at(s.lim, s.rules.read(s.lim, s.now), new(big.Int).Mul(num(cost), num(s.lim.Unit)))
	at = least(least(at, num(s.now+Century)), num(s.st.Expires)) // a row written at a higher rate ends when it is full by that
	if want := at.Sub(at, num(s.now)); want.Cmp(num(a.RetryAfter)) != 0 {
		t.Fatalf("%+v at %d: %d passes after %d µs, by the rules %s", s.b, s.now, cost, a.RetryAfter, want)
	}
}

func (s *bucketSession) compareAnswer(v *View, cost int64) {
	t := s.t
	a := v.Answer(cost, true)
	missing := s.lim.Size*s.lim.Unit - v.level
	if want := min(ceilDiv(missing, s.lim.Unit), Max); a.Used != want || a.RetryAfter != 0 {
		t.Fatalf("%+v: level %d: %+v", s.b, v.level, a)
	}
	if (a.ResetAt == s.now) != (missing == 0) {
		t.Fatalf("%+v at %d: level %d is full at %d", s.b, s.now, v.level, a.ResetAt)
	}
	if missing == 0 || a.ResetAt >= s.now+Century {
		return
	}
	later := s.st
	if v, _ := Open(&later, s.lim, a.ResetAt); v.Used() != 0 || v.ResetAt() != a.ResetAt {
		t.Fatalf("%+v: not full at %d", s.b, a.ResetAt)
	}
	if v, _ := Open(&later, s.lim, a.ResetAt-1); v.level >= s.lim.Size*s.lim.Unit {
		t.Fatalf("%+v: full before %d", s.b, a.ResetAt)
	}
}
