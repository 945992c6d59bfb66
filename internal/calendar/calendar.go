// Package calendar computes the periods of budgets: hours, days, weeks, months and years of the calendar of a time zone,
// from an anchor. The rules are those of docs/semantics.md, Budget.
//
// A period starts at the earliest instant whose local clock reads the anchor's date and hour or later. [time.Date] answers
// something else where clocks are changed: for midnight of 4 November 2018 in São Paulo it gives 23:00 of the day before.
package calendar

import (
	"sync/atomic"
	"time"
)

const (
	day    = 86400 // seconds that a calendar day is numbered by, not its length
	hour   = 3600
	micros = 1_000_000

	// reach is more than any clock was ever ahead of UTC, in seconds: no local clock shows a time so long before it.
	reach = 16 * hour
)

// Calendar computes the periods of one Spec. It is safe for concurrent use.
type Calendar struct {
	spec Spec
	zone *time.Location
	last atomic.Pointer[[4]int64] // what Bounds answered last: most calls fall into one period
}

// New is the calendar of s, or the error of s.Validate.
func New(s Spec) (*Calendar, error) {
	zone, err := s.check()
	if err != nil {
		return nil, err
	}
	return &Calendar{spec: s.Normal(), zone: zone}, nil
}

// Bounds answers the starts of the last, this and the next period and the end of the next. Times are in microseconds since
// the Unix epoch. The bounds increase strictly, and bounds[1] <= at < bounds[2]. It is exact from 1970 to 2155.
func (c *Calendar) Bounds(at int64) [4]int64 {
	if b := c.last.Load(); b != nil && b[1] <= at && at < b[2] {
		return *b
	}
	b := c.bounds(at)
	c.last.Store(&b)
	return b
}

func (c *Calendar) bounds(at int64) (b [4]int64) {
	n := c.guess(at)
	for c.start(n) > at {
		n--
	}
	for c.start(n+1) <= at {
		n++
	}
	// Periods that start at one instant are one: the days of a zone that skipped a date.
	b[1] = c.start(n)
	b[0] = b[1]
	for i := n; b[0] == b[1]; {
		i--
		b[0] = c.start(i)
	}
	for i := 2; i < 4; i++ {
		for b[i] = b[i-1]; b[i] == b[i-1]; {
			n++
			b[i] = c.start(n)
		}
	}
	return b
}

// guess is the number of a period near at: that of the local date, which ignores the anchor.
func (c *Calendar) guess(at int64) int64 {
	t := time.UnixMicro(at).In(c.zone)
	y, m, d := t.Date()
	switch c.spec.Period {
	case Hour:
		return floorDiv(at, hour*micros)
	case Day:
		return civilDay(y, m, d)
	case Week:
		return floorDiv(civilDay(y, m, d)-firstMonday, 7)
	case Month:
		return int64(y)*12 + int64(m) - 1
	}
	return int64(y)
}

// firstMonday is the number of 5 January 1970: week 0 is the one that has it.
const firstMonday = 4

// start is when period number n starts. It never decreases as n grows.
func (c *Calendar) start(n int64) int64 {
	s := c.spec
	var date int64
	switch s.Period {
	case Hour:
		return n * hour * micros
	case Day:
		date = n
	case Week:
		date = n*7 + firstMonday + int64(s.Day) - 1
	case Month:
		date = dayOfMonth(int(floorDiv(n, 12)), time.Month(n-floorDiv(n, 12)*12+1), s.Day)
	case Year:
		date = dayOfMonth(int(n), time.Month(s.Month), s.Day)
	}
	return earliest(c.zone, date*day+int64(s.Hour)*hour) * micros
}

// earliest is the first second at which the local clock of zone reads wall or later, where wall is a clock reading as
// seconds since a local 1970.
func earliest(zone *time.Location, wall int64) int64 {
	for sec := wall - reach; ; {
		t := time.Unix(sec, 0).In(zone)
		_, offset := t.Zone()
		_, bound := t.ZoneBounds()
		end := bound.Unix()
		if end <= sec {
			// ZoneBounds ends a zone's last rule after 365 days of a leap year too. The rule holds to the end of the year.
			end = (floorDiv(sec, day) + 1) * day
		}
		first := max(sec, wall-int64(offset))
		if bound.IsZero() || first < end {
			return first
		}
		sec = end
	}
}

// dayOfMonth is the number of day d of a month, or of its last day.
func dayOfMonth(y int, m time.Month, d int) int64 {
	return min(civilDay(y, m, d), civilDay(y, m+1, 0))
}

// civilDay is the number of days from 1 January 1970 to a date.
func civilDay(y int, m time.Month, d int) int64 {
	return floorDiv(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix(), day)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
