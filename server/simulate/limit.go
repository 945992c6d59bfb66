package simulate

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
	"github.com/ration-go/ration/internal/calendar"
)

// limit is a limit being tried: its numbers, and for each key its state.
type limit struct {
	rule  ration.Rule
	lim   arith.Limit
	quick bool
	cal   *calendar.Calendar // of a budget

	rows    [][]row // by number of the key, in chunks so that growing copies nothing
	refused []refusals
	windows int64 // bytes of sliding windows

	requests, refusedCount, never int64
	first, last, longest          int64
	line                          timeline
	need                          needs
}

// row is what one key has used.
type row struct {
	state
	requests int64
	peak     int64 // the most that was ever used, had nothing been refused: see needs
	refused  int32 // the number of its refusals + 1; 0: none yet
}

// refusals is kept for keys that were refused at least once.
type refusals struct {
	key                  int
	count                int64
	first, last, longest int64
	free                 state // as if nothing had been refused
}

// state is that of a limit, of the one or the other kind.
type state struct {
	st  arith.State
	win *window // SlidingWindow; nil: nothing used
}

const (
	rowsInChunk  = 1024
	rowBytes     = int64(unsafe.Sizeof(row{}))
	refusalBytes = int64(unsafe.Sizeof(refusals{}))
	windowBytes  = int64(unsafe.Sizeof(window{}))
)

func newLimit(rule ration.Rule, suggest bool) (*limit, error) {
	l := &limit{rule: rule}
	switch v := rule.Limit.(type) {
	case ration.TokenBucket:
		n, span := v.Refill.N, microsOf(v.Refill.Per)
		gain, unit, tick, err := driver.Units(v.Burst, n, driver.Micros(span))
		if err != nil {
			return nil, err
		}
		l.lim = arith.Limit{Kind: arith.Bucket, Size: v.Burst, Span: span, Rate: arith.Rate{Gain: gain, Unit: unit, Tick: int64(tick)}}
		l.quick = l.lim.CanBeQuick()
	case ration.SlidingWindow:
		l.lim = arith.Limit{Kind: arith.Window, Size: v.Limit, Span: microsOf(v.Window)}
	case ration.FixedWindow:
		l.lim = arith.Limit{Kind: arith.Counter, Size: v.Limit, Span: microsOf(v.Window)}
	case ration.Budget:
		l.lim = arith.Limit{Kind: arith.Budget, Size: v.Limit}
		cal, err := calendar.New(calendar.Spec{Period: calendar.Period(v.Period), Zone: v.Zone, Month: int(v.Month), Day: v.Day, Hour: v.Hour})
		if err != nil {
			return nil, err
		}
		l.cal = cal
	}
	l.need = newNeeds(&l.lim, suggest)
	return l, nil
}

// microsOf is d rounded up, as a Limiter does.
func microsOf(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// add makes a row for key number n, which is the next.
func (l *limit) add(n int) {
	if n%rowsInChunk == 0 {
		l.rows = append(l.rows, make([]row, rowsInChunk))
	}
}

func (l *limit) row(n int) *row { return &l.rows[n/rowsInChunk][n%rowsInChunk] }

func (l *limit) bytes() int64 {
	return int64(len(l.rows))*rowsInChunk*rowBytes + int64(cap(l.refused))*refusalBytes + l.windows
}

// sweep frees sliding windows that are over. It changes no answer.
func (l *limit) sweep(keys int, now int64) {
	if l.lim.Kind != arith.Window {
		return
	}
	for n := range keys {
		l.sweepOne(&l.row(n).state, now)
	}
	for i := range l.refused {
		l.sweepOne(&l.refused[i].free, now)
	}
}

func (l *limit) sweepOne(s *state, now int64) {
	if s.win != nil && s.win.over(l.lim.Span, now) {
		l.windows -= s.win.bytes()
		s.win = nil
	}
}

// decide is a Take of key number n at now.
func (l *limit) decide(n int, now, cost int64) {
	r := l.row(n)
	r.requests++
	l.requests++
	if l.cal != nil && (now >= l.lim.Bounds[2] || now < l.lim.Bounds[1]) {
		l.lim.Bounds = l.cal.Bounds(now)
		l.need.lim.Bounds = l.lim.Bounds
	}
	used, wait, allowed := l.take(&r.state, &l.lim, now, cost)
	l.line.add(now, allowed)
	if !allowed {
		l.refuse(n, r, now, wait)
		if cost > l.lim.Size {
			l.never++
		}
	}
	if !l.need.on || cost == 0 {
		return
	}
	if r.refused != 0 {
		if used, _, allowed = l.take(&l.refused[r.refused-1].free, &l.need.lim, now, cost); !allowed {
			used = beyond
		}
	}
	r.peak = max(r.peak, used)
	l.need.levels.add(used)
}

// take decides as lim, which is the limit or the largest of its kind; used is what counts afterwards if it was allowed, wait
// how long until it would be.
func (l *limit) take(s *state, lim *arith.Limit, now, cost int64) (used, wait int64, allowed bool) {
	if lim.Kind == arith.Window {
		if s.win == nil {
			s.win = &window{}
			l.windows += windowBytes
		}
		before := cap(s.win.uses)
		used, wait, allowed = s.win.take(lim.Span, lim.Size, now, cost)
		l.windows += int64(cap(s.win.uses)-before) * useBytes
		return used, wait, allowed
	}
	st := &s.st
	if l.quick && st.Expires > now && cost >= 1 && cost <= lim.Size {
		st.Level, st.Stamp, st.Since, st.Expires, used, wait, _, allowed = arith.TakeQuick(st.Level, st.Stamp, st.Since, st.Expires,
			lim.Size, lim.Gain, lim.Unit, now, cost)
		return used, wait, allowed
	}
	v, _ := arith.Open(st, lim, now)
	if !v.Fits(cost) {
		return 0, v.Answer(cost, false).RetryAfter, false
	}
	v.Charge(cost)
	return v.Used(), 0, true
}

func (l *limit) refuse(n int, r *row, now, wait int64) {
	if l.refusedCount == 0 {
		l.first = now
	}
	l.refusedCount++
	l.last = now
	l.longest = max(l.longest, wait)
	if r.refused == 0 {
		one := refusals{key: n, first: now}
		if l.need.on {
			one.free = l.need.freed(&r.state, l.lim.Size)
			l.windows += one.free.win.bytes()
		}
		l.refused = append(l.refused, one)
		r.refused = int32(len(l.refused))
	}
	one := &l.refused[r.refused-1]
	one.count++
	one.last = now
	one.longest = max(one.longest, wait)
}

// worst is the keys that were refused most, most first.
func (l *limit) worst(top int) []refusals {
	all := slices.Clone(l.refused)
	slices.SortFunc(all, func(a, b refusals) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.first, b.first), cmp.Compare(a.key, b.key))
	})
	return all[:min(top, len(all))]
}
