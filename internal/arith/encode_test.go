package arith

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

func equal(a, b *State) bool {
	return a.Level == b.Level && a.Unit == b.Unit && a.Stamp == b.Stamp && a.Since == b.Since && a.Expires == b.Expires && slices.Equal(a.Uses, b.Uses)
}

func randomState(r *rand.Rand) State {
	st := State{Since: wide(r, 0, Max), Expires: wide(r, 0, Max)}
	if r.IntN(2) == 0 {
		st.Level, st.Unit, st.Stamp = wide(r, 0, Max)*int64(r.IntN(3)-1), wide(r, 0, Max), wide(r, 0, Max)
		return st
	}
	at := wide(r, 0, Max/2)
	for range 1 + r.IntN(MaxUses) {
		st.Uses = append(st.Uses, Use{At: at, Cost: wide(r, 0, Max), Window: wide(r, 1, Max)})
		at += wide(r, 0, hour)
	}
	return st
}

func TestEncode(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 16))
	var got State // one for all, as stores do
	for range rounds(20_000) {
		want := randomState(r)
		b := want.Append([]byte("before"))
		b, ok := bytes.CutPrefix(b, []byte("before"))
		if err := got.Decode(b); !ok || err != nil || !equal(&got, &want) {
			t.Fatalf("%+v is decoded as %+v, %v", want, got, err)
		}
		if again := got.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("equal states have other bytes: %x, %x", b, again)
		}
		for _, bad := range [][]byte{b[:r.IntN(len(b)-1)+1], append(slices.Clone(b), 0), append([]byte{9}, b[1:]...)} {
			if len(bad) == len(b) && bad[0] == b[0] {
				continue
			}
			if err := got.Decode(bad); !errors.Is(err, ErrCorrupt) || !equal(&got, &State{}) {
				t.Fatalf("%x is decoded as %+v, %v", bad, got, err)
			}
		}
	}
	if err := got.Decode(nil); err != nil || !equal(&got, &State{}) {
		t.Errorf("no bytes are decoded as %+v, %v", got, err)
	}
}

func TestDecodeImplausible(t *testing.T) {
	t.Parallel()
	for _, st := range []State{
		{Level: Max + 1},
		{Level: -Max - 1},
		{Unit: -1},
		{Unit: Max + 1},
		{Stamp: -1},
		{Stamp: Max + 1},
		{Since: Max + 1},
		{Expires: Max + 1},
		{Expires: -Max - 1},
		{Uses: []Use{{At: -1, Cost: 1, Window: 1}}},
		{Uses: []Use{{At: Max + 1, Cost: 1, Window: 1}}},
		{Uses: []Use{{At: 1, Cost: -1, Window: 1}}},
		{Uses: []Use{{At: 1, Cost: Max + 1, Window: 1}}},
		{Uses: []Use{{At: 1, Cost: 1, Window: 0}}},
		{Uses: []Use{{At: 1, Cost: 1, Window: Max + 1}}},
		{Uses: []Use{{At: 2, Cost: 1, Window: 1}, {At: 1, Cost: 1, Window: 1}}},
		{Uses: slices.Repeat([]Use{{At: 2, Cost: 1, Window: 1}}, MaxSlots+1)},
	} {
		var got State
		if err := got.Decode(st.Append(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v is decoded", st)
		}
	}
}

// FuzzDecode decodes anything and, if that goes well, works on it.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(17, 18))
	for range 40 {
		st := randomState(r)
		f.Add(st.Append(nil), uint8(r.Uint32()), wide(r, 1, maxNow), wide(r, 0, Max), wide(r, 1000, 10*year), wide(r, 0, Max), wide(r, 0, Max))
	}
	f.Fuzz(decodeAndWork)
}

func TestDecodeAnything(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(25, 26))
	for range rounds(100_000) {
		st := randomState(r)
		if st.Uses = st.Uses[:min(len(st.Uses), 1+r.IntN(4))]; len(st.Uses) == 0 {
			st.Uses = nil
		}
		decodeAndWork(t, st.Append(nil), uint8(r.Uint32()), wide(r, 1, maxNow), wide(r, 0, Max), wide(r, 1000, 10*year), wide(r, 0, Max), wide(r, 0, Max))
	}
}

// decodeAndWork checks that, whatever a store held, nothing panics or overflows, the answers are in range, and what is
// written can be read again.
func decodeAndWork(t *testing.T, blob []byte, kind uint8, now, size, span, cost, at int64) {
	var st State
	if st.Decode(blob) != nil {
		return
	}
	clamp := func(n, low, high int64) int64 { return low + (n&(1<<62-1))%(high-low+1) }
	now, size, span, cost, at = clamp(now, 1, maxNow), clamp(size, 0, Max), clamp(span, 1000, 10*year), clamp(cost, 0, Max), clamp(at, 1, Max)
	lim := Limit{Kind: Kind(1 + kind%4), Size: size, Span: span}
	switch lim.Kind {
	case Bucket:
		var ok bool
		if lim.Rate, ok = RateOf(size, 1+cost/2, span); !ok {
			return
		}
	case Budget:
		lim.Bounds = [4]int64{max(0, now-span), now, now + span/2 + 1, now + span + 2}
	}
	for op := kind / 4 % 8; ; op = 8 {
		v, ok := Open(&st, &lim, now)
		if !ok {
			t.Fatalf("bounds %v do not hold at %d", lim.Bounds, now)
		}
		fits := v.Fits(cost)
		switch op {
		case 0:
			if fits {
				v.Charge(cost)
			}
		case 1:
			v.Debit(cost)
		case 2:
			if given := v.Refund(cost, at); given < 0 || given > cost {
				t.Fatalf("%d of %d given back", given, cost)
			}
		case 3:
			v.Reset()
		case 4:
			st.Forget(now)
			return
		case 5:
			if lim.Kind == Counter {
				v.Hit(cost)
			}
		case 6:
			if lim.Kind == Counter {
				v.Hit(-cost)
			}
		case 7:
			if n := v.FitsTimes(cost, 1000); n < 0 || n > 1000 {
				t.Fatalf("fits %d times", n)
			} else if n > 0 && cost > 0 {
				v.Charge(n * cost)
			}
		}
		a := v.Answer(cost, fits)
		if a.Used < 0 || a.Used > Max || a.RetryAfter < 0 || a.RetryAfter > Century || a.ResetAt < now || a.ResetAt > now+Century || fits != (a.RetryAfter == 0) {
			t.Fatalf("fits %v: %+v", fits, a)
		}
		var again State
		if err := again.Decode(st.Append(nil)); err != nil {
			t.Fatalf("kind %d op %d leaves %+v", lim.Kind, op, st)
		}
		if op == 8 {
			return
		}
	}
}
