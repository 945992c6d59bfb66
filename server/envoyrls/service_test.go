package envoyrls_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/envoyrls"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// limited is a domain with one limit by key.
func limited(limit string) string {
	return "domain: d\ndescriptors:\n- key: k\n  rate_limit: " + limit
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for unit, length := range map[string]time.Duration{
		"second": time.Second, "Minute": time.Minute, "HOUR": time.Hour, "day": 24 * time.Hour, "week": 168 * time.Hour,
		"month": 720 * time.Hour, "year": 8760 * time.Hour,
	} {
		e := newEnv(t, limited("{unit: "+unit+", requests_per_unit: 2}"), nil)
		r := request("d", "k=v")
		e.want(r, fmt.Sprintf("OK | 2/%s left 1 reset %v", strings.ToUpper(unit), length))
		e.clock.advance(length / 2)
		e.want(r, fmt.Sprintf("OK | 2/%s left 0 reset %v", strings.ToUpper(unit), (length/2+time.Second-1).Truncate(time.Second)))
		e.clock.advance(length/2 - time.Microsecond)
		e.want(r, fmt.Sprintf("OVER_LIMIT | OVER_LIMIT 2/%s left 0 reset 1s", strings.ToUpper(unit)))
		e.clock.advance(time.Microsecond)
		e.want(r, fmt.Sprintf("OK | 2/%s left 1 reset %v", strings.ToUpper(unit), length))
	}
}

func TestUnitMultiplier(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: minute, requests_per_unit: 1, unit_multiplier: 15, name: quarter}"), nil)
	e.want(request("d", "k=v"), "OK | 1/15MINUTE quarter left 0 reset 15m0s")
	e.want(request("d", "k=v"), "OVER_LIMIT | OVER_LIMIT 1/15MINUTE quarter left 0 reset 15m0s")
}

func TestAlgorithms(t *testing.T) {
	t.Parallel()
	t.Run("sliding window", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, limited("{unit: minute, requests_per_unit: 2, algorithm: sliding_window}"), nil)
		e.want(request("d", "k=v"), "OK | 2/MINUTE left 1 reset 1m0s")
		e.clock.advance(50 * time.Second)
		e.want(request("d", "k=v"), "OK | 2/MINUTE left 0 reset 1m0s")
		e.want(request("d", "k=v"), "OVER_LIMIT | OVER_LIMIT 2/MINUTE left 0 reset 10s")
		e.clock.advance(10 * time.Second)
		e.want(request("d", "k=v"), "OK | 2/MINUTE left 0 reset 1m0s")
	})
	t.Run("token bucket", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, limited("{unit: minute, requests_per_unit: 6, algorithm: token_bucket, burst: 2}"), nil)
		e.want(request("d", "k=v"), "OK | 6/MINUTE left 1 reset 10s")
		e.want(request("d", "k=v"), "OK | 6/MINUTE left 0 reset 20s")
		e.want(request("d", "k=v"), "OVER_LIMIT | OVER_LIMIT 6/MINUTE left 0 reset 10s")
		e.clock.advance(10 * time.Second)
		e.want(request("d", "k=v"), "OK | 6/MINUTE left 0 reset 20s")
	})
	t.Run("nothing at all", func(t *testing.T) {
		t.Parallel()
		for _, algorithm := range []string{"fixed_window", "sliding_window", "token_bucket"} {
			e := newEnv(t, limited("{unit: minute, requests_per_unit: 0, algorithm: "+algorithm+"}"), nil)
			e.want(request("d", "k=v"), "OVER_LIMIT | OVER_LIMIT 0/MINUTE left 0 reset 1m0s")
		}
	})
	t.Run("months and years of the calendar", func(t *testing.T) {
		t.Parallel()
		for limit, left := range map[string]time.Duration{
			"unit: month, requests_per_unit: 1, algorithm: calendar":                      15*24*time.Hour + 11*time.Hour + 29*time.Minute + 45*time.Second,
			"unit: month, requests_per_unit: 1, algorithm: calendar, zone: Europe/Berlin": 15*24*time.Hour + 9*time.Hour + 29*time.Minute + 45*time.Second,
			"unit: month, requests_per_unit: 1, algorithm: calendar, from: day 16 06:00":  17*time.Hour + 29*time.Minute + 45*time.Second,
			"unit: year, requests_per_unit: 1, algorithm: calendar":                       (15+31+31+30+31+30+31)*24*time.Hour + 11*time.Hour + 29*time.Minute + 45*time.Second,
			"unit: hour, requests_per_unit: 1, algorithm: calendar":                       29*time.Minute + 45*time.Second,
		} {
			e := newEnv(t, limited("{"+limit+"}"), nil)
			e.ask(request("d", "k=v"))
			a := e.ask(request("d", "k=v"))
			if got := a.Statuses[0].DurationUntilReset.AsDuration(); a.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT || got != left {
				t.Errorf("%s: %v, %v", limit, a.OverallCode, got)
			}
			e.clock.advance(left)
			if n := e.passes(2, request("d", "k=v")); n != 1 {
				t.Errorf("%s: %d in the next period", limit, n)
			}
		}
	})
}

