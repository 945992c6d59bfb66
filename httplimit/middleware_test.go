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
