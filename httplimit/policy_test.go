package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

func TestNew(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	ok := httplimit.Policy{Limit: sliding("x", 1, time.Minute), Key: byAddr}
	with := func(edit func(*httplimit.Policy)) []httplimit.Policy {
		p := ok
		edit(&p)
		return []httplimit.Policy{p}
	}
	rule := sliding("y", 1, time.Minute)
	for name, ps := range map[string][]httplimit.Policy{
		"no key":          with(func(p *httplimit.Policy) { p.Key = nil }),
		"no limit":        with(func(p *httplimit.Policy) { p.Limit = nil }),
		"bare limit":      with(func(p *httplimit.Policy) { p.Limit = rule.Limit }),
		"no name":         with(func(p *httplimit.Policy) { p.Limit = ration.Rule{Limit: rule.Limit} }),
		"unsafe name":     with(func(p *httplimit.Policy) { p.Limit = ration.Rule{Name: "a\";r=9", Limit: rule.Limit} }),
		"capital":         with(func(p *httplimit.Policy) { p.Limit = ration.Rule{Name: "Day", Limit: rule.Limit} }),
		"invalid limit":   with(func(p *httplimit.Policy) { p.Limit = sliding("y", -1, time.Minute) }),
		"pointer":         with(func(p *httplimit.Policy) { p.Limit = &rule }),
		"limit and For":   with(func(p *httplimit.Policy) { p.For = func(*http.Request) (ration.Limit, error) { return rule, nil } }),
		"unknown NoKey":   with(func(p *httplimit.Policy) { p.NoKey = 3 }),
		"a name twice":    {ok, ok},
		"too many at all": slices.Repeat([]httplimit.Policy{ok}, 65),
	} {
		if _, err := httplimit.New(l, ps, nil); err == nil || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := httplimit.New(l, []httplimit.Policy{ok}, &httplimit.Options{Headers: httplimit.None + 1}); err == nil {
		t.Error("an unknown dialect")
	}
	if _, err := httplimit.New(nil, []httplimit.Policy{ok}, nil); err == nil {
		t.Error("no Limiter")
	}
	if got := do(guard(t, l, nil)(hello)); got.StatusCode != 200 || len(got.Header.Values("RateLimit")) != 0 {
		t.Error("no policies", got.StatusCode, got.Header)
	}
}

// The plan of a tenant is looked up with each request; a change counts at once, and usage stays.
func TestPlans(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	plans := map[string]ration.Limit{
		"small":   sliding("plan", 1, time.Hour),
		"none":    nil,
		"bare":    ration.SlidingWindow{Limit: 1, Window: time.Hour},
		"invalid": sliding("plan", -1, time.Hour),
		"double":  sliding("other", 9, time.Hour),
	}
	broken := errors.New("the database is gone")
	var told error
	h := guard(t, l, &httplimit.Options{Error: func(w http.ResponseWriter, _ *http.Request, err error) {
		told = err
		w.WriteHeader(503)
	}}, httplimit.Policy{Limit: sliding("other", 1000, time.Hour), Key: byAddr}, httplimit.Policy{
		Key: httplimit.ByHeader("Tenant"),
		For: func(r *http.Request) (ration.Limit, error) {
			plan, ok := plans[r.Header.Get("Tenant")]
			if !ok {
				return nil, broken
			}
			return plan, nil
		}})(hello)
	as := func(tenant string) func(*http.Request) { return header("Tenant", tenant) }
	if got := statuses(h, 2, as("small")); !slices.Equal(got, []int{200, 429}) {
		t.Error(got)
	}
	plans["small"] = sliding("plan", 3, time.Hour)
	if got := statuses(h, 3, as("small")); !slices.Equal(got, []int{200, 200, 429}) {
		t.Error("after the change", got)
	}
	if r := do(h, as("small")); r.Header.Get("RateLimit-Policy") != `"plan";q=3;w=3600, "other";q=1000;w=3600` {
		t.Error(r.Header)
	}
	if got := statuses(h, 3, as("none")); !slices.Equal(got, []int{200, 200, 200}) {
		t.Error("no limit", got)
	}
	for tenant, want := range map[string]error{"unknown": broken, "bare": ration.ErrInvalidLimit, "invalid": ration.ErrInvalidLimit, "double": ration.ErrInvalidLimit} {
		if got := do(h, as(tenant)).StatusCode; got != 503 || !errors.Is(told, want) {
			t.Errorf("%s: %d, %v", tenant, got, told)
		}
	}
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	one := sliding("x", 1, time.Minute)
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		l, _ := newLimiter(t)
		h := guard(t, l, nil, httplimit.Policy{Limit: one, Key: byAddr})(hello)
		for _, addr := range []string{"", "@"} {
			r := do(h, remote(addr))
			if p := problemOf(t, r); r.StatusCode != 503 || p.Type != "" || p.Detail == "" || r.Header.Get("Retry-After") != "" {
				t.Errorf("%q: %d %+v", addr, r.StatusCode, p)
			}
		}
	})
	t.Run("refuse, answered by the program", func(t *testing.T) {
		t.Parallel()
		l, _ := newLimiter(t)
		h := guard(t, l, &httplimit.Options{Error: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, httplimit.ErrNoKey) && errors.Is(err, ration.ErrInvalidKey) {
				w.WriteHeader(401)
			}
		}}, httplimit.Policy{Limit: one, Key: httplimit.ByUser()})(hello)
		if got := do(h).StatusCode; got != 401 {
			t.Error(got)
		}
	})
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		l, _ := newLimiter(t)
		h := guard(t, l, nil, httplimit.Policy{Limit: one, Key: byAddr, NoKey: httplimit.SkipNoKey})(hello)
		if got := statuses(h, 3, remote("")); !slices.Equal(got, []int{200, 200, 200}) {
			t.Error(got)
		}
	})
	t.Run("share", func(t *testing.T) {
		t.Parallel()
		l, _ := newLimiter(t)
		h := guard(t, l, nil, httplimit.Policy{Limit: one, Key: httplimit.ByHeader("Key"), NoKey: httplimit.ShareNoKey})(hello)
		if got := statuses(h, 2); !slices.Equal(got, []int{200, 429}) {
			t.Error(got)
		}
		for _, key := range []string{":", "shared", "0"} {
			if got := do(h, header("Key", key)).StatusCode; got != 200 {
				t.Errorf("%q is counted with strangers", key)
			}
		}
	})
}

