package simulate

import (
	"math"
	"math/bits"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/arith"
)

// A Suggestion is a size for a limit whose rate, window or period stays as it is.
//
// Of keys: the smallest size at which at least Percent of the keys would not have been refused once. It is exact: a key
// needs the most that it ever had used, had nothing been refused, and a size refuses it if and only if it is smaller.
//
// Of requests: a size at which at least Percent of the requests would not have been refused. Of fixed windows and budgets it
// is the smallest, up to 4096, and above that less than 1/128 more. Of buckets and sliding windows it is an upper bound: the
// requests that would have found more used than the size, had nothing been refused. The true number is no greater, since
// refusals leave room. (Where a sliding window keeps more than 256 uses of one key, it joins some, and this holds for what
// it joins.) With Options.Cost, nothing is suggested of requests.
type Suggestion struct {
	Percent float64 `json:"percent"`
	Of      string  `json:"of"`    // "keys" or "requests"
	Size    int64   `json:"size"`  // burst or limit
	Limit   string  `json:"limit"` // the limit with this size; "": none is large enough
	Least   bool    `json:"least"` // it is surely the smallest
}

// needs finds out how large a limit would have to be. While a key has not been refused, its state is the same under every
// size that is large enough; from the first refusal on it has a second state, of the largest size there is.
type needs struct {
	on     bool
	lim    arith.Limit
	levels histogram // of each request: what was used after it, had nothing been refused
}

// beyond is more than any size.
const beyond = math.MaxInt64

func newNeeds(lim *arith.Limit, on bool) needs {
	n := needs{on: on, lim: *lim}
	if n.lim.Size = arith.Max; lim.Kind == arith.Bucket {
		n.lim.Size = arith.MaxBurst / lim.Unit // the largest that has the same rate
	}
	if on {
		n.levels.counts = make([]int64, histogramSize)
	}
	return n
}

// freed is s, of a limit of size, under the largest size.
func (n *needs) freed(s *state, size int64) state {
	free := state{s.st, s.win.clone()}
	if s.st.Unit != 0 { // a bucket: it lacks as much
		free.st.Level = n.lim.Size*n.lim.Unit - (size*n.lim.Unit - s.st.Level)
	}
	return free
}

// suggest answers for each percentage what it comes to, given what each key needs, in rising order.
func (l *limit) suggest(percents []float64, sorted []int64, requests bool) (all []Suggestion) {
	exact := l.lim.Kind != arith.Bucket || l.lim.Tick == 1 // else a smaller burst may have a finer tick
	counts := l.lim.Kind == arith.Counter || l.lim.Kind == arith.Budget
	for _, p := range percents {
		if n := int64(len(sorted)); n > 0 {
			size := sorted[n-1-spared(p, n)]
			all = append(all, l.suggestion(p, "keys", size, exact))
		}
		if requests && l.levels().total > 0 {
			size := l.levels().atMost(spared(p, l.levels().total))
			all = append(all, l.suggestion(p, "requests", size, counts && size < exactBelow))
		}
	}
	return all
}

func (l *limit) levels() *histogram { return &l.need.levels }

func (l *limit) suggestion(percent float64, of string, size int64, least bool) Suggestion {
	s := Suggestion{Percent: percent, Of: of}
	if size <= l.need.lim.Size {
		s.Size, s.Limit, s.Least = size, withSize(l.rule.Limit, size).String(), least
	}
	return s
}

// spared is how many of n the rest of a percentage is, rounded down, but not all of them.
func spared(percent float64, n int64) int64 {
	rest := uint64(100_000 - math.Round(percent*1000))
	hi, lo := bits.Mul64(uint64(n), rest)
	q, _ := bits.Div64(hi, lo, 100_000)
	return min(int64(q), n-1)
}

// withSize is limit with another size.
func withSize(limit ration.Limit, size int64) ration.Limit {
	switch v := limit.(type) {
	case ration.TokenBucket:
		v.Burst = size
		return v
	case ration.SlidingWindow:
		v.Limit = size
		return v
	case ration.FixedWindow:
		v.Limit = size
		return v
	case ration.Budget:
		v.Limit = size
		return v
	}
	return limit
}

// histogram counts numbers: exactly below exactBelow, above that by the first eight bits.
type histogram struct {
	counts []int64
	total  int64
}

const (
	exactBits     = 12
	exactBelow    = 1 << exactBits
	partBits      = 7
	histogramSize = exactBelow + (53-exactBits)<<partBits + 1 // the last is for beyond
)

func (h *histogram) add(n int64) {
	h.total++
	i := n
	if n >= exactBelow {
		i = histogramSize - 1
		if e := bits.Len64(uint64(n)) - 1; e < 53 {
			i = exactBelow + int64(e-exactBits)<<partBits + n>>(e-partBits) - 1<<partBits
		}
	}
	h.counts[i]++
}

// atMost is a number that at most so many are above: the smallest, or the highest that is counted with the smallest.
func (h *histogram) atMost(above int64) int64 {
	for i := len(h.counts) - 1; i >= 0; i-- {
		if above -= h.counts[i]; above < 0 {
			return upper(int64(i))
		}
	}
	return 0
}

// upper is the highest number that is counted in place i.
func upper(i int64) int64 {
	switch {
	case i < exactBelow:
		return i
	case i == histogramSize-1:
		return beyond
	}
	e := (i - exactBelow) >> partBits
	part := (i-exactBelow)&(1<<partBits-1) + 1<<partBits
	return (part+1)<<(e+exactBits-partBits) - 1
}
