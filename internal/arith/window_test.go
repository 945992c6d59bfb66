package arith

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// listed is a sliding window as the rules describe it: a list of uses, nothing clever.
type listed struct {
	uses  []Use
	since int64
}

func (m *listed) clock(now int64) int64 {
	if !slices.ContainsFunc(m.uses, func(u Use) bool { return u.At+u.Window > now }) {
		return now
	}
	for _, u := range m.uses {
		now = max(now, u.At)
	}
	return now
}

// used is what counts at now when w asks, if uses are over late by some time.
func used(uses []Use, w, now, late int64) (n int64) {
	for _, u := range uses {
		if u.At+min(u.Window, w)+late > now {
			n += u.Cost
		}
	}
	return n
}

func (m *listed) charge(cost, w, now int64) {
	over := func(u Use) bool { return u.At+u.Window <= now }
	if m.uses = slices.DeleteFunc(m.uses, over); len(m.uses) == 0 {
		m.since = max(now, m.since)
	}
	m.uses = append(m.uses, Use{now, cost, w})
	m.join(func(u Use) Use { return Use{At: u.At, Window: u.Window} })
	if len(m.uses) > MaxUses {
		m.join(func(u Use) Use {
			part := (u.Window + 127) / 128
			return Use{At: u.At / part, Window: u.Window}
		})
	}
	if len(m.uses) > MaxUses {
		w = slices.MaxFunc(m.uses, func(a, b Use) int { return cmp.Compare(a.Window, b.Window) }).Window
		part := (w + 127) / 128
		for i := range m.uses {
			m.uses[i].Window = w
		}
		m.join(func(u Use) Use { return Use{At: u.At / part} })
	}
}

// join makes one of the uses that have one key.
func (m *listed) join(key func(Use) Use) {
	joined := map[Use]Use{}
	for _, u := range m.uses {
		k := key(u)
		old := joined[k]
		joined[k] = Use{max(u.At, old.At), u.Cost + old.Cost, u.Window}
	}
	m.uses = m.uses[:0]
	for _, u := range joined {
		m.uses = append(m.uses, u)
	}
	slices.SortFunc(m.uses, compareUses)
}

func compareUses(a, b Use) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Window, b.Window))
}

func (m *listed) refund(n, at, w, now int64) (given int64) {
	if at < m.since || at+w <= now {
		return 0
	}
	for i, u := range m.uses {
		if u.At >= at && u.Window == w {
			given = min(n, u.Cost)
			if m.uses[i].Cost -= given; m.uses[i].Cost == 0 {
				m.uses = slices.Delete(m.uses, i, i+1)
			}
			if len(m.uses) == 0 {
				m.since = 0
			}
			return given
		}
	}
	return 0
}

// retry is when cost passes, tried at each end of a use.
func (m *listed) retry(cost, size, w, now int64) int64 {
	at := int64(Max)
	for _, u := range m.uses {
		if end := u.At + min(u.Window, w); end > now && end < at && used(m.uses, w, end, 0)+cost <= size {
			at = end
		}
	}
	return at
}

type windowSession struct {
	t     *testing.T
	r     *rand.Rand
	now   int64
	lim   Limit
	st    State
	model listed
}

func (s *windowSession) step() {
	t, r := s.t, s.r
	v, _ := Open(&s.st, &s.lim, s.now)
	row, w, size := s.model.clock(s.now), s.lim.Span, s.lim.Size
	count := used(s.model.uses, w, row, 0)
	if v.Used() != count {
		t.Fatalf("window %d at %d: used %d, want %d\n%v\n%v", w, s.now, v.Used(), count, s.st.Uses, s.model.uses)
	}
	cost := 1 + r.Int64N(max(1, min(size, 4)))
	if r.IntN(8) == 0 {
		cost = wide(r, 1, size+2)
	}
	fits := cost <= size && count+cost <= size
	if v.Fits(cost) != fits || v.Fits(0) != (count <= size) {
		t.Fatalf("window %d at %d: %d of %d used; cost %d passes: %v", w, s.now, count, size, cost, !fits)
	}
	switch k := r.IntN(500); {
	case k < 40:
		s.refund(&v, row)
	case k == 40 && fits:
		s.reset(&v, row)
	case fits:
		v.Charge(cost)
		if !slices.ContainsFunc(s.model.uses, func(u Use) bool { return u.At+u.Window > row }) && s.model.since <= row {
			s.model.since = 0 // the row is gone
		}
		s.model.charge(cost, w, row)
	default:
		s.refused(&v, cost, row)
	}
	s.compare(&v, row)
}

