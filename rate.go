package ration

import (
	"strconv"
	"strings"
	"time"
)

// Shortest and longest window and period of a rate.
const (
	minSpan = time.Millisecond
	maxSpan = 87_660 * time.Hour // 10 × 365.25 days
)

// MaxCount is the greatest limit, burst, cost and count: 2^53 − 1, exact in JSON and Lua too.
const MaxCount = 1<<53 - 1

// A Rate is N per Per: 10 each minute, continuously, not 10 at the full minute. Per is 1 ms to 87 660 h; a part of a
// microsecond is rounded up. The zero Rate is invalid.
type Rate struct {
	N   int64
	Per time.Duration
}

// Per is the rate of n each d.
func Per(n int64, d time.Duration) Rate { return Rate{n, d} }

// PerSecond is the rate of n each second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// PerMinute is the rate of n each minute.
func PerMinute(n int64) Rate { return Rate{n, time.Minute} }

// Every is the rate of one each d, as in golang.org/x/time/rate.
func Every(d time.Duration) Rate { return Rate{1, d} }

// String is "10/1m".
func (r Rate) String() string { return strconv.FormatInt(r.N, 10) + "/" + durationText(r.Per) }

// durationText is d as time.ParseDuration reads it, without the zero units at its end: 1m, not 1m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

func checkSpan(what string, d time.Duration) error {
	if d < minSpan || d > maxSpan {
		return invalidf(ErrInvalidLimit, "%s of %v is not between %v and %s", what, d, minSpan, durationText(maxSpan))
	}
	return nil
}

func checkSize(what string, n int64) error {
	if n < 0 || n > MaxCount {
		return invalidf(ErrInvalidLimit, "%s of %d is not between 0 and 2^53 − 1", what, n)
	}
	return nil
}
