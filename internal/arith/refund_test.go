package arith

import "testing"

// The rules of give-backs, for each kind. Times are microseconds after start.

func kinds(t *testing.T) map[string]Limit {
	return map[string]Limit{
		"bucket":        *bucketLimit{10, 1, 100}.limit(t),
		"coarse bucket": *bucketLimit{100_000_000_000, 1_000_003, 7 * second}.limit(t), // its tick is more than 1 µs
		"window":        {Kind: Window, Size: 10, Span: 1000},
		"counter":       {Kind: Counter, Size: 10, Span: 1000},
		"budget":        {Kind: Budget, Size: 10, Bounds: [4]int64{start - 1000, start, start + 1000, start + 2000}},
	}
}

type script struct {
	t   *testing.T
	lim Limit
	st  State
}

func (s *script) at(now int64) View {
	v, ok := Open(&s.st, &s.lim, start+now)
	if !ok {
		s.t.Fatalf("no view at %d", now)
	}
	return v
}

func (s *script) take(now, cost int64) {
	s.t.Helper()
	v := s.at(now)
	if !v.Fits(cost) {
		s.t.Fatalf("at %d: take %d is refused", now, cost)
	}
	v.Charge(cost)
}

func (s *script) refund(now, n, at, given int64) {
	s.t.Helper()
	v := s.at(now)
	if got := v.Refund(n, start+at); got != given {
		s.t.Errorf("at %d: refund %d of %d: given %d, want %d; %+v", now, n, at, got, given, s.st)
	}
}

func (s *script) reset(now int64) {
	s.t.Helper()
	v := s.at(now)
	if v.Reset(); v.Used() != 0 {
		s.t.Errorf("at %d: %d used after a reset", now, v.Used())
	}
}

func (s *script) used(now, used int64) {
	s.t.Helper()
	if v := s.at(now); v.Used() != used {
		s.t.Errorf("at %d: %d used, want %d", now, v.Used(), used)
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	for name, lim := range kinds(t) {
		for what, run := range map[string]func(s *script){
			"under a clock that stands": func(s *script) {
				s.take(0, 5)
				s.refund(0, 2, 0, 2)
				s.used(0, 3)
				s.refund(0, 0, 0, 0)
				s.refund(0, 9, 0, 3) // no more than was charged
				s.used(0, 0)
				s.refund(0, 1, 0, 0)
			},
			"of a time before the state": func(s *script) {
				s.take(0, 5)
				s.refund(0, 2, -1, 0)
				s.used(0, 5)
			},
			"of nothing": func(s *script) {
				s.refund(0, 1, 0, 0)
				s.used(0, 0)
				if s.st.Expires != 0 {
					s.t.Errorf("it left %+v", s.st)
				}
			},
			"after a reset, under a clock that stands": func(s *script) {
				s.take(0, 5)
				s.reset(0)
				s.take(0, 3)
				s.refund(0, 1, 0, 0)
				s.used(0, 3)
			},
			"after a reset, of a later charge": func(s *script) {
				s.take(0, 5)
				s.reset(0)
				s.take(1, 3)
				s.refund(1, 1, 0, 0)
				s.refund(1, 1, 1, 1)
				s.used(1, 2)
			},
			"after resets, under a clock that stands, of a later charge": func(s *script) {
				s.take(0, 5)
				s.reset(0)
				s.reset(0)
				s.take(0, 5)
				s.reset(0)
				if s.st.Since > start+2 {
					s.t.Errorf("resets at 0 leave since %d", s.st.Since-start)
				}
				s.take(2, 3)
				s.refund(2, 1, 2, 1)
				s.used(2, 2)
			},
			"after a reset by a clock that is behind": func(s *script) {
				s.take(0, 5)
				s.reset(-900)
				s.take(-900, 3)
				s.refund(-900, 1, 0, 0)
				s.refund(0, 1, 0, 0)
				s.take(2, 1)
				s.refund(2, 1, 0, 0)
			},
			"after Forget, under a clock that stands": func(s *script) {
				s.take(0, 5)
				s.st.Forget(start)
				s.used(0, 0)
				s.take(0, 3)
				s.refund(0, 1, 0, 0)
				s.take(1, 1)
				s.refund(1, 9, 0, 0)
			},
			"after Forget, of a later charge": func(s *script) {
				s.take(0, 5)
				s.st.Forget(start)
				s.st.Forget(start)
				s.take(1, 3)
				s.refund(1, 1, 1, 1)
				s.used(1, 2)
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) { run(&script{t: t, lim: lim}) })
		}
	}
}

