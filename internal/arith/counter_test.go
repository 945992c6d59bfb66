package arith

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// counted is a counter or a budget as the rules describe it.
type counted struct {
	open          bool
	n, end, since int64
}

// at is the row as of now: what ended is over, unless the clock goes back, and then only until something is written.
func (c counted) at(now int64) counted {
	if c.open && c.end <= now || !c.open && c.since <= now {
		return counted{}
	}
	return c
}

func (c *counted) add(n, now, end int64) {
	*c = c.at(now)
	if !c.open {
		*c = counted{open: true, end: end, since: max(now, c.since)}
	}
	c.n += n
}

func (c *counted) refund(n, at, now int64) (given int64) {
	if row := c.at(now); row.open && row.since <= at && row.n > 0 {
		given = min(n, row.n)
		c.n -= given
	}
	return given
}

// reset keeps only what a clock that stands, or runs back, needs.
func (c *counted) reset(now int64) {
	if c.at(now).open {
		since := now + 1
		if c.since > since {
			since = c.since + 1
		}
		*c = counted{since: since}
	}
}

func TestCounter(t *testing.T) {
	t.Parallel()
	countTest(t, Counter)
}

func TestBudget(t *testing.T) {
	t.Parallel()
	countTest(t, Budget)
}

func countTest(t *testing.T, kind Kind) {
	r := rand.New(rand.NewPCG(13, uint64(kind)))
	starts := []int64{start - 10_000}
	for len(starts) < rounds(200_000) {
		starts = append(starts, starts[len(starts)-1]+1+r.Int64N(2000))
	}
	s := countSession{t: t, r: r, now: start, starts: starts, lim: Limit{Kind: kind, Size: 10, Span: 1000}}
	for range rounds(200_000) {
		switch s.now += r.Int64N(100); r.IntN(40) {
		case 0:
			s.now -= r.Int64N(1500)
		case 1:
			s.now += r.Int64N(5000)
		case 2:
			s.lim.Size, s.lim.Span = r.Int64N(20), 1000+r.Int64N(1000)
		case 3:
			s.lim.Size = Max - r.Int64N(5)
		}
		s.step()
	}
}

type countSession struct {
	t      *testing.T
	r      *rand.Rand
	now    int64
	starts []int64 // of the budget's periods
	lim    Limit
	st     State
	model  counted
}

// end is where a window that opens now ends, or the period of now.
func (s *countSession) end() int64 {
	if s.lim.Kind == Counter {
		return s.now + s.lim.Span
	}
	i, found := slices.BinarySearch(s.starts, s.now)
	if found {
		i++
	}
	// The caller's clock may be in the period before or after.
	c := i - 1 + s.r.IntN(3)
	copy(s.lim.Bounds[:], s.starts[c-2:c+2])
	return s.starts[i]
}

func (s *countSession) step() {
	t, r := s.t, s.r
	end := s.end()
	v, ok := Open(&s.st, &s.lim, s.now)
	if !ok {
		t.Fatalf("%v do not hold at %d", s.lim.Bounds, s.now)
	}
	row, size := s.model.at(s.now), s.lim.Size
	if row.open {
		end = row.end
	}
	cost := 1 + r.Int64N(6)
	if r.IntN(30) == 0 {
		cost = wide(r, 1, Max)
	}
	if fits := cost <= size && row.n+cost <= size; v.Fits(cost) != fits || v.Fits(0) != (row.n <= size) {
		t.Fatalf("at %d: %d of %d used; cost %d passes: %v", s.now, row.n, size, cost, !fits)
	}
	if times := r.Int64N(9); v.FitsTimes(cost, times) != max(0, min(times, (size-row.n)/cost)) && cost <= size {
		t.Fatalf("%d of %d used; %d times %d: %d", row.n, size, times, cost, v.FitsTimes(cost, times))
	}
	switch r.IntN(12) {
	case 0:
		at := s.now - r.Int64N(2000)
		if r.IntN(2) == 0 {
			at = s.model.since - 1 + r.Int64N(3)
		}
		if given, want := v.Refund(cost, at), s.model.refund(cost, at, s.now); given != want {
			t.Fatalf("at %d: refund %d of %d: %d, want %d; %+v", s.now, cost, at, given, want, s.model)
		}
	case 1:
		v.Reset()
		s.model.reset(s.now)
	case 2:
		if s.lim.Kind == Counter {
			if r.IntN(2) == 0 {
				cost = -cost
			}
			if r.IntN(8) == 0 {
				cost = 0
			}
			sum := row.n + cost
			if ok := v.Hit(cost); ok != (sum <= Max && sum >= -Max) {
				t.Fatalf("%d and a hit of %d: %v", row.n, cost, ok)
			} else if ok && cost != 0 {
				s.model.add(cost, s.now, end)
			}
		}
	case 3:
		v.Debit(cost)
		s.model.add(min(cost, Max-row.n), s.now, end)
	default:
		if v.Fits(cost) {
			v.Charge(cost)
			s.model.add(cost, s.now, end)
		}
	}
	s.compare(&v, cost)
}

