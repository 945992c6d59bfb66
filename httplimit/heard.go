package httplimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
)

// quota is what a server tells of one of its limits.
type quota struct {
	name  string
	left  int64
	reset time.Duration // until there is more
	cost  int64         // of one request; 0: it does not count requests
}

// mostCost is what a server can say that a request costs: so much that products of it are no overflow.
const mostCost = 1 << 40

// longest is as long as any time here is, so that none overflows.
const longest = time.Duration(driver.Century) * time.Microsecond

// heard is what the header of an answer tells, in all dialects it speaks. Of a limit whose end is not told, nothing is known.
func heard(h http.Header, now time.Time) []quota {
	now = serverTime(h, now)
	return slices.Concat(heardDrafts(h), heardSplit(h, now), heardNamed(h, now))
}

// serverTime is the server's clock, so that points in time are read by the clock that wrote them.
func serverTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// heardDrafts reads the field RateLimit, as draft 08 and later have it, or 07.
func heardDrafts(h http.Header) (qs []quota) {
	text := strings.Join(h.Values(fieldLimits), ",")
	if text == "" {
		return nil
	}
	if members, ok := parseDictionary(text); ok {
		var left, reset int64 = -1, -1
		for i := range members {
			m := &members[i]
			if m.value.kind != anInteger || m.value.n < 0 {
				continue
			}
			switch m.key {
			case "remaining":
				left = m.value.n
			case "reset":
				reset = m.value.n
			}
		}
		if left >= 0 && reset >= 0 {
			return []quota{{name: "ratelimit", left: left, reset: ofSeconds(reset), cost: 1}}
		}
	}
	items, ok := parseList(text)
	if !ok {
		return nil
	}
	units := heardUnits(h)
	for i := range items {
		it := &items[i]
		if it.value.kind != aString && it.value.kind != aToken {
			continue
		}
		left, ok := it.count("r", "a")
		if !ok {
			continue
		}
		reset, ok := it.count("t", "w")
		if !ok {
			continue
		}
		q := quota{name: "ratelimit " + strings.ToLower(it.value.text), left: left, reset: ofSeconds(reset), cost: 1}
		if c, ok := it.count("c"); ok {
			q.cost = min(c, mostCost)
		}
		if unit := units[strings.ToLower(it.value.text)]; unit != "" && unit != "requests" {
			q.cost = 0
		}
		qs = append(qs, q)
	}
	return qs
}

// heardUnits is what each policy counts, if not requests.
func heardUnits(h http.Header) map[string]string {
	items, ok := parseList(strings.Join(h.Values(fieldPolicy), ","))
	if !ok {
		return nil
	}
	units := map[string]string{}
	for i := range items {
		if unit, ok := items[i].param("qu"); ok {
			units[strings.ToLower(items[i].value.text)] = unit.text
		}
	}
	return units
}

// heardSplit reads the dialects with one field each for limit, rest and end.
func heardSplit(h http.Header, now time.Time) (qs []quota) {
	for _, prefix := range []string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-"} {
		left, ok := parseLeft(h.Get(prefix + "Remaining"))
		if !ok {
			continue
		}
		reset, ok := parseReset(h.Get(prefix+"Reset-After"), now)
		if !ok {
			reset, ok = parseReset(h.Get(prefix+"Reset"), now)
		}
		if ok {
			qs = append(qs, quota{name: strings.ToLower(prefix), left: left, reset: reset, cost: 1})
		}
	}
	return qs
}

// heardNamed reads the dialects that name what they limit: x-ratelimit-remaining-tokens and anthropic-ratelimit-tokens-remaining.
func heardNamed(h http.Header, now time.Time) (qs []quota) {
	const before, vendor = "X-Ratelimit-Remaining-", "Anthropic-Ratelimit-"
	for field := range h {
		var what, reset string
		if rest, ok := strings.CutPrefix(field, before); ok {
			what, reset = rest, "X-Ratelimit-Reset-"+rest
		} else if rest, ok := strings.CutPrefix(field, vendor); ok {
			if what, ok = strings.CutSuffix(rest, "-Remaining"); !ok {
				continue
			}
			reset = vendor + what + "-Reset"
		} else {
			continue
		}
		left, ok := parseLeft(h.Get(field))
		until, ok2 := parseReset(h.Get(reset), now)
		if !ok || !ok2 {
			continue
		}
		q := quota{name: strings.ToLower(field), left: left, reset: until}
		if what = strings.ToLower(what); what == "requests" || strings.HasSuffix(what, "-requests") {
			q.cost = 1
		}
		qs = append(qs, q)
	}
	slices.SortFunc(qs, func(a, b quota) int { return cmp.Compare(a.name, b.name) })
	return qs
}