func (s *windowSession) refund(v *View, row int64) {
	n, at := 1+s.r.Int64N(3), row-s.r.Int64N(s.lim.Span+2)
	if len(s.model.uses) > 0 && s.r.IntN(2) == 0 {
		at = s.model.uses[s.r.IntN(len(s.model.uses))].At
	}
	want := int64(0)
	if exists(&s.st, s.now) {
		want = s.model.refund(n, at, s.lim.Span, row)
	}
	if given := v.Refund(n, at); given != want {
		s.t.Fatalf("at %d: refund %d of %d: given %d, want %d\n%v", s.now, n, at, given, want, s.model.uses)
	}
}

func (s *windowSession) reset(v *View, row int64) {
	if v.Reset(); v.Changed() {
		s.model = listed{since: max(row+1, s.st.Since)}
		if s.st.Since <= row {
			s.t.Fatalf("reset at %d leaves since %d", row, s.st.Since)
		}
	}
}

func (s *windowSession) refused(v *View, cost, row int64) {
	a := v.Answer(cost, false)
	size, w := s.lim.Size, s.lim.Span
	if a.Never != (cost > size) || a.Never && a.RetryAfter != w {
		s.t.Fatalf("cost %d of %d: %+v", cost, size, a)
	}
	if a.Never {
		return
	}
	if want := s.model.retry(cost, size, w, row) - s.now; a.RetryAfter != want {
		s.t.Fatalf("cost %d of %d, window %d at %d: retry %d, want %d\n%v", cost, size, w, s.now, a.RetryAfter, want, s.model.uses)
	}
	later := State{Expires: s.st.Expires, Since: s.st.Since, Uses: slices.Clone(s.st.Uses)}
	if v, _ := Open(&later, &s.lim, s.now+a.RetryAfter); !v.Fits(cost) {
		s.t.Fatalf("%d does not pass after %d", cost, a.RetryAfter)
	}
	if v, _ := Open(&later, &s.lim, s.now+a.RetryAfter-1); v.Fits(cost) {
		s.t.Fatalf("%d passes before %d are over", cost, a.RetryAfter)
	}
}

// compare checks the state after a step, and the answer's ResetAt.
func (s *windowSession) compare(v *View, row int64) {
	if exists(&s.st, s.now) {
		uses := slices.Clone(s.st.Uses)
		slices.SortFunc(uses, compareUses)
		if !slices.Equal(uses, s.model.uses) {
			s.t.Fatalf("at %d: uses %v\nwant %v", s.now, uses, s.model.uses)
		}
	}
	if len(s.st.Uses) > MaxUses {
		s.t.Fatalf("%d uses", len(s.st.Uses))
	}
	reset, expires := s.now, int64(0)
	for _, u := range s.model.uses {
		if end := u.At + min(u.Window, s.lim.Span); end > row {
			reset = max(reset, end)
		}
		expires = max(expires, u.At+u.Window)
	}
	a := v.Answer(0, true)
	if a.ResetAt != reset || a.Used != used(s.model.uses, s.lim.Span, row, 0) {
		s.t.Fatalf("at %d: %+v, want reset %d\n%v", s.now, a, reset, s.model.uses)
	}
	if len(s.model.uses) > 0 && s.st.Expires != expires {
		s.t.Fatalf("at %d: expires %d, want %d", s.now, s.st.Expires, expires)
	}
}

