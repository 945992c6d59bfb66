package calendar

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // for machines without a database of zones
)

func calendarOf(t testing.TB, text string) *Calendar {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func instant(t testing.TB, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, spec, at, last, this, next, end string }{
		{"an hour", "/hour", "2026-01-01T00:59:59Z", "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"},
		{"the first hour", "/hour", "1970-01-01T00:00:00Z", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z"},
		{"the second day", "/day", "1970-01-02T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z", "1970-01-03T00:00:00Z", "1970-01-04T00:00:00Z"},
		{"the first day", "/day", "1970-01-01T10:00:00Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z", "1970-01-03T00:00:00Z"},
		{"the day before the first", "/day", "1969-12-31T10:00:00Z", "1969-12-30T00:00:00Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"},
		{"the last day of a leap year in Berlin, by rule", "/day Europe/Berlin", "2040-12-31T12:00:00+01:00", "2040-12-30T00:00:00+01:00", "2040-12-31T00:00:00+01:00", "2041-01-01T00:00:00+01:00", "2041-01-02T00:00:00+01:00"},
		{"the last day of a leap year in Sydney, by rule", "/day Australia/Sydney", "2096-12-31T12:00:00+11:00", "2096-12-30T00:00:00+11:00", "2096-12-31T00:00:00+11:00", "2097-01-01T00:00:00+11:00", "2097-01-02T00:00:00+11:00"},

		{"midnight that São Paulo skips", "/day America/Sao_Paulo", "2018-11-04T01:00:00-02:00", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", "2018-11-06T00:00:00-02:00"},
		{"just before it", "/day America/Sao_Paulo", "2018-11-03T23:59:59-03:00", "2018-11-02T00:00:00-03:00", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"midnight that São Paulo nearly reaches twice", "/day America/Sao_Paulo", "2018-02-17T23:30:00-03:00", "2018-02-16T00:00:00-02:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", "2018-02-19T00:00:00-03:00"},
		{"midnight that Havana has twice", "/day America/Havana", "2024-11-03T00:30:00-05:00", "2024-11-02T00:00:00-04:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00", "2024-11-05T00:00:00-05:00"},
		{"midnight that Havana skips", "/day America/Havana", "2024-03-10T01:00:00-04:00", "2024-03-09T00:00:00-05:00", "2024-03-10T01:00:00-04:00", "2024-03-11T00:00:00-04:00", "2024-03-12T00:00:00-04:00"},
		{"two o'clock that Berlin skips", "/day Europe/Berlin from 02:00", "2024-03-31T03:00:00+02:00", "2024-03-30T02:00:00+01:00", "2024-03-31T03:00:00+02:00", "2024-04-01T02:00:00+02:00", "2024-04-02T02:00:00+02:00"},
		{"two o'clock that Berlin has twice", "/day Europe/Berlin from 02:00", "2024-10-27T02:30:00+01:00", "2024-10-26T02:00:00+02:00", "2024-10-27T02:00:00+02:00", "2024-10-28T02:00:00+01:00", "2024-10-29T02:00:00+01:00"},
		{"two o'clock that New York skips", "/day America/New_York from 02:00", "2024-03-10T03:00:00-04:00", "2024-03-09T02:00:00-05:00", "2024-03-10T03:00:00-04:00", "2024-03-11T02:00:00-04:00", "2024-03-12T02:00:00-04:00"},
		{"one o'clock that New York has twice", "/day America/New_York from 01:00", "2024-11-03T01:30:00-05:00", "2024-11-02T01:00:00-04:00", "2024-11-03T01:00:00-04:00", "2024-11-04T01:00:00-05:00", "2024-11-05T01:00:00-05:00"},
		{"a day of 23 hours", "/day Europe/Berlin", "2024-03-31T23:59:59+02:00", "2024-03-30T00:00:00+01:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00", "2024-04-02T00:00:00+02:00"},
		{"a day of 25 hours", "/day Europe/Berlin", "2024-10-27T23:59:59+01:00", "2024-10-26T00:00:00+02:00", "2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00", "2024-10-29T00:00:00+01:00"},
		{"half an hour at Lord Howe", "/day Australia/Lord_Howe from 02:00", "2024-10-06T02:30:00+11:00", "2024-10-05T02:00:00+10:30", "2024-10-06T02:30:00+11:00", "2024-10-07T02:00:00+11:00", "2024-10-08T02:00:00+11:00"},
		{"half an hour back at Lord Howe", "/day Australia/Lord_Howe from 02:00", "2024-04-07T02:00:00+10:30", "2024-04-06T02:00:00+11:00", "2024-04-07T02:00:00+10:30", "2024-04-08T02:00:00+10:30", "2024-04-09T02:00:00+10:30"},
		{"Kathmandu", "/day Asia/Kathmandu", "2026-05-04T00:00:00+05:45", "2026-05-03T00:00:00+05:45", "2026-05-04T00:00:00+05:45", "2026-05-05T00:00:00+05:45", "2026-05-06T00:00:00+05:45"},
		{"Kathmandu moves by a quarter", "/day Asia/Kathmandu", "1985-12-31T23:59:00+05:30", "1985-12-30T00:00:00+05:30", "1985-12-31T00:00:00+05:30", "1986-01-01T00:15:00+05:45", "1986-01-02T00:00:00+05:45"},
		{"one minute after midnight in Tokyo", "/day Asia/Tokyo", "2026-05-04T00:01:00+09:00", "2026-05-03T00:00:00+09:00", "2026-05-04T00:00:00+09:00", "2026-05-05T00:00:00+09:00", "2026-05-06T00:00:00+09:00"},
		{"the day that Apia skipped", "/day Pacific/Apia", "2011-12-29T23:00:00-10:00", "2011-12-28T00:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"the day after", "/day Pacific/Apia", "2011-12-31T00:00:00+14:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00", "2012-01-02T00:00:00+14:00"},
		{"two days later", "/day Pacific/Apia", "2012-01-01T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00", "2012-01-02T00:00:00+14:00", "2012-01-03T00:00:00+14:00"},
		{"a month from a day that Apia skipped", "/month Pacific/Apia from day 30 12:00", "2011-12-31T00:00:00+14:00", "2011-11-30T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-30T12:00:00+14:00", "2012-02-29T12:00:00+14:00"},
		{"Monrovia, 44 minutes and 30 seconds behind", "/day Africa/Monrovia", "1971-06-01T00:44:30Z", "1971-05-31T00:44:30Z", "1971-06-01T00:44:30Z", "1971-06-02T00:44:30Z", "1971-06-03T00:44:30Z"},

		{"a week", "/week", "2026-03-01T12:00:00Z", "2026-02-16T00:00:00Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"},
		{"a week from Sunday", "/week from Sunday", "2026-03-01T00:00:00Z", "2026-02-22T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z", "2026-03-15T00:00:00Z"},
		{"a week from Saturday evening", "/week Europe/Berlin from Saturday 18:00", "2024-03-30T17:59:59+01:00", "2024-03-16T18:00:00+01:00", "2024-03-23T18:00:00+01:00", "2024-03-30T18:00:00+01:00", "2024-04-06T18:00:00+02:00"},
		{"the week of the epoch", "/week", "1970-01-01T00:00:00Z", "1969-12-22T00:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z", "1970-01-12T00:00:00Z"},

		{"a month", "/month", "2026-12-31T23:59:59Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		{"a month from day 31", "/month from day 31", "2026-02-28T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z", "2026-04-30T00:00:00Z"},
		{"the same before its start", "/month from day 31", "2026-02-27T23:59:59Z", "2025-12-31T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"the same in a leap year", "/month from day 31", "2028-02-28T00:00:00Z", "2027-12-31T00:00:00Z", "2028-01-31T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"},
		{"no leap year", "/month from day 29", "2100-02-28T00:00:00Z", "2100-01-29T00:00:00Z", "2100-02-28T00:00:00Z", "2100-03-29T00:00:00Z", "2100-04-29T00:00:00Z"},
		{"a month in Berlin from day 15", "/month Europe/Berlin from day 15 06:00", "2026-03-15T05:59:59+01:00", "2026-01-15T06:00:00+01:00", "2026-02-15T06:00:00+01:00", "2026-03-15T06:00:00+01:00", "2026-04-15T06:00:00+02:00"},
		{"a month of daylight saving", "/month Europe/Berlin", "2024-03-10T00:00:00Z", "2024-02-01T00:00:00+01:00", "2024-03-01T00:00:00+01:00", "2024-04-01T00:00:00+02:00", "2024-05-01T00:00:00+02:00"},

		{"a year", "/year", "2026-07-01T00:00:00Z", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"},
		{"a year from 29 February", "/year from February day 29", "2028-02-28T23:59:59Z", "2026-02-28T00:00:00Z", "2027-02-28T00:00:00Z", "2028-02-29T00:00:00Z", "2029-02-28T00:00:00Z"},
		{"a year from 31 April", "/year from April day 31", "2026-04-30T00:00:00Z", "2025-04-30T00:00:00Z", "2026-04-30T00:00:00Z", "2027-04-30T00:00:00Z", "2028-04-30T00:00:00Z"},
		{"the last year", "/year Asia/Tokyo from April", "2155-06-01T00:00:00Z", "2154-04-01T00:00:00+09:00", "2155-04-01T00:00:00+09:00", "2156-04-01T00:00:00+09:00", "2157-04-01T00:00:00+09:00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			at := instant(t, tc.at)
			want := [4]int64{instant(t, tc.last), instant(t, tc.this), instant(t, tc.next), instant(t, tc.end)}
			c := calendarOf(t, tc.spec)
			compare(t, c, at, want)
			compare(t, c, want[1], want)
			compare(t, c, want[2]-1, want)
		})
	}
}

func compare(t *testing.T, c *Calendar, at int64, want [4]int64) {
	t.Helper()
	if got := c.Bounds(at); got != want {
		in := func(at int64) string { return time.UnixMicro(at).In(c.zone).Format(time.RFC3339Nano) }
		t.Fatalf("%v at %s (%d)\n got %s  %s  %s  %s\nwant %s  %s  %s  %s", c.spec, in(at), at,
			in(got[0]), in(got[1]), in(got[2]), in(got[3]), in(want[0]), in(want[1]), in(want[2]), in(want[3]))
	}
}

// testZones are the zones whose clocks did the strangest things, and one of each usual kind.
var testZones = []string{
	"", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "America/Havana",
	"America/Caracas", "America/St_Johns", "America/Nuuk", "America/Scoresbysund", "America/Asuncion", "America/Santiago",
	"Antarctica/Troll", "Antarctica/Casey", "Africa/Casablanca", "Africa/Cairo", "Africa/Monrovia", "Asia/Tokyo", "Asia/Kathmandu",
	"Asia/Gaza", "Asia/Amman", "Asia/Tehran", "Asia/Pyongyang", "Asia/Manila", "Australia/Lord_Howe", "Australia/Sydney",
	"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Enderbury", "Pacific/Norfolk", "Etc/GMT+12",
}

func randomSpec(r *rand.Rand) Spec {
	s := Spec{Period: Period(1 + r.IntN(5))}
	if s.Period == Hour {
		return s
	}
	s.Zone = testZones[r.IntN(len(testZones))]
	if r.IntN(2) == 0 {
		s.Hour = r.IntN(24)
		if r.IntN(2) == 0 {
			s.Hour = r.IntN(4)
		}
	}
	switch s.Period {
	case Week:
		s.Day = r.IntN(8)
	case Month, Year:
		s.Day = r.IntN(32)
		if r.IntN(3) == 0 {
			s.Day = 28 + r.IntN(4)
		}
	}
	if s.Period == Year {
		s.Month = r.IntN(13)
	}
	return s
}

// randomAt is a microsecond from 1970 to 2155, often near a change of the zone's clocks.
func randomAt(r *rand.Rand, zone *time.Location) int64 {
	const end = 186 * 365.2425 * 86400 * 1e6
	at := r.Int64N(end)
	if r.IntN(2) == 0 {
		at = r.Int64N(end / 3)
	}
	if _, next := time.UnixMicro(at).In(zone).ZoneBounds(); !next.IsZero() && r.IntN(4) > 0 {
		at = next.UnixMicro()
		switch r.IntN(4) {
		case 0:
			at--
		case 1:
			at += r.Int64N(3*86400*1e6) - 86400*1e6
		}
	}
	return at
}

// TestBoundsReference compares with a scan of the local clock, half minute by half minute, for the first reading that is
// not before the anchor's.
func TestBoundsReference(t *testing.T) {
	t.Parallel()
	rounds := 800
	if testing.Short() || raced {
		rounds = 200
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		c, err := New(randomSpec(r))
		if err != nil {
			t.Fatal(err)
		}
		at := randomAt(r, c.zone)
		compare(t, c, at, reference(c, at))
	}
}

func reference(c *Calendar, at int64) (b [4]int64) {
	s, now := c.spec, time.UnixMicro(at).In(c.zone)
	y, m, d := now.Date()
	var starts []int64
	for i := -4; i <= 4; i++ {
		var anchor time.Time
		switch s.Period {
		case Hour:
			starts = append(starts, now.UTC().Truncate(time.Hour).Add(time.Duration(i)*time.Hour).UnixMicro())
			continue
		case Day:
			anchor = time.Date(y, m, d+i, 0, 0, 0, 0, time.UTC)
		case Week:
			anchor = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
			for anchor.Weekday() != time.Weekday(s.Day%7) {
				anchor = anchor.AddDate(0, 0, 1)
			}
			anchor = anchor.AddDate(0, 0, 7*i)
		case Month, Year:
			first := time.Date(y, m+time.Month(i), 1, 0, 0, 0, 0, time.UTC)
			if s.Period == Year {
				first = time.Date(y+i, time.Month(s.Month), 1, 0, 0, 0, 0, time.UTC)
			}
			anchor = first.AddDate(0, 0, s.Day-1)
			for anchor.Month() != first.Month() {
				anchor = anchor.AddDate(0, 0, -1)
			}
		}
		starts = append(starts, scan(c.zone, anchor, s.Hour))
	}
	starts = slices.Compact(starts)
	i := 0
	for starts[i+1] <= at {
		i++
	}
	return [4]int64(starts[i-1 : i+3])
}

func scan(zone *time.Location, anchor time.Time, hour int) int64 {
	wantY, wantM, wantD := anchor.Date()
	want := [4]int{wantY, int(wantM), wantD, hour}
	for t := anchor.Add(time.Duration(hour)*time.Hour - 26*time.Hour); ; t = t.Add(30 * time.Second) {
		local := t.In(zone)
		y, m, d := local.Date()
		if got := [4]int{y, int(m), d, local.Hour()}; slices.Compare(got[:], want[:]) >= 0 {
			return t.UnixMicro()
		}
	}
}

// TestBoundsChain walks from period to period: each must begin where the one before ends, through all the years.
func TestBoundsChain(t *testing.T) {
	t.Parallel()
	days := []string{"Europe/Berlin", "America/Havana", "Pacific/Apia", "America/Nuuk"}
	for _, zone := range testZones {
		short := Spec{Period: Week, Zone: zone}
		if slices.Contains(days, zone) {
			short.Period = Day
		}
		for _, s := range []Spec{short, {Period: Week, Zone: zone, Day: 7, Hour: 2}, {Period: Month, Zone: zone, Day: 31}, {Period: Year, Zone: zone, Month: 2, Day: 29}} {
			c, err := New(s)
			if err != nil {
				t.Fatal(err)
			}
			b := c.Bounds(0)
			for b[1] < instant(t, "2155-01-01T00:00:00Z") {
				next := c.Bounds(b[2])
				if next[0] != b[1] || next[1] != b[2] || next[2] != b[3] || next[3] <= next[2] {
					t.Fatalf("%v: %v is followed by %v", s, b, next)
				}
				if other := c.Bounds(next[2] - 1); other != next {
					t.Fatalf("%v: %v at its start, %v at its end", s, next, other)
				}
				b = next
			}
		}
	}
}

func TestBoundsDoNotAllocate(t *testing.T) {
	c := calendarOf(t, "/month Europe/Berlin from day 31")
	if n := testing.AllocsPerRun(100, func() { c.Bounds(1e15) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBounds(b *testing.B) {
	for _, spec := range []string{"/hour", "/day Europe/Berlin", "/month America/Sao_Paulo from day 31", "/year Pacific/Apia from February day 29"} {
		b.Run(spec[1:4], func(b *testing.B) {
			c := calendarOf(b, spec)
			at := instant(b, "2050-05-05T12:00:00Z")
			for b.Loop() {
				c.bounds(at)
			}
		})
	}
	b.Run("same", func(b *testing.B) {
		c := calendarOf(b, "/day Europe/Berlin")
		for b.Loop() {
			c.Bounds(1e15)
		}
	})
}
