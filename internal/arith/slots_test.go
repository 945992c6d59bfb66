package arith

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSlots compares with a map of holders under random holds, ends, renewals and clocks.
func TestSlots(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(27, 28))
	for range rounds(300) {
		lim := Limit{Kind: Slots, Size: r.Int64N(12), Span: 1000}
		var st State
		type held struct{ n, until int64 }
		holders := map[int64]held{}
		now, last := start, int64(0)
		for range 300 {
			if now += r.Int64N(60); r.IntN(40) == 0 {
				now -= r.Int64N(300)
			}
			if r.IntN(50) == 0 {
				lim.Size = r.Int64N(12)
			}
			v, _ := Open(&st, &lim, now)
			count, free := int64(0), now
			var ends []int64
			for _, h := range holders {
				if h.until > now {
					count += h.n
					free = max(free, h.until)
					ends = append(ends, h.until)
				}
			}
			slices.Sort(ends)
			n := 1 + r.Int64N(4)
			fits := n <= lim.Size && count+n <= lim.Size
			a := v.Answer(n, v.Fits(n))
			want := Answer{Allowed: fits, Never: n > lim.Size, Used: count, ResetAt: free}
			switch {
			case want.Never:
				want.RetryAfter = lim.Span
			case !fits:
				for i, end := range ends {
					left := int64(0)
					for _, h := range holders {
						if h.until > end {
							left += h.n
						}
					}
					if left+n <= lim.Size {
						want.RetryAfter = ends[i] - now
						break
					}
				}
			}
			if a != want {
				t.Fatalf("at %d: %+v, want %+v\n%+v", now, a, want, holders)
			}
			who := 1 + r.Int64N(last+1)
			h := holders[who]
			switch r.IntN(6) {
			case 0:
				given := v.Free(who)
				if h.until <= now {
					h.n = 0
				}
				if given != h.n {
					t.Fatalf("at %d: holder %d frees %d, want %d", now, who, given, h.n)
				}
				if exists(&st, now) || v.Changed() {
					delete(holders, who)
				}
			case 1:
				until := now + 1 + r.Int64N(1000)
				if ok := v.Extend(who, until); ok != (h.until > now) {
					t.Fatalf("at %d: holder %d is extended: %v; %+v", now, who, ok, h)
				} else if ok {
					holders[who] = held{h.n, until}
				}
			case 2:
				if r.IntN(10) == 0 {
					if v.Reset(); v.Changed() {
						clear(holders)
					}
				}
			default:
				if fits {
					last++
					v.Hold(n, last, now+1+r.Int64N(1000))
					for who, h := range holders {
						if h.until <= now {
							delete(holders, who)
						}
					}
					i := slices.IndexFunc(st.Uses, func(u Use) bool { return u.Window == last })
					holders[last] = held{n, st.Uses[i].At}
				}
			}
			if !slices.IsSortedFunc(st.Uses, func(a, b Use) int { return int(a.At - b.At) }) {
				t.Fatalf("not in order of time: %v", st.Uses)
			}
		}
	}
}