// TestRetryAfterIsTrue: who waits as long as he is told, in the whole seconds that Envoy shows, is admitted.
func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"fixed_window", "sliding_window", "token_bucket", "calendar"} {
		e := newEnv(t, limited("{unit: hour, requests_per_unit: 7, algorithm: "+algorithm+"}"), nil)
		for i := range 50 {
			e.clock.advance(time.Duration(i*i) * 1234567 * time.Nanosecond)
			a := e.ask(request("d", "k=v"))
			if a.OverallCode == rlsv3.RateLimitResponse_OK {
				continue
			}
			e.clock.advance(time.Duration(a.Statuses[0].DurationUntilReset.Seconds) * time.Second)
			if a := e.ask(request("d", "k=v")); a.OverallCode != rlsv3.RateLimitResponse_OK {
				t.Errorf("%s: waited, and refused: %s", algorithm, short(a))
			}
		}
	}
}

func TestHits(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 10}"), nil)
	r := request("d", "k=v")
	r.HitsAddend = 4
	e.want(r, "OK | 10/HOUR left 6 reset 1h0m0s")
	r.Descriptors[0].HitsAddend = wrapperspb.UInt64(5)
	e.want(r, "OK | 10/HOUR left 1 reset 1h0m0s")
	// What does not fit is not charged, not even in part.
	e.want(r, "OVER_LIMIT | OVER_LIMIT 10/HOUR left 1 reset 1h0m0s")
	r.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	e.want(r, "OK | 10/HOUR left 1 reset 1h0m0s")
	r.Descriptors[0].HitsAddend = nil
	r.HitsAddend = 0
	e.want(r, "OK | 10/HOUR left 0 reset 1h0m0s")
	e.want(r, "OVER_LIMIT | OVER_LIMIT 10/HOUR left 0 reset 1h0m0s")
	r.Descriptors[0].HitsAddend = wrapperspb.UInt64(1 << 53)
	if _, err := e.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

