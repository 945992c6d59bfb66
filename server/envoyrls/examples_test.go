package envoyrls_test

import (
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// The tests of this file are the examples of envoyproxy/ratelimit's documentation, one each, in its order: its keys and
// numbers, and what its text says of them.

func TestExample1TwoValuesOfAKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: mongo_cps
descriptors:
  - key: database
    value: users
    rate_limit: {unit: second, requests_per_unit: 500}
  - key: database
    value: default
    rate_limit: {unit: second, requests_per_unit: 500}
`, nil)
	// 498 at once, and then as many as fit.
	fit := func(value string) int {
		most := request("mongo_cps", "database="+value)
		most.HitsAddend = 498
		return 498*e.passes(1, most) + e.passes(5, request("mongo_cps", "database="+value))
	}
	for _, value := range []string{"users", "default"} {
		if n := fit(value); n != 500 {
			t.Errorf("%s: %d", value, n)
		}
	}
	e.want(request("mongo_cps", "database=other"), "OK |")
	e.clock.advance(time.Second)
	if n := fit("users"); n != 500 {
		t.Errorf("users, a second later: %d", n)
	}
}

func TestExample2Nested(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: {unit: day, requests_per_unit: 5}
  - key: to_number
    rate_limit: {unit: day, requests_per_unit: 100}
`, nil)
	both := request("messaging", "message_type=marketing to_number=2061111111", "to_number=2061111111")
	e.want(both, "OK | 5/DAY left 4 reset 24h0m0s | 100/DAY left 99 reset 24h0m0s")
	if n := e.passes(9, both); n != 4 {
		t.Errorf("%d more marketing messages", n)
	}
	// One limit refuses for all, and charges nobody.
	e.want(both, "OVER_LIMIT | OVER_LIMIT 5/DAY left 0 reset 24h0m0s | 100/DAY left 95 reset 24h0m0s")
	e.want(request("messaging", "message_type=marketing to_number=2062222222"), "OK | 5/DAY left 4 reset 24h0m0s")
	if n := e.passes(200, request("messaging", "to_number=2061111111")); n != 95 {
		t.Errorf("%d further messages to the number", n)
	}
	e.want(request("messaging", "message_type=marketing"), "OK |")
	e.want(request("messaging", "message_type=greeting to_number=2061111111"), "OK |")
}

func TestExample3MostSpecificFirst(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: edge_proxy_per_ip
descriptors:
  - key: remote_address
    rate_limit: {unit: second, requests_per_unit: 10}
  - key: remote_address
    value: 50.0.0.5
    rate_limit: {unit: second, requests_per_unit: 0}
`, nil)
	for _, address := range []string{"50.0.0.1", "50.0.0.2"} {
		if n := e.passes(12, request("edge_proxy_per_ip", "remote_address="+address)); n != 10 {
			t.Errorf("%s: %d", address, n)
		}
	}
	if n := e.passes(3, request("edge_proxy_per_ip", "remote_address=50.0.0.5")); n != 0 {
		t.Errorf("the blocked address: %d", n)
	}
}

func TestExample4Depth(t *testing.T) {
	t.Parallel()
	r := request("example4", "key=value subkey=subvalue")
	newEnv(t, `
domain: example4
descriptors:
  - key: key
    value: value
    rate_limit: {requests_per_unit: 300, unit: second}
`, nil).want(r, "OK |")
	newEnv(t, `
domain: example4
descriptors:
  - key: key
    value: value
    descriptors:
      - key: subkey
        rate_limit: {requests_per_unit: 300, unit: second}
`, nil).want(r, "OK | 300/SECOND left 299 reset 1s")
}

func TestExample5Unlimited(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: internal
descriptors:
  - key: ldap
    rate_limit:
      unlimited: true
  - key: azure
    rate_limit: {unit: minute, requests_per_unit: 100}
`, nil)
	e.want(request("internal", "ldap=x"), "OK | left 4294967295")
	if e.store.calls.Load() != 0 {
		t.Error("the store was asked about what is unlimited")
	}
	if n := e.passes(101, request("internal", "azure=x")); n != 100 {
		t.Errorf("azure: %d", n)
	}
}