// TestWindow compares with the list under windows, sizes and clocks that change.
func TestWindow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	joined := 0
	for i := range rounds(300) {
		windows := []int64{1000, 1000 + r.Int64N(100_000), 1000 + r.Int64N(10_000)}
		sizes := []int64{1 + r.Int64N(10), 1 + r.Int64N(300), 1 + r.Int64N(3000)}
		pace := 1 + r.Int64N(2000)
		if i%3 == 0 { // so many uses that they are joined
			windows[0], windows[2], sizes[0], sizes[1], pace = 50_000+r.Int64N(50_000), 100_000, 2000, 3000, 150
		}
		s := windowSession{t: t, r: r, now: start, lim: Limit{Kind: Window, Size: sizes[0], Span: windows[0]}}
		change := 1 + r.IntN(200)
		for range 800 {
			if r.IntN(change) == 0 {
				s.lim.Size, s.lim.Span = sizes[r.IntN(3)], windows[r.IntN(3)]
			}
			switch s.now += r.Int64N(pace); r.IntN(500) {
			case 0, 1, 2, 3, 4:
				s.now -= r.Int64N(2000)
			case 5:
				s.now += r.Int64N(150_000)
			}
			s.step()
			if len(s.st.Uses) == MaxUses {
				joined++
			}
		}
	}
	if joined == 0 {
		t.Error("no window was ever full of uses")
	}
}

// TestWindowJoined checks windows that are joined again and again against all uses apart. None is over early. None is late
// by 1/128 of the window, as long as all are of one window.
func TestWindowJoined(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	for _, mixed := range []bool{false, true} {
		most := 0.0
		for range 1 + rounds(10) {
			windows := []int64{1000 + r.Int64N(1_000_000), 1000 + r.Int64N(1_000_000), 1000 + r.Int64N(1_000_000)}
			lim := Limit{Kind: Window, Size: 300 + r.Int64N(5000), Span: windows[0]}
			var st State
			var all []Use
			for now := start; now < start+3*windows[0]; now += r.Int64N(2 * windows[0] / 2000) {
				if mixed {
					lim.Span = windows[r.IntN(3)]
				}
				v, _ := Open(&st, &lim, now)
				exact := used(all, lim.Span, now, 0)
				if v.Used() < exact {
					t.Fatalf("windows %v: used %d, want at least %d", windows, v.Used(), exact)
				}
				if late := used(all, lim.Span, now, ceilDiv(lim.Span, 128)-1); !mixed && v.Used() > late {
					t.Fatalf("window %d: used %d, and %d a part before", lim.Span, v.Used(), late)
				}
				most = max(most, float64(v.Used()-exact)/float64(lim.Size))
				if cost := 1 + r.Int64N(4); v.Fits(cost) {
					v.Charge(cost)
					all = append(slices.DeleteFunc(all, func(u Use) bool { return u.At < now-2*second }), Use{now, cost, lim.Span})
				}
				if len(st.Uses) > MaxUses {
					t.Fatalf("%d uses", len(st.Uses))
				}
			}
		}
		t.Logf("mixed windows: %v; used is above the exact number by up to %.2f %% of the size", mixed, most*100)
	}
}

// TestWindowExact: up to 256 uses are never joined.
func TestWindowExact(t *testing.T) {
	t.Parallel()
	lim := Limit{Kind: Window, Size: MaxUses, Span: second}
	var st State
	for i := range int64(4 * MaxUses) {
		v, _ := Open(&st, &lim, start+i*4000)
		if !v.Fits(1) {
			t.Fatalf("use %d does not pass", i)
		}
		v.Charge(1)
		if want := min(i+1, 250); v.Used() != want || int64(len(st.Uses)) != want {
			t.Fatalf("use %d: %d used, %d kept", i, v.Used(), len(st.Uses))
		}
	}
}