func TestNegativeHits(t *testing.T) {
	t.Parallel()
	for algorithm, given := range map[string]int{"fixed_window": 3, "sliding_window": 3, "token_bucket": 3, "calendar": 3} {
		e := newEnv(t, limited("{unit: hour, requests_per_unit: 10, algorithm: "+algorithm+"}"), nil)
		charge, back := request("d", "k=v"), request("d", "k=v")
		charge.HitsAddend, back.HitsAddend = 1, 3
		back.Descriptors[0].IsNegativeHits = true
		if a := e.ask(back); a.OverallCode != rlsv3.RateLimitResponse_OK || a.Statuses[0].LimitRemaining != 10 {
			t.Errorf("%s: nothing was charged: %s", algorithm, short(a))
		}
		for range 10 {
			e.ask(charge)
			e.clock.advance(time.Millisecond)
		}
		if a := e.ask(back); a.OverallCode != rlsv3.RateLimitResponse_OK || int(a.Statuses[0].LimitRemaining) != given {
			t.Errorf("%s: %s", algorithm, short(a))
		}
		if n := e.passes(9, charge); n != given {
			t.Errorf("%s: %d after %d went back", algorithm, n, given)
		}
		// Never more than was charged.
		back.HitsAddend = 1000
		for range 3 {
			e.ask(back)
		}
		if n := e.passes(20, charge); n != 10 {
			t.Errorf("%s: %d after all went back", algorithm, n)
		}
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 10}")+"\n  shadow_mode: true", nil)
	with := func(text string, n uint32, unit typev3.RateLimitUnit, many uint32) *rlsv3.RateLimitRequest {
		r := request("d", text)
		o := &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		if many > 0 {
			o.UnitMultiplier = wrapperspb.UInt32(many)
		}
		r.Descriptors[0].Limit = o
		return r
	}
	// It goes before the rule, is not in its mode, and needs none.
	for _, text := range []string{"k=v", "other=v"} {
		r := with(text, 1, typev3.RateLimitUnit_MINUTE, 0)
		e.want(r, "OK | 1/MINUTE left 0 reset 1m0s")
		e.want(r, "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 1m0s")
	}
	e.want(with("k=v", 3, typev3.RateLimitUnit_MINUTE, 5), "OK | 3/5MINUTE left 2 reset 5m0s")
	e.want(with("k=v", 3, typev3.RateLimitUnit_MONTH, 0), "OK | 3/MONTH left 2 reset 720h0m0s")
	e.want(with("k=v", 3, typev3.RateLimitUnit_YEAR, 0), "OK | 3/YEAR left 2 reset 8760h0m0s")
	e.want(request("d", "k=v"), "OK | 10/HOUR left 9 reset 1h0m0s")
	if _, err := e.ShouldRateLimit(t.Context(), with("k=v", 3, typev3.RateLimitUnit_UNKNOWN, 0)); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	r := with("k=v", 1, typev3.RateLimitUnit_MINUTE, 0)
	r.Domain = "unknown"
	e.want(r, "OK |")
}

