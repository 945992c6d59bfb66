package simulate

import (
	"slices"
	"unsafe"

	"github.com/ration-go/ration/internal/arith"
)

// window is the state of a sliding window whose size and length never change. It answers what arith does, which sums up all
// uses at every call; here the sum is kept.
type window struct {
	uses []use
	from int   // the first that counts
	sum  int64 // of those that count
}

type use struct{ at, cost int64 }

const (
	joinParts = 128 // as in arith
	useBytes  = int64(unsafe.Sizeof(use{}))
)

// take charges cost, which is at most size if it is allowed, and answers as limit.take.
func (w *window) take(span, size, now, cost int64) (used, wait int64, allowed bool) {
	for w.from < len(w.uses) && w.uses[w.from].at+span <= now {
		w.sum -= w.uses[w.from].cost
		w.from++
	}
	switch {
	case cost == 0 && w.sum <= size:
		return w.sum, 0, true
	case cost > size:
		return 0, span, false
	case w.sum+cost > size:
		return 0, w.roomAt(span, size-cost) - now, false
	}
	if n := len(w.uses); n > w.from && w.uses[n-1].at == now {
		w.uses[n-1].cost += cost
	} else {
		w.append(use{now, cost}, span)
	}
	w.sum += cost
	return w.sum, 0, true
}

// roomAt is when at most so much counts.
func (w *window) roomAt(span, most int64) int64 {
	sum := w.sum
	for _, u := range w.uses[w.from:] {
		if sum -= u.cost; sum <= most {
			return u.at + span
		}
	}
	return 0
}

func (w *window) append(u use, span int64) {
	if w.from > 0 && len(w.uses) == cap(w.uses) {
		w.uses = w.uses[:copy(w.uses, w.uses[w.from:])]
		w.from = 0
	}
	w.uses = append(w.uses, u)
	if len(w.uses)-w.from <= arith.MaxUses {
		return
	}
	part := (span + joinParts - 1) / joinParts
	out := w.uses[:0]
	for _, u := range w.uses[w.from:] {
		if n := len(out); n > 0 && out[n-1].at/part == u.at/part {
			u.cost += out[n-1].cost
			out = out[:n-1]
		}
		out = append(out, u)
	}
	w.uses, w.from = out, 0
}

// over reports whether nothing counts any more.
func (w *window) over(span, now int64) bool {
	n := len(w.uses)
	return n == w.from || w.uses[n-1].at+span <= now
}

// bytes is about what a window takes.
func (w *window) bytes() int64 {
	if w == nil {
		return 0
	}
	return windowBytes + int64(cap(w.uses))*useBytes
}

func (w *window) clone() *window {
	if w == nil {
		return nil
	}
	return &window{uses: slices.Clone(w.uses[w.from:]), sum: w.sum}
}
