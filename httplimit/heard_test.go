package httplimit

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fields is a header of pairs "Name: value".
func fields(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestHeard(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name string
		h    http.Header
		want []quota
	}{
		{"nothing", fields("Content-Type: text/plain"), nil},
		{"draft 11", fields(`RateLimit: "default";r=50;t=30`), []quota{{"ratelimit default", 50, 30 * s, 1}}},
		{"draft 12", fields(`RateLimit: "default";a=50;w=30;c=5`), []quota{{"ratelimit default", 50, 30 * s, 5}}},
		{"an endless cost", fields(`RateLimit: "default";a=50;w=30;c=999999999999999`), []quota{{"ratelimit default", 50, 30 * s, mostCost}}},
		{"tokens for names", fields(`RateLimit: Burst;r=1;t=2, day;a=3;w=4`), []quota{{"ratelimit burst", 1, 2 * s, 1}, {"ratelimit day", 3, 4 * s, 1}}},
		{"two lines", fields(`RateLimit: "a";r=1;t=2`, `RateLimit: "b";r=3;t=4`), []quota{{"ratelimit a", 1, 2 * s, 1}, {"ratelimit b", 3, 4 * s, 1}}},
		{"unknown parameters", fields(`RateLimit: "a";r=1;t=2;pk=:dHJpYWw=:;x="y"`), []quota{{"ratelimit a", 1, 2 * s, 1}}},
		{"bytes", fields(`RateLimit: "a";r=1;t=2, "b";r=1;t=2`, `RateLimit-Policy: "a";q=9;qu="content-bytes", "b";q=9;qu="requests"`),
			[]quota{{"ratelimit a", 1, 2 * s, 0}, {"ratelimit b", 1, 2 * s, 1}}},
		{"without an end", fields(`RateLimit: "a";r=1`), nil},
		{"malformed is ignored as a whole", fields(`RateLimit: "a";r=1;t=2, "b";`), nil},
		{"no count", fields(`RateLimit: "a";r="1";t=2`), nil},
		{"negative", fields(`RateLimit: "a";r=-1;t=2`), nil},
		{"draft 07", fields("RateLimit: limit=100, remaining=50, reset=5"), []quota{{"ratelimit", 50, 5 * s, 1}}},
		{"draft 03", fields("RateLimit-Limit: 100, 100;w=60", "RateLimit-Remaining: 5", "RateLimit-Reset: 7"), []quota{{"ratelimit-", 5, 7 * s, 1}}},
		{"GitLab", fields("RateLimit-Limit: 60", "RateLimit-Remaining: 0", "RateLimit-Reset: 1772366430", "RateLimit-ResetTime: x"), []quota{{"ratelimit-", 0, 30 * s, 1}}},
		{"GitHub", fields("X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 59", "X-RateLimit-Reset: 1772366460"), []quota{{"x-ratelimit-", 59, 60 * s, 1}}},
		{"by the server's clock", fields("Date: Sun, 01 Mar 2026 13:00:00 GMT", "X-RateLimit-Remaining: 59", "X-RateLimit-Reset: 1772370060"), []quota{{"x-ratelimit-", 59, 60 * s, 1}}},
		{"milliseconds since 1970", fields("X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 1772366401500"), []quota{{"x-ratelimit-", 1, 1500 * time.Millisecond, 1}}},
		{"Discord", fields("X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 1772366401.123", "X-RateLimit-Reset-After: 1.5"), []quota{{"x-ratelimit-", 1, 1500 * time.Millisecond, 1}}},
		{"Reddit", fields("X-Ratelimit-Remaining: 99.0", "X-Ratelimit-Reset: 100"), []quota{{"x-ratelimit-", 99, 100 * s, 1}}},
		{"Twitter", fields("x-rate-limit-limit: 15", "x-rate-limit-remaining: 2", "x-rate-limit-reset: 1772366410"), []quota{{"x-rate-limit-", 2, 10 * s, 1}}},
		{"a date of HTTP", fields("X-RateLimit-Remaining: 1", "X-RateLimit-Reset: Sun, 01 Mar 2026 12:00:09 GMT"), []quota{{"x-ratelimit-", 1, 9 * s, 1}}},
		{"over already", fields("X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772366399"), []quota{{"x-ratelimit-", 0, 0, 1}}},
		{"OpenAI", fields("x-ratelimit-limit-requests: 60", "x-ratelimit-limit-tokens: 150000", "x-ratelimit-remaining-requests: 59",
			"x-ratelimit-remaining-tokens: 149984", "x-ratelimit-reset-requests: 1m2s", "x-ratelimit-reset-tokens: 6ms"),
			[]quota{{"x-ratelimit-remaining-requests", 59, 62 * s, 1}, {"x-ratelimit-remaining-tokens", 149984, 6 * time.Millisecond, 0}}},
		{"OpenAI, a day", fields("x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1d2h3m4.5s"),
			[]quota{{"x-ratelimit-remaining-requests", 0, 26*time.Hour + 3*time.Minute + 4500*time.Millisecond, 1}}},
		{"Azure without numbers", fields("x-ratelimit-remaining-tokens: -1", "x-ratelimit-reset-tokens: 0"), nil},
		{"Anthropic", fields("anthropic-ratelimit-requests-limit: 50", "anthropic-ratelimit-requests-remaining: 49", "anthropic-ratelimit-requests-reset: 2026-03-01T12:00:01Z",
			"anthropic-ratelimit-input-tokens-remaining: 0", "anthropic-ratelimit-input-tokens-reset: 2026-03-01T13:00:00.5+01:00",
			"anthropic-ratelimit-unified-status: allowed"),
			[]quota{{"anthropic-ratelimit-input-tokens-remaining", 0, 500 * time.Millisecond, 0}, {"anthropic-ratelimit-requests-remaining", 49, s, 1}}},
		{"only the rest", fields("X-RateLimit-Remaining: 5", "X-RateLimit-Remaining-Minute: 5"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := heard(c.h, noon); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestParseReset(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "0.25": 250 * time.Millisecond, "999999999": 999999999 * time.Second,
		"1772366400": 0, "1772366401": time.Second, "12ms": 12 * time.Millisecond, "1h2m": 62 * time.Minute, "2d": 48 * time.Hour,
		"99999d": longest, "2562047h": longest, "1e3": -1, "-5": -1, "+5": -1, "": -1, ".5": -1, "5.": -1, "five": -1, "-5s": -1, "+5s": -1, "d": -1, "1d-2h": -1,
		"0x10": -1, "NaN": -1, "Inf": -1, "1_000": -1, "9999999999999999999": -1, "999999999999999999": longest,
		"2026-03-01T12:00:05Z": 5 * time.Second, "2026-03-01T11:00:00Z": 0, "9999-01-01T00:00:00Z": longest,
		"Sunday, 01-Mar-26 12:00:05 GMT": 5 * time.Second, "Sun Mar  1 12:00:05 2026": 5 * time.Second,
	} {
		got, ok := parseReset(text, noon)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h    http.Header
		want time.Duration // −1: none
	}{
		{fields("Retry-After: 120"), 2 * time.Minute},
		{fields("Retry-After: 0"), 0},
		{fields("Retry-After: 1.5"), 1500 * time.Millisecond},
		{fields("Retry-After: Sun, 01 Mar 2026 12:00:09 GMT"), 9 * time.Second},
		{fields("Retry-After: Sun, 01 Mar 2026 12:00:09 GMT", "Date: Sun, 01 Mar 2026 12:00:05 GMT"), 4 * time.Second},
		{fields("Retry-After: Sun, 01 Mar 2026 11:00:00 GMT"), 0},
		{fields("Retry-After: 3", "Retry-After: 5"), 5 * time.Second},
		{fields("Retry-After: 2", "Retry-After-Ms: 1250"), 1250 * time.Millisecond},
		{fields("x-ms-retry-after-ms: 7"), 7 * time.Millisecond},
		{fields("Retry-After: 99999999999"), longest},
		{fields("Retry-After: -3"), -1},
		{fields("Retry-After: soon"), -1},
		{fields(), -1},
	} {
		got, ok := parseRetryAfter(c.h, noon)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%v: %v, want %v", c.h, got, c.want)
		}
	}
}

// No header makes a time that is negative or longer than a century, or a count below zero.
func FuzzHeard(f *testing.F) {
	for _, s := range []string{"7", "1772366401.5", "1m2s", "2026-03-01T12:00:05Z", "Sun, 01 Mar 2026 12:00:09 GMT", `"a";r=1;t=2`, "limit=1, remaining=0, reset=9", "-1", "99999d", "999999999999999999"} {
		f.Add(s, s, `"a";q=1;qu="x"`)
	}
	f.Fuzz(func(t *testing.T, left, reset, policy string) {
		h := http.Header{}
		for _, name := range []string{"RateLimit", "RateLimit-Remaining", "X-RateLimit-Remaining", "X-Rate-Limit-Remaining", "X-RateLimit-Remaining-Requests", "Anthropic-RateLimit-Tokens-Remaining"} {
			h.Set(name, left)
		}
		for _, name := range []string{"RateLimit-Reset", "X-RateLimit-Reset", "X-RateLimit-Reset-After", "X-Rate-Limit-Reset", "X-RateLimit-Reset-Requests", "Anthropic-RateLimit-Tokens-Reset", "Retry-After", "Retry-After-Ms", "Date"} {
			h.Set(name, reset)
		}
		h.Set("RateLimit-Policy", policy)
		for _, q := range heard(h, noon) {
			if q.left < 0 || q.reset < 0 || q.reset > longest || q.cost < 0 {
				t.Fatalf("%+v", q)
			}
		}
		if d, ok := parseRetryAfter(h, noon); d < 0 || d > longest || !ok && d != 0 {
			t.Fatal(d, ok)
		}
		if d, ok := parseReset(reset, noon); d < 0 || d > longest || !ok && d != 0 {
			t.Fatal(d, ok)
		}
		p := &pace{}
		p.hear(1, 429, h, noon)
		if p.waits(noon) < 0 {
			t.Fatal(p.waits(noon))
		}
	})
}