// parseLeft reads what is left: a count. A part, which some servers write, is rounded down; some mean "not known" by −1.
func parseLeft(s string) (int64, bool) {
	whole, part, _ := strings.Cut(strings.TrimSpace(s), ".")
	if !allDigits(whole) || part != "" && !allDigits(part) {
		return 0, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	return n, err == nil
}

// parseReset reads when there is more, in any of the ways that servers say it: seconds, also with a part; seconds or
// milliseconds since 1970; a duration such as 1m2s; a date of HTTP or RFC 3339. What is over is 0.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, false
	}
	if whole, ns, ok := parseNumber(s); ok {
		switch {
		case whole >= 1e12:
			return until(time.UnixMilli(whole), now), true
		case whole >= 1e9:
			return until(time.Unix(whole, ns), now), true
		}
		return span(whole, time.Second, ns), true
	}
	if d, ok := parseSpan(s); ok {
		return d, true
	}
	if t, err := http.ParseTime(s); err == nil {
		return until(t, now), true
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return until(t, now), true
	}
	return 0, false
}

// until is how long it is to t; 0 if it is over.
func until(t, now time.Time) time.Duration { return min(max(0, t.Sub(now)), longest) }

// parseNumber reads digits, perhaps with a part, which is in billionths.
func parseNumber(s string) (whole, ns int64, ok bool) {
	digits, part, dot := strings.Cut(s, ".")
	if !allDigits(digits) || dot && !allDigits(part) || len(digits) > 18 {
		return 0, 0, false
	}
	whole, err := strconv.ParseInt(digits, 10, 64)
	if dot && err == nil {
		ns, err = strconv.ParseInt((part + "000000000")[:9], 10, 64)
	}
	return whole, ns, err == nil
}

// span is so many units and billionths of one, at most the longest.
func span(whole int64, unit time.Duration, billionths int64) time.Duration {
	if whole >= int64(longest/unit) {
		return longest
	}
	return time.Duration(whole)*unit + time.Duration(billionths)*unit/time.Second
}

// parseSpan reads 1d2h3m4.5s and 6ms: durations as Go has them, with days before.
func parseSpan(s string) (time.Duration, bool) {
	var days time.Duration
	if before, after, ok := strings.Cut(s, "d"); ok {
		if !allDigits(before) || len(before) > 5 {
			return 0, false
		}
		n, err := strconv.ParseInt(before, 10, 64)
		if err != nil {
			return 0, false
		}
		if days, s = time.Duration(n)*24*time.Hour, after; s == "" {
			return min(days, longest), true
		}
	}
	if !isDigit(s[0]) {
		return 0, false // no sign
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, false
	}
	return min(min(days, longest)+min(d, longest), longest), true
}

// parseRetryAfter reads for how long a server wants to be left alone.
func parseRetryAfter(h http.Header, now time.Time) (d time.Duration, ok bool) {
	now = serverTime(h, now)
	for _, field := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} { // finer than Retry-After beside it
		if ms, part, ok := parseNumber(strings.TrimSpace(h.Get(field))); ok {
			return span(ms, time.Millisecond, part), true
		}
	}
	for _, s := range h[fieldRetryAfter] { // the longest, if there are several
		s = strings.TrimSpace(s)
		if n, ns, found := parseNumber(s); found {
			d, ok = max(d, span(n, time.Second, ns)), true
		} else if t, err := http.ParseTime(s); err == nil {
			d, ok = max(d, until(t, now)), true
		}
	}
	return d, ok
}

func ofSeconds(n int64) time.Duration { return span(n, time.Second, 0) }

func allDigits(s string) bool {
	for _, c := range []byte(s) {
		if !isDigit(c) {
			return false
		}
	}
	return s != ""
}
