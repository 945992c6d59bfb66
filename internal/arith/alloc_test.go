package arith

import "testing"

// A decision does not allocate, however it ends; of a window only the list of uses grows.
func TestNoAllocations(t *testing.T) {
	for name, lim := range kinds(t) {
		var st State
		now := start
		run := func(what string, op func(v *View)) {
			n := testing.AllocsPerRun(100, func() {
				now++
				lim.Bounds = [4]int64{now - 1, now, now + 1000, now + 2000}
				v, ok := Open(&st, &lim, now)
				if !ok {
					t.Fatal("no view")
				}
				op(&v)
			})
			if n > 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
		take := func(cost int64) func(*View) {
			return func(v *View) {
				fits := v.Fits(cost)
				if fits {
					v.Charge(cost)
				}
				v.Answer(cost, fits)
			}
		}
		run("peek", func(v *View) { v.Answer(1, v.Fits(1)) })
		run("take", take(1))
		run("take until it is refused", take(max(1, lim.Size/3)))
		run("never", take(lim.Size+1))
		run("give back", func(v *View) {
			if v.Fits(1) {
				v.Charge(1)
			}
			v.Refund(1, now)
		})
		run("debit", func(v *View) { v.Debit(1) })
		run("reset", func(v *View) { v.Reset() })
		if lim.Kind == Counter {
			run("hit", func(v *View) { v.Hit(1) })
		}
		b := make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() {
			b = st.Append(b[:0])
			if st.Decode(b) != nil {
				t.Fatal("not decoded")
			}
		}); n > 0 {
			t.Errorf("%s, encode: %v allocations", name, n)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	limits := map[string]Limit{
		"bucket":  {Kind: Bucket, Size: 10, Span: second, Rate: Rate{1, 100_000, 1}},
		"window":  {Kind: Window, Size: 10, Span: second},
		"counter": {Kind: Counter, Size: 10, Span: second},
	}
	for name, lim := range limits {
		b.Run(name, func(b *testing.B) {
			var st State
			now := start
			for b.Loop() {
				now += 10_000
				v, _ := Open(&st, &lim, now)
				fits := v.Fits(1)
				if fits {
					v.Charge(1)
				}
				v.Answer(1, fits)
			}
		})
	}
}