func (s *countSession) compare(v *View, cost int64) {
	t := s.t
	row := s.model.at(s.now)
	end := row.end
	if !row.open {
		end = s.end()
	}
	if v.Used() != row.n {
		t.Fatalf("at %d: used %d, want %d", s.now, v.Used(), row.n)
	}
	fresh, _ := Open(&s.st, &s.lim, s.now)
	for _, v := range []*View{v, &fresh} {
		cost = max(cost, 0)
		a := v.Answer(cost, v.Fits(cost))
		want := Answer{Allowed: v.Fits(cost), Never: cost > s.lim.Size, Used: max(0, row.n), ResetAt: end}
		if !want.Allowed {
			want.RetryAfter = end - s.now
		}
		if a != want {
			t.Fatalf("at %d, cost %d of %d: %+v, want %+v", s.now, cost, s.lim.Size, a, want)
		}
	}
	if row.open && s.st.Expires != end {
		t.Fatalf("expires %d, want %d", s.st.Expires, end)
	}
}

// TestBudgetBounds: a clock outside what was sent decides nothing.
func TestBudgetBounds(t *testing.T) {
	t.Parallel()
	lim := Limit{Kind: Budget, Size: 10, Bounds: [4]int64{100, 200, 300, 400}}
	for now, end := range map[int64]int64{100: 200, 199: 200, 200: 300, 299: 300, 300: 400, 399: 400} {
		v, ok := Open(&State{}, &lim, now)
		if !ok || v.ResetAt() != end {
			t.Errorf("at %d: %v, until %d", now, ok, v.ResetAt())
		}
		// A row keeps the end that it was opened with.
		if v, ok := Open(&State{Level: 3, Stamp: 555, Since: 50, Expires: 555}, &lim, now); !ok || v.Used() != 3 || v.ResetAt() != 555 {
			t.Errorf("at %d: %v, %d used until %d", now, ok, v.Used(), v.ResetAt())
		}
	}
	for _, now := range []int64{1, 99, 400, 1000} {
		if _, ok := Open(&State{}, &lim, now); ok {
			t.Errorf("at %d the bounds should not hold", now)
		}
	}
}

// TestHit has the lines of the counter contract.
func TestHit(t *testing.T) {
	t.Parallel()
	var st State
	hit := func(now, window, n, count, left int64) {
		t.Helper()
		lim := Limit{Kind: Counter, Span: window}
		v, _ := Open(&st, &lim, start+now)
		if ok := v.Hit(n); !ok || v.Used() != count || v.ResetAt()-start-now != left {
			t.Errorf("at %d hit %d: %v, %d, %d left; want %d, %d left", now, n, ok, v.Used(), v.ResetAt()-start-now, count, left)
		}
		if v.Changed() != (n != 0) {
			t.Errorf("at %d hit %d: changed %v", now, n, v.Changed())
		}
	}
	hit(0, 1000, 0, 0, 1000)
	hit(0, 1000, 3, 3, 1000)
	hit(999, 5000, 2, 5, 1) // the end stays, whatever window is passed
	hit(999, 5000, 0, 5, 1)
	hit(1000, 5000, 0, 0, 5000) // over at its end
	hit(1000, 5000, -2, -2, 5000)
	hit(2000, 1, 1, -1, 4000)
	hit(500, 5000, 1, 0, 5500) // a clock that is behind
	hit(6000, 5000, Max, Max, 5000)
	lim := Limit{Kind: Counter, Span: 5000}
	v, _ := Open(&st, &lim, start+6000)
	if v.Hit(1) || v.Changed() || v.Used() != Max {
		t.Errorf("a hit above the greatest count: %d, changed %v", v.Used(), v.Changed())
	}
}
