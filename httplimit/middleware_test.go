package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/storetest"
)

// clock is one that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newLimiter(t testing.TB) (*ration.Limiter, *clock) {
	c := newClock()
	l := ration.New(memstore.New(&memstore.Options{SweepEvery: -1}), &ration.Options{Clock: c.Now})
	t.Cleanup(func() { l.Close() })
	return l, c
}

var byAddr = httplimit.ByIP(nil)

func sliding(name string, n int64, window time.Duration) ration.Rule {
	return ration.Rule{Name: name, Limit: ration.SlidingWindow{Limit: n, Window: window}}
}

func guard(t testing.TB, l *ration.Limiter, opts *httplimit.Options, ps ...httplimit.Policy) func(http.Handler) http.Handler {
	t.Helper()
	g, err := httplimit.New(l, ps, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func handler(f http.HandlerFunc) http.Handler { return f }

var hello = handler(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// do serves one request, by default from 192.0.2.1.
func do(h http.Handler, edit ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest("GET", "http://example.test/", nil)
	r.RemoteAddr = "192.0.2.1:1234"
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func remote(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// statuses serves n requests.
func statuses(h http.Handler, n int, edit ...func(*http.Request)) (codes []int) {
	for range n {
		codes = append(codes, do(h, edit...).StatusCode)
	}
	return codes
}

type problem struct {
	Type, Title, Detail string
	Status              int
	Violated            []string `json:"violated-policies"`
}

func problemOf(t testing.TB, r *http.Response) (p problem) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatal(err)
	}
	if p.Status != r.StatusCode {
		t.Errorf("status %d says %d", r.StatusCode, p.Status)
	}
	return p
}

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	h := guard(t, l, nil, httplimit.Policy{Limit: sliding("burst", 2, 10*time.Second), Key: byAddr})(hello)
	if got := statuses(h, 2); !slices.Equal(got, []int{200, 200}) {
		t.Fatal(got)
	}
	r := do(h)
	p := problemOf(t, r)
	if r.StatusCode != 429 || p.Type != quotaExceeded || !slices.Equal(p.Violated, []string{"burst"}) || !strings.Contains(p.Detail, "10 s") {
		t.Errorf("%d %+v", r.StatusCode, p)
	}
	for name, want := range map[string]string{
		"Retry-After":      "10",
		"RateLimit":        `"burst";r=0;t=10`,
		"RateLimit-Policy": `"burst";q=2;w=10`,
	} {
		if got := r.Header.Values(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := do(h, remote("192.0.2.2:1")).StatusCode; got != 200 {
		t.Error("another caller", got)
	}
}

// A caller who waits exactly Retry-After, alone, is admitted, whatever the limit and the moment; one second less would not do
// where the wait is a whole second.
func TestRetryAfterAdmits(t *testing.T) {
	t.Parallel()
	for _, limit := range []ration.Limit{
		ration.TokenBucket{Burst: 3, Refill: ration.PerMinute(7)},
		ration.TokenBucket{Burst: 1, Refill: ration.Every(999_999 * time.Microsecond)},
		ration.TokenBucket{Burst: 5, Refill: ration.PerSecond(3)},
		ration.SlidingWindow{Limit: 2, Window: 20 * time.Second},
		ration.SlidingWindow{Limit: 70, Window: 90*time.Second + time.Millisecond},
		ration.FixedWindow{Limit: 4, Window: 1500 * time.Millisecond},
		ration.Budget{Limit: 5, Period: ration.Day, Zone: "Europe/Berlin"},
	} {
		for _, count := range []func(int, http.Header) bool{nil, func(int, http.Header) bool { return true }} {
			t.Run(fmt.Sprintf("%s held %v", limit, count != nil), func(t *testing.T) {
				t.Parallel()
				l, c := newLimiter(t)
				h := guard(t, l, nil, httplimit.Policy{Limit: ration.Rule{Name: "x", Limit: limit}, Key: byAddr, Count: count})(hello)
				refused := 0
				for i := range 200 {
					r := do(h)
					if r.StatusCode == 200 {
						c.add(time.Duration(i%7) * 1234567 * time.Nanosecond)
						continue
					}
					refused++
					wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
					if err != nil || wait < 1 {
						t.Fatal(wait, err)
					}
					c.add(time.Duration(wait) * time.Second)
					if r := do(h); r.StatusCode != 200 {
						t.Fatalf("refused again after %d s: Retry-After %s", wait, r.Header.Get("Retry-After"))
					}
				}
				if refused < 2 {
					t.Fatal("never refused")
				}
			})
		}
	}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	day := ration.Rule{Name: "day", Limit: ration.Budget{Limit: 10, Period: ration.Day}}
	bucket := ration.Rule{Name: "burst", Limit: ration.TokenBucket{Burst: 4, Refill: ration.PerMinute(2)}}
	for _, c := range []struct {
		dialect httplimit.Headers
		want    map[string]string
		refused map[string]string
	}{
		{httplimit.Draft11, map[string]string{
			"RateLimit":        `"burst";r=3;t=30, "day";r=9;t=43200`,
			"RateLimit-Policy": `"burst";q=4;w=120, "day";q=10;w=86400`,
		}, map[string]string{
			"RateLimit":        `"burst";r=0;t=30, "day";r=6;t=43200`,
			"RateLimit-Policy": `"burst";q=4;w=120, "day";q=10;w=86400`,
		}},
		{httplimit.Draft12, map[string]string{
			"RateLimit":        `"burst";a=3;w=30;c=1, "day";a=9;w=43200;c=1`,
			"RateLimit-Policy": `"burst";q=4;w=120, "day";q=10;w=86400`,
		}, map[string]string{"RateLimit": `"burst";a=0;w=30;c=1, "day";a=6;w=43200;c=1`}},
		{httplimit.Split, map[string]string{"RateLimit-Limit": "4", "RateLimit-Remaining": "3", "RateLimit-Reset": "30"},
			map[string]string{"RateLimit-Limit": "4", "RateLimit-Remaining": "0", "RateLimit-Reset": "30"}},
		{httplimit.XHeaders, map[string]string{"X-RateLimit-Limit": "4", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "1772366431"},
			map[string]string{"X-RateLimit-Limit": "4", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1772366431"}},
		{httplimit.None, nil, nil},
	} {
		t.Run(strconv.Itoa(int(c.dialect)), func(t *testing.T) {
			t.Parallel()
			l, _ := newLimiter(t)
			h := guard(t, l, &httplimit.Options{Headers: c.dialect},
				httplimit.Policy{Limit: day, Key: byAddr}, httplimit.Policy{Limit: bucket, Key: byAddr})(hello)
			check := func(r *http.Response, want map[string]string) {
				t.Helper()
				for name := range r.Header {
					if strings.Contains(strings.ToLower(name), "ratelimit") && len(want) == 0 {
						t.Errorf("there is a %s", name)
					}
				}
				for name, value := range want {
					if got := r.Header.Values(name); !slices.Equal(got, []string{value}) {
						t.Errorf("%s: %q, want %q", name, got, value)
					}
				}
			}
			first := do(h)
			check(first, c.want)
			if first.Header.Get("Retry-After") != "" {
				t.Error("Retry-After without a refusal")
			}
			statuses(h, 3)
			refused := do(h)
			check(refused, c.refused)
			if got := refused.Header.Get("Retry-After"); refused.StatusCode != 429 || got != "30" {
				t.Error(refused.StatusCode, got)
			}
		})
	}
}

// What each kind of limit shows of itself.
func TestPolicyField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit ration.Limit
		want  string
	}{
		{ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}, `"x";q=20;w=120`},
		{ration.TokenBucket{Burst: 7, Refill: ration.Per(10, time.Minute)}, `"x";q=7;w=42`},
		{ration.TokenBucket{Burst: 1, Refill: ration.PerSecond(1000)}, `"x";q=1;w=1`},
		{ration.TokenBucket{Burst: 7135523, Refill: ration.Per(1, 87660*time.Hour)}, `"x";q=7135523;w=999999999999999`},
		{ration.SlidingWindow{Limit: 3, Window: 1500 * time.Millisecond}, `"x";q=3;w=2`},
		{ration.FixedWindow{Limit: ration.MaxCount, Window: 24 * time.Hour}, `"x";q=999999999999999;w=86400`},
		{ration.Budget{Limit: 5, Period: ration.Hour}, `"x";q=5;w=3600`},
		{ration.Budget{Limit: 5, Period: ration.Week}, `"x";q=5;w=604800`},
		{ration.Budget{Limit: 5, Period: ration.Month}, `"x";q=5`},
		{ration.Concurrency{Limit: 5, Lease: time.Minute}, `"x";q=5;qu="concurrent-requests"`},
	} {
		l, _ := newLimiter(t)
		r := do(guard(t, l, nil, httplimit.Policy{Limit: ration.Rule{Name: "x", Limit: c.limit}, Key: byAddr})(hello))
		if got := r.Header.Get("RateLimit-Policy"); got != c.want || r.StatusCode != 200 {
			t.Errorf("%v: %s, want %s", c.limit, got, c.want)
		}
	}
}

// All are charged, or none.
func TestAllOrNone(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	user, together := sliding("user", 1, time.Minute), sliding("together", 10, time.Hour)
	h := guard(t, l, nil,
		httplimit.Policy{Limit: user, Key: byAddr},
		httplimit.Policy{Limit: together, Key: httplimit.ByHeader("Nothing"), NoKey: httplimit.ShareNoKey})(hello)
	if got := statuses(h, 20); got[0] != 200 || slices.Contains(got[1:], 200) {
		t.Fatal(got)
	}
	if got := do(h, remote("192.0.2.2:1")).StatusCode; got != 200 {
		t.Fatal(got)
	}
	d, err := l.Peek(context.Background(), ration.Global, together, 1)
	if err != nil || d.Used != 2 {
		t.Fatal(d.Used, err)
	}
}

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

// An outage is 503 with its own problem type, never 429, whatever policy is asked.
func TestOutage(t *testing.T) {
	t.Parallel()
	down := errors.New("no route to host")
	for _, count := range []func(int, http.Header) bool{nil, func(int, http.Header) bool { return false }} {
		for _, allow := range []bool{false, true} {
			t.Run(fmt.Sprintf("held %v allow %v", count != nil, allow), func(t *testing.T) {
				t.Parallel()
				store := storetest.WithFaults(memstore.New(nil), func(context.Context, []*driver.Txn) storetest.Fault {
					return storetest.Fault{Err: fmt.Errorf("%w: %w", driver.ErrNotApplied, down)}
				})
				opts := &ration.Options{}
				if allow {
					opts.OnError = ration.AllowOnError
				}
				l := ration.New(store, opts)
				t.Cleanup(func() { l.Close() })
				h := guard(t, l, nil, httplimit.Policy{Limit: sliding("x", 1, time.Minute), Key: byAddr, Count: count})(hello)
				r := do(h)
				if allow {
					if r.StatusCode != 200 || r.Header.Get("RateLimit") != "" {
						t.Error(r.StatusCode, r.Header)
					}
					return
				}
				if p := problemOf(t, r); r.StatusCode != 503 || p.Type != reducedCapacity || strings.Contains(p.Detail, "route") {
					t.Error(r.StatusCode, p)
				}
			})
		}
	}
}

// A limit that an outage made smaller refuses with 503 too.
func TestOutageLocal(t *testing.T) {
	t.Parallel()
	store := storetest.WithFaults(memstore.New(nil), func(context.Context, []*driver.Txn) storetest.Fault {
		return storetest.Fault{Err: driver.ErrNotApplied}
	})
	l := ration.New(store, &ration.Options{OnError: ration.LocalOnError, Outage: &ration.Outage{Parts: 2}, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { l.Close() })
	h := guard(t, l, nil, httplimit.Policy{Limit: sliding("x", 4, time.Minute), Key: byAddr})(hello)
	if got := statuses(h, 2); !slices.Equal(got, []int{200, 200}) {
		t.Fatal(got)
	}
	r := do(h)
	p := problemOf(t, r)
	if r.StatusCode != 503 || p.Type != reducedCapacity || !slices.Equal(p.Violated, []string{"x"}) || r.Header.Get("Retry-After") == "" || r.Header.Get("RateLimit") != "" {
		t.Error(r.StatusCode, p, r.Header)
	}
}

// Nothing is charged for a request that is served by Refuse or Error hooks of the program.
func TestHooks(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	h := guard(t, l, &httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, o ration.Outcome) {
		http.Error(w, "wait for "+o.Name, 420)
	}}, httplimit.Policy{Limit: sliding("x", 1, time.Minute), Key: byAddr})(hello)
	do(h)
	r := do(h)
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != 420 || string(body) != "wait for x\n" || r.Header.Get("Retry-After") != "60" || r.Header.Get("RateLimit") != `"x";r=0;t=60` {
		t.Error(r.StatusCode, string(body), r.Header)
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
