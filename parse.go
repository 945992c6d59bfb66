package ration

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ration-go/ration/internal/calendar"
)

// ParseLimit reads the text form of a limit:
//
//	bucket 10/1m burst 20                            refill/period, burst; without burst, the refill
//	sliding 3/24h                                    limit/window; "sliding 24h" is one in 24h
//	fixed 100/1m                                     limit/window
//	budget 5000000/month Europe/Berlin from day 15 06:00    limit/hour|day|week|month|year, zone, start
//	concurrent 5 lease 30s                           slots, lease
//
// Numbers are digits only; durations are those of time.ParseDuration. A start is "from", then the month's name (year), the
// weekday (week) or "day N" (month, year), and the hour as HH:00, each only if it is not the first. The result is valid and
// never a Rule: a name is not part of the text. Errors are ErrInvalidLimit and say what was wrong.
func ParseLimit(text string) (Limit, error) {
	limit, err := parseLimit(text)
	if err == nil {
		err = limit.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%w (in %.100q)", err, text)
	}
	return limit, nil
}

func parseLimit(text string) (Limit, error) {
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "bucket":
		return parseBucket(rest)
	case "sliding":
		if !strings.Contains(rest, "/") {
			rest = "1/" + rest
		}
		r, err := parseRate(rest)
		return SlidingWindow{r.N, r.Per}, err
	case "fixed":
		r, err := parseRate(rest)
		return FixedWindow{r.N, r.Per}, err
	case "budget":
		return parseBudget(rest)
	case "concurrent":
		return parseConcurrency(rest)
	}
	return nil, invalidf(ErrInvalidLimit, "a limit begins with bucket, sliding, fixed, budget or concurrent and a space, not %.20q", kind)
}

func parseBucket(text string) (Limit, error) {
	rate, burst, hasBurst := strings.Cut(text, " ")
	r, err := parseRate(rate)
	if err != nil {
		return nil, err
	}
	b := TokenBucket{Burst: r.N, Refill: r}
	if !hasBurst {
		return b, nil
	}
	number, ok := strings.CutPrefix(burst, "burst ")
	if !ok {
		return nil, invalidf(ErrInvalidLimit, "after a bucket's rate comes burst and a number, not %.20q", burst)
	}
	b.Burst, err = parseCount(number)
	return b, err
}

func parseBudget(text string) (Limit, error) {
	number, rest, ok := strings.Cut(text, "/")
	if !ok {
		return nil, invalidf(ErrInvalidLimit, "a budget is a number, a slash and a period, as in budget 100/day")
	}
	n, err := parseCount(number)
	if err != nil {
		return nil, err
	}
	spec, err := calendar.Parse("/" + rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidLimit, err)
	}
	return Budget{Limit: n, Period: Period(spec.Period), Zone: spec.Zone, Month: time.Month(spec.Month), Day: spec.Day, Hour: spec.Hour}, nil
}

func parseConcurrency(text string) (Limit, error) {
	number, lease, ok := strings.Cut(text, " lease ")
	if !ok {
		return nil, invalidf(ErrInvalidLimit, "concurrent is followed by a number, lease and a duration, as in concurrent 5 lease 30s")
	}
	n, err := parseCount(number)
	if err != nil {
		return nil, err
	}
	d, err := parseDuration(lease)
	return Concurrency{n, d}, err
}

// parseRate reads N/duration.
func parseRate(text string) (r Rate, err error) {
	number, period, ok := strings.Cut(text, "/")
	if !ok {
		return r, invalidf(ErrInvalidLimit, "%.20q is not a number, a slash and a duration, as in 10/1m", text)
	}
	if r.N, err = parseCount(number); err != nil {
		return r, err
	}
	r.Per, err = parseDuration(period)
	return r, err
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || strings.HasPrefix(text, "+") {
		return 0, invalidf(ErrInvalidLimit, "%.20q is not a duration such as 10s, 1m or 24h", text)
	}
	return d, nil
}

// parseCount reads digits.
func parseCount(text string) (int64, error) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, invalidf(ErrInvalidLimit, "%.20q is not a whole number, in digits only", text)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > MaxCount {
		return 0, invalidf(ErrInvalidLimit, "%.20q is not a number from 0 to 2^53 − 1", text)
	}
	return n, nil
}