func TestExample6ShadowMode(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: example6
descriptors:
  - key: service
    descriptors:
      - key: user
        value: user-a
        rate_limit: {requests_per_unit: 10, unit: second}
        shadow_mode: true
      - key: user
        value: user-b
        rate_limit: {requests_per_unit: 20, unit: second}
`, nil)
	a, b := request("example6", "service=auth-service user=user-a"), request("example6", "service=auth-service user=user-b")
	if n := e.passes(15, a); n != 15 {
		t.Errorf("user-a: %d", n)
	}
	if n := e.passes(25, b); n != 20 {
		t.Errorf("user-b: %d", n)
	}
	stats := e.service.Stats()
	if len(stats) != 2 || stats[0].Name != "example6.service.user_user-a" || stats[0].TotalHits != 15 || stats[0].OverLimit != 5 || stats[0].ShadowMode != 5 ||
		stats[1].OverLimit != 5 || stats[1].ShadowMode != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestExample7Replaces(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: example7
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - key: user
        value: bkthomps
        rate_limit:
          name: specific_limit
          requests_per_unit: 5
          unit: second
  - key: key_2
    value: value_2
    descriptors:
      - key: user
        value: bkthomps
        rate_limit:
          replaces:
            - name: specific_limit
          requests_per_unit: 10
          unit: second
`, nil)
	const one, two = "key_1=value_1 user=bkthomps", "key_2=value_2 user=bkthomps"
	if n := e.passes(12, request("example7", one, two)); n != 10 {
		t.Errorf("both: %d", n)
	}
	if n := e.passes(12, request("example7", one)); n != 5 {
		t.Errorf("the replaced one, which was not charged: %d", n)
	}
	e.clock.advance(time.Second)
	if n := e.passes(12, request("example7", two)); n != 10 {
		t.Errorf("the other: %d", n)
	}
}

func TestExample8DetailedMetric(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: example8
descriptors:
  - key: key1
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: key1
    value: value1
    rate_limit: {unit: minute, requests_per_unit: 20}
`, nil)
	for value, want := range map[string]int{"unspecified_value": 10, "unspecified_value2": 10, "value1": 20} {
		if n := e.passes(30, request("example8", "key1="+value)); n != want {
			t.Errorf("%s: %d", value, n)
		}
	}
	var names []string
	for _, one := range e.service.Stats() {
		names = append(names, one.Name)
	}
	if len(names) != 3 || names[0] != "example8.key1_unspecified_value" || names[1] != "example8.key1_unspecified_value2" || names[2] != "example8.key1_value1" {
		t.Error(names)
	}
}

func TestExample9Wildcard(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: example9
descriptors:
  - key: key1
    value: value*
    rate_limit: {unit: minute, requests_per_unit: 20}
`, nil)
	for _, value := range []string{"value_1", "value_2", "value"} {
		if n := e.passes(30, request("example9", "key1="+value)); n != 20 {
			t.Errorf("%s: %d", value, n)
		}
	}
	e.want(request("example9", "key1=other"), "OK |")
}

// The demonstration that comes along with the documentation: a header of its own value is limited, refused, or shadowed.
func TestExampleOfTwoHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: rl
descriptors:
  - key: foo
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors:
      - key: bar
        rate_limit: {unit: minute, requests_per_unit: 3}
      - key: bar
        value: bazz
        rate_limit: {unit: second, requests_per_unit: 1}
      - key: bar
        value: banned
        rate_limit: {unit: second, requests_per_unit: 0}
      - key: baz
        rate_limit: {unit: second, requests_per_unit: 1}
      - key: baz
        value: shady
        rate_limit: {unit: minute, requests_per_unit: 3}
        shadow_mode: true
`, nil)
	for text, want := range map[string]int{
		"foo=1": 2, "foo=1 bar=1": 3, "foo=1 bar=bazz": 1, "foo=1 bar=banned": 0, "foo=1 baz=1": 1, "foo=1 baz=shady": 9, "bar=1": 9,
	} {
		if n := e.passes(9, request("rl", text)); n != want {
			t.Errorf("%s: %d, not %d", text, n, want)
		}
	}
}

// A status for each descriptor, as the documentation's answer in JSON has them.
func TestExampleOfAnAnswer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, `
domain: dummy
all_or_nothing: false
descriptors:
  - key: one_per_minute
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: two_per_minute
    rate_limit: {unit: minute, requests_per_unit: 3}
`, nil)
	e.ask(request("dummy", "one_per_minute=x", "two_per_minute=x"))
	a := e.ask(request("dummy", "one_per_minute=x", "two_per_minute=x"))
	if a.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT || a.Statuses[0].Code != rlsv3.RateLimitResponse_OVER_LIMIT ||
		a.Statuses[1].Code != rlsv3.RateLimitResponse_OK || a.Statuses[1].LimitRemaining != 1 {
		t.Error(short(a))
	}
}