// A key that no store would take, such as a signed token, is an identity like others.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	h := guard(t, l, nil, httplimit.Policy{Limit: sliding("x", 1, time.Minute), Key: httplimit.ByHeader("Authorization")})(hello)
	long := strings.Repeat("x", 1025)
	for _, key := range []string{long, long + "y", long[:1024]} {
		if got := statuses(h, 2, header("Authorization", key)); !slices.Equal(got, []int{200, 429}) {
			t.Error(len(key), got)
		}
	}
}

func TestCostAndSkip(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	h := guard(t, l, &httplimit.Options{Skip: func(r *http.Request) bool { return r.Header.Get("Health") != "" }, Headers: httplimit.Draft12},
		httplimit.Policy{Limit: sliding("x", 10, time.Minute), Key: byAddr, Cost: func(r *http.Request) int64 {
			n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
			return n
		}})(hello)
	if r := do(h, header("Cost", "7")); r.StatusCode != 200 || r.Header.Get("RateLimit") != `"x";a=3;w=60;c=7` {
		t.Error(r.StatusCode, r.Header)
	}
	if r := do(h, header("Cost", "4")); r.StatusCode != 429 || r.Header.Get("RateLimit") != `"x";a=3;w=60;c=4` || r.Header.Get("Retry-After") != "60" {
		t.Error(r.StatusCode, r.Header)
	}
	// What can never pass has no time to come back at.
	r := do(h, header("Cost", "11"))
	if p := problemOf(t, r); r.StatusCode != 429 || r.Header.Get("Retry-After") != "" || p.Type != quotaExceeded || !strings.Contains(p.Detail, "does not help") {
		t.Error(r.StatusCode, r.Header, p)
	}
	if r := do(h, header("Cost", "-1")); r.StatusCode != 503 || r.Header.Get("RateLimit") != "" {
		t.Error("a negative cost", r.StatusCode)
	}
	if got := statuses(h, 2, header("Health", "1"), header("Cost", "11")); !slices.Equal(got, []int{200, 200}) {
		t.Error("skipped", got)
	}
	if got := do(h, header("Cost", "3")).StatusCode; got != 200 {
		t.Error("refusals were charged", got)
	}
}

// A group is part of the keys, and lets several policies be decided together where keys have places.
func TestGroup(t *testing.T) {
	t.Parallel()
	l := ration.New(memstore.New(nil), &ration.Options{OneGroup: true})
	t.Cleanup(func() { l.Close() })
	ps := []httplimit.Policy{
		{Limit: sliding("a", 1, time.Minute), Key: byAddr},
		{Limit: sliding("b", 10, time.Minute), Key: httplimit.ByHeader("Tenant")},
	}
	if got := do(guard(t, l, nil, ps...)(hello), header("Tenant", "t")).StatusCode; got != 503 {
		t.Error("without a group", got)
	}
	h := guard(t, l, &httplimit.Options{Group: func(r *http.Request) string { return r.Header.Get("Tenant") }}, ps...)(hello)
	if got := statuses(h, 2, header("Tenant", "t")); !slices.Equal(got, []int{200, 429}) {
		t.Error(got)
	}
	if got := do(h, header("Tenant", "u")).StatusCode; got != 200 {
		t.Error("another group", got)
	}
}

// Over a real connection: twenty forged headers, or twenty addresses of one network behind a trusted proxy, are one caller.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts  *httplimit.IPOptions
		value func(i int) string
	}{
		"nobody is trusted":       {nil, func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }},
		"to the left of a client": {&httplimit.IPOptions{Trusted: prefixes("127.0.0.0/8")}, func(i int) string { return fmt.Sprintf("203.0.113.%d, 198.51.100.1", i) }},
		"of one /64":              {&httplimit.IPOptions{Trusted: prefixes("127.0.0.0/8")}, func(i int) string { return fmt.Sprintf("2001:db8:0:7:%x::1", i*997) }},
		"mapped":                  {&httplimit.IPOptions{Trusted: prefixes("127.0.0.0/8")}, func(i int) string { return []string{"198.51.100.1", "::ffff:198.51.100.1"}[i%2] }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := newLimiter(t)
			url, client := serve(t, guard(t, l, nil, httplimit.Policy{Limit: sliding("x", 5, time.Minute), Key: httplimit.ByIP(c.opts)})(hello))
			passed := 0
			for i := range 20 {
				r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, field := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip"} {
					r.Header.Set(field, c.value(i))
				}
				a, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				a.Body.Close()
				if a.StatusCode == 200 {
					passed++
				}
			}
			if passed != 5 {
				t.Errorf("%d passed", passed)
			}
		})
	}
}