func TestWildcards(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: d
descriptors:
- {key: path, value: /api/*, rate_limit: {unit: hour, requests_per_unit: 1, name: prefix}}
- {key: path, value: "*.png", rate_limit: {unit: hour, requests_per_unit: 1, name: suffix}}
- {key: path, value: /users/*/posts/*, rate_limit: {unit: hour, requests_per_unit: 1, name: middle}}
- {key: path, value: /api/exact, rate_limit: {unit: hour, requests_per_unit: 1, name: exact}}
- {key: path, rate_limit: {unit: hour, requests_per_unit: 1, name: any}}
- key: nested
  value: a*
  descriptors:
  - {key: inner, value: b*, rate_limit: {unit: hour, requests_per_unit: 1, name: inner}}
`, nil)
	for path, want := range map[string]string{
		"/api/x": "prefix", "/api/": "prefix", "/api/exact": "exact", "/api/exactly": "prefix", "/api/x.png": "prefix", "/x.png": "suffix",
		"/users/1/posts/2": "middle", "/users//posts/": "middle", "/users/1/post/2": "any", "/ap": "any", "": "any", "/api/*": "prefix",
	} {
		a := e.ask(request("d", "path="+path))
		if got := a.Statuses[0].CurrentLimit.GetName(); got != want {
			t.Errorf("%q is limited by %q, not %q", path, got, want)
		}
	}
	if a := e.ask(request("d", "nested=abc inner=bcd")); a.Statuses[0].CurrentLimit.GetName() != "inner" {
		t.Error(short(a))
	}
	e.want(request("d", "nested=abc inner=c"), "OK |")
}

func TestShareThreshold(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: d
descriptors:
- key: files
  value: files/*
  share_threshold: true
  value_to_metric: true
  rate_limit: {unit: hour, requests_per_unit: 3}
- key: own
  value: own/*
  rate_limit: {unit: hour, requests_per_unit: 3}
- key: tenant
  descriptors:
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 3}}
`, nil)
	for text, want := range map[string]int{"files=files/%d": 3, "own=own/%d": 8, "tenant=a files=files/%d": 3, "tenant=b files=files/%d": 3} {
		passed := 0
		for i := range 8 {
			passed += e.passes(1, request("d", fmt.Sprintf(text, i)))
		}
		if passed != want {
			t.Errorf("%s: %d", text, passed)
		}
	}
	// What is called like the pattern is not it.
	if n := e.passes(1, request("d", "own=\x00*own/*")); n != 1 {
		t.Error("the pattern's count is not its own")
	}
	if all := e.service.Stats(); all[0].Name != "d.files_files/*" || all[0].TotalHits != 8 || all[1].Name != "d.own_own/*" {
		t.Errorf("%+v", all)
	}
}

func TestValueToMetric(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: d
descriptors:
- key: route
  value_to_metric: true
  descriptors:
  - key: method
    descriptors:
    - {key: wild, value: a*, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 5}}
    - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
`, nil)
	e.passes(6, request("d", "route=/x method=GET user=secret"))
	e.passes(1, request("d", "route=/x method=GET user=other"))
	e.passes(1, request("d", "route=/x method=GET wild=abc"))
	all := e.service.Stats()
	want := envoyrls.Stats{Name: "d.route_/x.method.user", TotalHits: 7, OverLimit: 1, WithinLimit: 6, NearLimit: 1}
	if len(all) != 2 || all[0] != want || all[1].Name != "d.route_/x.method.wild_abc" {
		t.Errorf("%+v", all)
	}
}

// TestManyDetailedMetrics: a caller who makes up values does not fill the memory.
func TestManyDetailedMetrics(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 5}")+"\n  detailed_metric: true", nil)
	for i := range 10_050 { // by the service itself, which is faster
		if _, err := e.service.ShouldRateLimit(t.Context(), request("d", fmt.Sprint("k=", i))); err != nil {
			t.Fatal(err)
		}
	}
	all := e.service.Stats()
	if len(all) != 10_001 || all[0].Name != "d.k" || all[0].TotalHits != 50 {
		t.Errorf("%d names, %+v", len(all), all[0])
	}
}

// TestLongDetailedMetrics: who sends long values does not choose how much memory the names of metrics take.
func TestLongDetailedMetrics(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 5}")+"\n  detailed_metric: true", nil)
	for i := range 50 {
		e.ask(request("d", fmt.Sprint("k=", i, strings.Repeat("x", 100_000))))
	}
	e.ask(request("d", "k="+strings.Repeat("x", 400)))
	if all := e.service.Stats(); len(all) != 2 || all[0].Name != "d.k" || all[0].TotalHits != 50 || all[1].TotalHits != 1 {
		t.Errorf("%d names, %+v", len(all), all)
	}
}

const quotas = `
domain: d
descriptors:
- {key: hard, rate_limit: {unit: hour, requests_per_unit: 4}}
- {key: a, quota_mode: true, metadata: {pool: a}, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: b, quota_mode: true, metadata: [b, 2], rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`

func TestQuotaMode(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		e := newEnv(t, quotas, &envoyrls.Options{DynamicMetadata: true}, func(s *store) { s.remote = remote })
		r := request("d", "hard=x", "a=x", "b=x", "shadow=x")
		r.HitsAddend = 1
		metadata := func() string {
			t.Helper()
			a := e.ask(r)
			return fmt.Sprint(a.OverallCode, a.DynamicMetadata.AsMap())
		}
		const entries = "domain:d hitsAddend:1 quotaModeEnabled:true"
		for i, want := range []string{
			"OK map[descriptors:[map[entries:[hard=x]] map[entries:[a=x] metadata:map[pool:a]] map[entries:[b=x] metadata:[b 2]] map[entries:[shadow=x]]] " + entries + "]",
			"OK map[descriptors:[map[entries:[hard=x]] map[entries:[a=x]] map[entries:[b=x] metadata:[b 2]] map[entries:[shadow=x]]] " + entries + " quotaModeViolations:[1]]",
			"OVER_LIMIT map[descriptors:[map[entries:[hard=x]] map[entries:[a=x]] map[entries:[b=x]] map[entries:[shadow=x]]] " + entries + "]",
		} {
			if got := metadata(); got != want {
				t.Errorf("%d\n got %s\nwant %s", i, got, want)
			}
		}
		// What all quotas refused was charged to nobody, and the shadow stands where the last admission left it.
		e.want(request("d", "hard=x"), "OK | 4/HOUR left 1 reset 1h0m0s")
		// Where another refuses, the quotas are as before.
		e.want(request("d", "hard=x", "b=y"), "OK | 4/HOUR left 0 reset 1h0m0s | 2/HOUR left 1 reset 1h0m0s")
		e.want(request("d", "hard=x", "b=y"), "OVER_LIMIT | OVER_LIMIT 4/HOUR left 0 reset 1h0m0s | 2/HOUR left 1 reset 1h0m0s")
		e.want(request("d", "b=y"), "OK | 2/HOUR left 0 reset 1h0m0s")
	}
}

func TestGlobalModes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 2}"), &envoyrls.Options{Shadow: true})
	if n := e.passes(5, request("d", "k=v")); n != 5 {
		t.Errorf("%d pass", n)
	}
	if all := e.service.Stats(); all[0].OverLimit != 3 || all[0].ShadowMode != 3 || all[0].WithinLimit != 2 {
		t.Errorf("%+v", all)
	}
	e = newEnv(t, limited("{unit: hour, requests_per_unit: 2}"), &envoyrls.Options{Quota: true})
	e.passes(2, request("d", "k=a"))
	e.want(request("d", "k=a", "k=b"), "OK | 2/HOUR left 0 reset 1h0m0s | 2/HOUR left 1 reset 1h0m0s")
	e.passes(2, request("d", "k=b"))
	if a := e.ask(request("d", "k=a", "k=b")); a.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT {
		t.Error(short(a))
	}
}

// TestAllOrNothing: with it what one refuses is charged to none, without it to those that pass, as envoyproxy/ratelimit
// does; what refuses is never charged.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	const yaml = `
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: all, rate_limit: {unit: hour, requests_per_unit: 10}}
`
	for together, left := range map[bool]int{true: 9, false: 5} {
		for _, remote := range []bool{false, true} {
			e := newEnv(t, fmt.Sprintf("domain: d\nall_or_nothing: %v%s", together, yaml), nil, func(s *store) { s.remote, s.oneGroup = remote, remote })
			if n := e.passes(5, request("d", "user=x", "all=x")); n != 1 {
				t.Errorf("%d pass", n)
			}
			if n := e.passes(20, request("d", "all=x")); n != left {
				t.Errorf("together %v, remote %v: %d are left", together, remote, n)
			}
		}
	}
}

func TestOneDescriptorTwice(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 5}"), nil)
	e.want(request("d", "k=v", "k=v"), "OK | 5/HOUR left 3 reset 1h0m0s | 5/HOUR left 3 reset 1h0m0s")
	e.ask(request("d", "k=v", "k=v"))
	e.want(request("d", "k=v", "k=v"), "OVER_LIMIT | OVER_LIMIT 5/HOUR left 1 reset 1h0m0s | OVER_LIMIT 5/HOUR left 1 reset 1h0m0s")
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	const yaml = `
domain: d
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 5}}
- {key: b, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
`
	headers := func(e *env) (text string) {
		for _, h := range e.ask(request("d", "a=x", "b=x", "s=x", "none=x")).ResponseHeadersToAdd {
			text += h.Key + ": " + h.Value + "; "
		}
		return text
	}
	e := newEnv(t, yaml, &envoyrls.Options{Headers: &envoyrls.Headers{Reset: "X-Back"}})
	for _, want := range []string{
		"RateLimit-Limit: 2; RateLimit-Remaining: 1; X-Back: 60; ", "RateLimit-Limit: 2; RateLimit-Remaining: 0; X-Back: 60; ",
		"RateLimit-Limit: 2; RateLimit-Remaining: 0; X-Back: 60; ",
	} {
		if got := headers(e); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if got := headers(newEnv(t, yaml, nil)); got != "" {
		t.Errorf("nobody asked for %s", got)
	}
	if a := e.ask(request("d", "none=x")); len(a.ResponseHeadersToAdd) > 0 {
		t.Error(a)
	}
}

// TestNoTwoDescriptorsShareACount, whatever they hold.
func TestNoTwoDescriptorsShareACount(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	e := newEnv(t, `
domain: d
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 1}, descriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 1}}]}
- {key: a_b, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: "\0", rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: p, value: 'p*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`, nil)
	pairs := func(texts ...string) (entries []*commonv3.RateLimitDescriptor_Entry) {
		for i := 0; i < len(texts); i += 2 {
			entries = append(entries, &commonv3.RateLimitDescriptor_Entry{Key: texts[i], Value: texts[i+1]})
		}
		return entries
	}
	for _, entries := range [][]*commonv3.RateLimitDescriptor_Entry{
		pairs("a", "b_c"), pairs("a_b", "c"), pairs("a", "b", "b", "c"), pairs("a", "b:b:c"), pairs("a", "b.b_c"), pairs("a", ""), pairs("a", "\x00"),
		pairs("a", "\x00\x00"), pairs("a", "\x00*"), pairs("\x00", "a"), pairs("\x00", ""), pairs("a", ":"), pairs("a", long), pairs("a", long+"y"),
		pairs("a", long, "b", ""), pairs("a", long, "b", "x"), pairs("p", "pq"), pairs("a", "\x00*p*"),
	} {
		r := &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{{Entries: entries}}}
		if n := e.passes(2, r); n != 1 {
			t.Errorf("%.60v: %d pass", entries, n)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 5}"), nil)
	many := request("d")
	for range 65 {
		many.Descriptors = append(many.Descriptors, descriptor("k=v"))
	}
	deep := strings.Repeat("k=v ", 65)
	for _, r := range []*rlsv3.RateLimitRequest{{}, request(""), request("d"), request("", "k=v"), request("d", ""), many, request("d", deep), request("unknown", deep)} {
		if _, err := e.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%d descriptors: %v", len(r.Descriptors), err)
		}
	}
	e.want(request("unknown", "k=v", "x=y"), "OK | |")
	if e.store.calls.Load() != 0 {
		t.Error("the store was asked")
	}
}

// TestTroubleOfTheStore is UNAVAILABLE, never OVER_LIMIT and never OK.
func TestTroubleOfTheStore(t *testing.T) {
	t.Parallel()
	e := newEnv(t, quotas, nil)
	for _, trouble := range []error{errors.New("secret host"), fmt.Errorf("secret host: %w", driver.ErrNotApplied), driver.ErrFull} {
		e.store.fail.Store(&trouble)
		for _, r := range []*rlsv3.RateLimitRequest{request("d", "hard=x"), request("d", "hard=x", "hard=y"), request("d", "a=x"), request("d", "hard=x", "shadow=x")} {
			_, err := e.ShouldRateLimit(t.Context(), r)
			if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %v", trouble, err)
			}
		}
		// A shadow decides nothing, so its trouble is nobody's.
		e.want(request("d", "shadow=x", "none=x"), "OK | 1/HOUR left 0 reset 0s |")
	}
}

// TestUpdate: numbers change and counts stay; another unit begins anew.
func TestUpdate(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 5}"), nil)
	e.passes(4, request("d", "k=v"))
	e.service.Update(parse(t, limited("{unit: hour, requests_per_unit: 6}")))
	e.want(request("d", "k=v"), "OK | 6/HOUR left 1 reset 1h0m0s")
	e.service.Update(parse(t, limited("{unit: minute, requests_per_unit: 6}")))
	e.want(request("d", "k=v"), "OK | 6/MINUTE left 5 reset 1m0s")
	e.service.Update(parse(t, "domain: other"))
	e.want(request("d", "k=v"), "OK |")
}

// TestCountsAreOrdinaryOnes: whoever knows the key can look at a count, or reset it, by any other protocol.
func TestCountsAreOrdinaryOnes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 5}"), nil)
	e.passes(4, request("d", "k=v"))
	rule := ration.Rule{Name: "envoy.hour", Limit: ration.FixedWindow{Limit: 5, Window: time.Hour}}
	if d, err := e.limiter.Peek(t.Context(), ration.KeyOf("d", "k", "v"), rule, 1); err != nil || d.Used != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestManyAtOnce: so many as fit, whatever comes together.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		e := newEnv(t, `
domain: d
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 100}}
- {key: all, rate_limit: {unit: hour, requests_per_unit: 150}}
- {key: pool, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1000}}
`, nil, func(s *store) { s.remote = remote })
		var passed atomic.Int64
		var callers sync.WaitGroup
		for i := range 16 {
			callers.Go(func() {
				for range 25 {
					a, err := e.ShouldRateLimit(t.Context(), request("d", fmt.Sprint("user=", i%2), "all=x", "pool=x"))
					if err != nil {
						t.Error(err)
					} else if a.OverallCode == rlsv3.RateLimitResponse_OK {
						passed.Add(1)
					}
				}
			})
		}
		callers.Wait()
		if passed.Load() != 150 {
			t.Errorf("remote %v: %d pass", remote, passed.Load())
		}
		// What was refused was charged to nobody.
		e.want(request("d", "pool=x"), "OK | 1000/HOUR left 849 reset 1h0m0s")
	}
}
