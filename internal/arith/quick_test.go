package arith

import (
	"math/rand/v2"
	"testing"
)

// TestQuick holds the short way of buckets to the long one, in every number.
func TestQuick(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	some := func(most int64) int64 { // of all magnitudes
		return r.Int64N(most>>r.IntN(52) + 1)
	}
	quick := 0
	for range 300_000 {
		rate, ok := RateOf(some(1<<40)+1, some(1<<30)+1, some(1<<40)+1)
		size := some(1<<40) + 1
		if !ok || !rate.CanBeQuick() || !rate.Valid(size) {
			continue
		}
		lim := Limit{Kind: Bucket, Size: size, Span: 1, Rate: rate}
		now := some(1<<51) + 1
		full := size * rate.Unit
		st := State{Level: full - some(full), Unit: rate.Unit, Stamp: now - some(now)/2, Since: now - some(now), Expires: now + 1 + some(Century)}
		switch r.IntN(8) {
		case 0: // a debt
			st.Level = -some(Max - full)
		case 1: // it was lowered
			st.Level = min(full+some(full), Max)
		case 2: // the clock is behind the state
			st.Stamp, st.Since = now+some(1<<30), now+some(1<<30)
		case 3:
			st.Level = full
		}
		cost := 1 + some(size-1)
		if r.IntN(4) == 0 {
			cost = min(1+some(3), size)
		}
		for range 3 {
			var got Answer
			after := State{Unit: rate.Unit}
			after.Level, after.Stamp, after.Since, after.Expires, got.Used, got.RetryAfter, got.ResetAt, got.Allowed =
				TakeQuick(st.Level, st.Stamp, st.Since, st.Expires, size, rate.Gain, rate.Unit, now, cost)

			before := st
			v, ok := Open(&st, &lim, now)
			if !ok {
				t.Fatal("not open")
			}
			allowed := v.Fits(cost)
			if allowed {
				v.Charge(cost)
			}
			want := v.Answer(cost, allowed)
			if got != want || after.Level != st.Level || after.Stamp != st.Stamp || after.Since != st.Since || after.Expires != st.Expires {
				t.Fatalf("size %d, rate %+v, cost %d, now %d, of %+v:\nquick %+v, then %+v\nlong  %+v, then %+v", size, rate, cost, now, before, got, after, want, st)
			}
			quick++
			if now = min(now+some(1<<20), Max-1); st.Expires <= now {
				break
			}
		}
	}
	if quick < 10_000 {
		t.Errorf("only %d comparisons", quick)
	}
}
