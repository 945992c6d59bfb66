package arith

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// The tests know a limit by the numbers that a user gives.
type bucketLimit struct{ burst, n, span int64 }

func (b bucketLimit) limit(t testing.TB) *Limit {
	t.Helper()
	r, ok := RateOf(b.burst, b.n, b.span)
	if !ok || !r.Valid(b.burst) {
		t.Fatalf("no exact rate for %+v", b)
	}
	return &Limit{Kind: Bucket, Size: b.burst, Span: b.span, Rate: r}
}

const (
	second = int64(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	year   = 8766 * hour

	start  = 1_800_000_000 * second // in 2027
	maxNow = Max - Century
)

// rounds is n, or less where time matters.
func rounds(n int) int {
	if testing.Short() || raced {
		return n / 10
	}
	return n
}

// wide is a random number from low to high, as likely to have few digits as many.
func wide(r *rand.Rand, low, high int64) int64 {
	span := high - low
	n := r.Int64() >> r.IntN(63)
	if span < 1<<62 {
		n %= span + 1
	}
	return low + n
}

// written is the rules of docs/semantics.md, Token bucket, in big numbers and written as they stand there. It also keeps
// the greatest number that any step came to.
type written struct {
	level, unit, stamp *big.Int // nil: unknown key
	expires            *big.Int
	most               *big.Int
}

func (w *written) saw(n *big.Int) *big.Int {
	if w.most == nil {
		w.most = new(big.Int)
	}
	if a := new(big.Int).Abs(n); a.Cmp(w.most) > 0 {
		w.most = a
	}
	return n
}

func num(n int64) *big.Int { return big.NewInt(n) }

func (w *written) add(a, b *big.Int) *big.Int { return w.saw(new(big.Int).Add(a, b)) }
func (w *written) sub(a, b *big.Int) *big.Int { return w.saw(new(big.Int).Sub(a, b)) }
func (w *written) mul(a, b *big.Int) *big.Int { return w.saw(new(big.Int).Mul(a, b)) }

func (w *written) floor(a, b *big.Int) *big.Int {
	return w.saw(new(big.Int).Div(a, b)) // Euclidean: the floor, as b is positive
}

func (w *written) ceil(a, b *big.Int) *big.Int {
	q, m := new(big.Int).DivMod(a, b, new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, num(1))
	}
	return w.saw(q)
}

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func greatest(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

type writtenRow struct{ cap, bottom, level, base *big.Int }

// read is "Reading" and "Another D in the row".
func (w *written) read(lim *Limit, now int64) (r writtenRow) {
	d, gain, tick := num(lim.Unit), num(lim.Gain), num(lim.Tick)
	r.cap = w.mul(num(lim.Size), d)
	r.bottom = w.sub(r.cap, num(Max))
	nowTick := w.floor(num(now), tick)
	r.level, r.base = r.cap, nowTick
	if w.level == nil || w.expires.Cmp(num(now)) <= 0 {
		return r
	}
	level := w.level
	if w.unit.Cmp(d) != 0 {
		tokens := w.floor(level, w.unit)
		// Compared before it is multiplied.
		if tokens.Cmp(num(lim.Size)) >= 0 {
			level = r.cap
		} else if tokens.Cmp(w.floor(r.bottom, d)) <= 0 {
			level = r.bottom
		} else {
			level = w.mul(tokens, d)
		}
	}
	level = greatest(least(level, r.cap), r.bottom)
	stampTick := w.ceil(w.stamp, tick)
	e := greatest(num(0), w.sub(nowTick, stampTick))
	e = least(e, w.ceil(w.sub(r.cap, level), gain)) // enough to fill it; ⌈(2^53 − 1)/N⌉ may be more
	r.level = least(r.cap, new(big.Int).Add(level, new(big.Int).Mul(e, gain)))
	r.base = greatest(nowTick, stampTick)
	return r
}

// write is "Writing": the level becomes after; before is what it was.
func (w *written) write(lim *Limit, now int64, r writtenRow, before, after *big.Int) {
	tick := num(lim.Tick)
	stamp := w.mul(tick, w.floor(num(now), tick))
	if greatest(before, after).Cmp(w.sub(r.cap, num(lim.Gain))) >= 0 { // level + N may be more than 2^53 − 1
		stamp = w.mul(tick, w.ceil(num(now), tick))
	}
	if w.level != nil && w.expires.Cmp(num(now)) > 0 {
		stamp = greatest(stamp, w.stamp)
	}
	w.level, w.unit, w.stamp = after, num(lim.Unit), stamp
	full := w.at(lim, writtenRow{level: after, base: greatest(w.floor(num(now), tick), w.ceil(stamp, tick))}, r.cap)
	w.expires = least(full, num(now+Century))
}

// at is when level is reached: the RetryAfter of the rules, as an instant.
func (w *written) at(lim *Limit, r writtenRow, level *big.Int) *big.Int {
	ticks := w.ceil(w.sub(level, r.level), num(lim.Gain))
	ticks = least(ticks, num(Century/lim.Tick))
	return w.mul(w.add(r.base, ticks), num(lim.Tick))
}
