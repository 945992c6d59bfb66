package ration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
)

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ration.Limit{
		"bucket 10/1m burst 20":                    ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)},
		"bucket 1/2m burst 0":                      ration.TokenBucket{Refill: ration.Every(2 * time.Minute)},
		"sliding 3/24h":                            ration.SlidingWindow{Limit: 3, Window: 24 * time.Hour},
		"fixed 100/1m":                             ration.FixedWindow{Limit: 100, Window: time.Minute},
		"fixed 0/1h30m":                            ration.FixedWindow{Window: 90 * time.Minute},
		"fixed 5/1.5s":                             ration.FixedWindow{Limit: 5, Window: 1500 * time.Millisecond},
		"concurrent 5 lease 30s":                   ration.Concurrency{Limit: 5, Lease: 30 * time.Second},
		"budget 5/hour":                            ration.Budget{Limit: 5, Period: ration.Hour},
		"budget 9007199254740991/week from Sunday": ration.Budget{Limit: 1<<53 - 1, Period: ration.Week, Day: 7},
		"budget 5000000/month Europe/Berlin from day 15 06:00": ration.Budget{Limit: 5_000_000, Period: ration.Month, Zone: "Europe/Berlin", Day: 15, Hour: 6},
		"budget 1/year America/New_York from April day 6":      ration.Budget{Limit: 1, Period: ration.Year, Zone: "America/New_York", Month: 4, Day: 6},
		"budget 1/day from 06:00":                              ration.Budget{Limit: 1, Period: ration.Day, Hour: 6},
	} {
		got, err := ration.ParseLimit(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got.String() != text || want.String() != text {
			t.Errorf("%s: String gives %q and %q", text, got, want)
		}
		again, err := ration.ParseLimit(want.String())
		if err != nil || again != got {
			t.Errorf("%s: %#v, then %#v", text, got, again)
		}
		if rule := (ration.Rule{Name: "x", Limit: want}); rule.String() != text || rule.Validate() != nil {
			t.Errorf("%s: as a rule %q", text, rule)
		}
	}
	for text, want := range map[string]ration.Limit{
		"bucket 10/1m": ration.TokenBucket{Burst: 10, Refill: ration.PerMinute(10)},
		"sliding 24h":  ration.SlidingWindow{Limit: 1, Window: 24 * time.Hour},
	} {
		if got, err := ration.ParseLimit(text); err != nil || got != want {
			t.Errorf("%s: %#v %v", text, got, err)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "bucket", "bucket ", "bucket 10", "bucket 10/", "bucket /1m", "bucket 0/1m", "bucket -1/1m", "bucket +1/1m", "bucket 1.0/1m", "bucket 1e3/1m",
		"bucket 10/1m burst", "bucket 10/1m burst -1", "bucket 10/1m burst 20 ", "bucket 10/1m  burst 20", "bucket 10/-1m", "bucket 10/+1m", "bucket 10/1", "bucket 10/1d",
		"bucket 10/999us", "bucket 10/87661h", "sliding", "sliding 3", "sliding 3/0s", "sliding -3/1h", "fixed 1/1m x", "fixed ٣/1m", "Bucket 10/1m", "budget 5",
		"budget 5/", "budget 5/decade", "budget 5/hour Europe/Berlin", "budget 5/day Local", "budget 5/day Mars/Olympus", "budget 5/month from day 32", "budget 9007199254740992/day",
		"budget 99999999999999999999/day", "budget 5/day posix/UTC", "budget 5/day +09:00", "concurrent", "concurrent 5", "concurrent 5 lease", "concurrent 5 lease 1ms", "concurrent 5000 lease 1m", strings.Repeat("x", 1<<20),
	} {
		got, err := ration.ParseLimit(text)
		if !errors.Is(err, ration.ErrInvalidLimit) || got != nil {
			t.Errorf("%.50q: %v %v", text, got, err)
		} else if len(err.Error()) > 500 {
			t.Errorf("%.50q: an error of %d bytes", text, len(err.Error()))
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{"bucket 10/1m burst 20", "sliding 3/24h", "fixed 100/1m", "budget 5000000/month Europe/Berlin from day 15 06:00", "budget 1/year from March day 31", "budget 2/week Asia/Tokyo from Sunday 23:00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := ration.ParseLimit(text)
		if err != nil {
			if !errors.Is(err, ration.ErrInvalidLimit) {
				t.Fatal(err)
			}
			return
		}
		if err := limit.Validate(); err != nil {
			t.Fatalf("%q is not valid: %v", text, err)
		}
		again, err := ration.ParseLimit(limit.String())
		if err != nil || again != limit {
			t.Fatalf("%q is %#v, written %q, read %#v %v", text, limit, limit, again, err)
		}
	})
}

// A limit that cannot be counted exactly names a near one that can.
func TestValidateNamesANearRate(t *testing.T) {
	t.Parallel()
	err := ration.TokenBucket{Burst: 1 << 40, Refill: ration.Rate{N: 7, Per: 11*time.Minute + 1234567*time.Microsecond}}.Validate()
	if !errors.Is(err, ration.ErrInvalidLimit) || !strings.Contains(err.Error(), "is near and works") {
		t.Fatal(err)
	}
	err = ration.TokenBucket{Burst: 1 << 52, Refill: ration.PerSecond(1)}.Validate()
	if !errors.Is(err, ration.ErrInvalidLimit) || !strings.Contains(err.Error(), "at most") {
		t.Fatal(err)
	}
	if err := (ration.TokenBucket{Burst: 1<<51 - 1, Refill: ration.PerSecond(1 << 40)}).Validate(); err != nil {
		t.Fatal(err)
	}
}