func TestRefundBucket(t *testing.T) {
	t.Parallel()
	s := script{t: t, lim: kinds(t)["bucket"]}
	s.take(0, 2)
	s.refund(100, 5, 0, 1) // capped at burst
	s.used(100, 0)
	s.take(150, 4)
	s.refund(150, 1, 0, 0) // it was full since
	s.refund(150, 1, 149, 0)
	s.refund(250, 1, 150, 1)
	s.used(250, 2)
	s.take(500, 1) // full since 450
	s.refund(500, 1, 250, 0)
	s.refund(550, 1, 500, 0) // half a token is missing: nothing whole goes back
	s.used(550, 0)
	s.take(600, 1)
	s.refund(600, 1, 600, 1)

	s.take(1000, 10)
	s.lim = *bucketLimit{10, 10, 1}.limit(t)
	s.take(1050, 1) // at this rate it was full since, though the row is not over
	s.lim = kinds(t)["bucket"]
	s.refund(1050, 1, 1000, 0)
	s.refund(1050, 1, 1050, 1)
}

func TestRefundWindow(t *testing.T) {
	t.Parallel()
	s := script{t: t, lim: kinds(t)["window"]}
	s.take(0, 2)
	s.take(10, 3)
	s.refund(20, 9, 1, 3) // the first use at or after that time
	s.used(20, 2)
	s.take(30, 1)
	s.refund(30, 9, 0, 2) // that one only
	s.used(30, 1)
	s.refund(1000, 1, 0, 0) // over, though a later use is not
	s.used(1000, 1)
	s.refund(1029, 1, 30, 1)
	s.used(1029, 0)

	// A unit given back is not counted again when it expires.
	s = script{t: t, lim: Limit{Kind: Window, Size: 5, Span: second}}
	s.take(0, 1)
	s.refund(100_000, 1, 0, 1)
	s.used(1_500_000, 0)

	// A use of another window is another charge's.
	s = script{t: t, lim: Limit{Kind: Window, Size: 5, Span: 1000}}
	s.take(0, 1)
	s.lim.Span = 2000
	s.refund(1, 1, 0, 0)
	s.take(2, 1)
	s.refund(3, 5, 0, 1)
	s.used(3, 1)
	s.lim.Span = 1000
	s.refund(3, 5, 0, 1)
	s.used(3, 0)
}

func TestRefundCount(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"counter", "budget"} {
		s := script{t: t, lim: kinds(t)[name]}
		s.take(0, 1)
		s.take(999, 1)
		s.lim.Bounds = [4]int64{start, start + 1000, start + 2000, start + 3000}
		s.take(1001, 1)
		s.refund(1002, 1, 999, 0) // the window is over, the period has turned
		s.used(1002, 1)
		s.refund(1002, 7, 1001, 1) // down to 0
		s.used(1002, 0)
	}
	s := script{t: t, lim: Limit{Kind: Counter, Size: 10, Span: 1000}}
	v := s.at(0)
	v.Hit(-4)
	s.refund(0, 2, 0, 0) // never raised
	s.used(0, -4)
}

// TestResetCoarse: the last change of a bucket with a coarse tick may be up to a tick after its stamp.
func TestResetCoarse(t *testing.T) {
	t.Parallel()
	s := script{t: t, lim: kinds(t)["coarse bucket"]}
	tick := s.lim.Tick
	if tick < 1000 {
		t.Fatalf("a tick of %d µs", tick)
	}
	s.take(0, 5_000_000_000)
	s.take(5*tick-1, 1) // its stamp is that of 4 ticks
	s.reset(-10 * tick) // by a clock that is behind
	s.take(-10*tick, 1)
	s.refund(-10*tick, 1, 5*tick-1, 0)
	s.take(5*tick, 1)
	s.refund(5*tick, 1, 5*tick-1, 0)
	s.refund(5*tick, 1, 5*tick, 1)
}

func TestResetMissing(t *testing.T) {
	t.Parallel()
	for name, lim := range kinds(t) {
		var st State
		v, _ := Open(&st, &lim, start)
		if v.Reset(); v.Changed() || st.Expires != 0 {
			t.Errorf("%s: a reset of nothing leaves %+v", name, st)
		}
		v.Charge(1)
		if v.Reset(); !v.Changed() || st.Expires != start+1 || st.Since != start+1 {
			t.Errorf("%s: a reset leaves %+v", name, st)
		}
		if again := st; true {
			v, _ = Open(&st, &lim, start)
			v.Reset()
			if st.Since != again.Since || v.Changed() {
				t.Errorf("%s: a second reset leaves %+v", name, st)
			}
		}
	}
}

// What was charged by a clock that is behind goes back under the time that ChargedAt says.
func TestChargedAt(t *testing.T) {
	t.Parallel()
	for _, lim := range []Limit{
		{Kind: Counter, Size: 10, Span: 1000}, {Kind: Window, Size: 10, Span: 1000},
		{Kind: Bucket, Size: 10, Span: 1e12, Rate: Rate{Gain: 1, Unit: 1e12, Tick: 1}},
	} {
		var st State
		for _, now := range []int64{100, 90, 95, 100} {
			v, _ := Open(&st, &lim, now)
			v.Charge(2)
			if at := v.ChargedAt(); at != 100 {
				t.Errorf("kind %d, charged at %d: %d, not 100", lim.Kind, now, at)
			}
		}
		v, _ := Open(&st, &lim, 110)
		if given := v.Refund(6, 100); given != 6 {
			t.Errorf("kind %d: %d given back of 6", lim.Kind, given)
		}
	}
}
