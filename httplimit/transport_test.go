package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

// tripper is a base that answers as a function says, and notes when requests came.
type tripper struct {
	answer func(n int, r *http.Request) *http.Response
	start  time.Time

	mu   sync.Mutex
	came []time.Duration
}

func newTripper(answer func(n int, r *http.Request) *http.Response) *tripper {
	return &tripper{answer: answer, start: time.Now()}
}

func (b *tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.came = append(b.came, time.Since(b.start))
	n := len(b.came)
	b.mu.Unlock()
	if r.Body != nil {
		r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a := b.answer(n, r)
	if a == nil {
		return nil, errors.New("no answer")
	}
	a.Request = r
	return a, nil
}

func (b *tripper) times() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.came)
}

func answer(status int, lines ...string) *http.Response {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("body"))}
}

func ok(int, *http.Request) *http.Response { return answer(200) }

func request(t testing.TB, ctx context.Context, method, body string) *http.Request {
	t.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://api.example.test/", b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send is the status, or 0 and the error.
func send(t testing.TB, tr *httplimit.Transport, r *http.Request) (int, error) {
	t.Helper()
	a, err := tr.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	io.Copy(io.Discard, a.Body)
	a.Body.Close()
	return a.StatusCode, nil
}

func late(t testing.TB, err error) *ration.RefusedError {
	t.Helper()
	no, ok := errors.AsType[*ration.RefusedError](err)
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, want a refusal in time", err)
	}
	return no
}

// near reports whether d is want, or a little later by jitter.
func near(d, want time.Duration) bool { return d >= want && d <= want+want/5+time.Millisecond }

func bubble(t *testing.T, f func(t *testing.T, l *ration.Limiter)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ration.New(memstore.New(nil), nil)
		defer l.Close()
		f(t, l)
	})
}

func host(r *http.Request) string { return r.URL.Host }

// Five at once under a limit of two a second are sent two a second.
func TestTransportPaces(t *testing.T) {
	for name, policies := range map[string][]httplimit.Policy{
		"one limit":  {{Limit: sliding("a", 2, time.Second), Key: host}},
		"two limits": {{Limit: sliding("a", 2, time.Second), Key: host}, {Limit: sliding("b", 100, time.Second), Key: host}},
		"held": {{Limit: sliding("a", 2, time.Second), Key: host, Count: func(status int, _ http.Header) bool {
			return status == 200
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *ration.Limiter) {
				b := newTripper(ok)
				tr := &httplimit.Transport{Base: b, Limiter: l, Policies: policies}
				var wg sync.WaitGroup
				for range 6 {
					wg.Go(func() {
						if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 200 || err != nil {
							t.Error(status, err)
						}
					})
				}
				wg.Wait()
				came := b.times()
				if len(came) != 6 || came[1] != 0 || came[2] < time.Second || came[4] < 2*time.Second || came[5] > 4*time.Second {
					t.Error(came)
				}
			})
		})
	}
}

// Who cannot be sent in time is told at once, and nothing is sent or charged.
func TestTransportTooLate(t *testing.T) {
	for name, policies := range map[string][]httplimit.Policy{
		"one limit":  {{Limit: sliding("a", 1, time.Minute), Key: host}},
		"two limits": {{Limit: sliding("a", 1, time.Minute), Key: host}, {Limit: sliding("b", 1, time.Second), Key: host}},
		"held":       {{Limit: sliding("a", 1, time.Minute), Key: host, Count: func(int, http.Header) bool { return true }}},
	} {
		for _, wait := range []time.Duration{-1, 30 * time.Second, time.Hour} {
			t.Run(fmt.Sprint(name, wait), func(t *testing.T) {
				bubble(t, func(t *testing.T, l *ration.Limiter) {
					b := newTripper(ok)
					tr := &httplimit.Transport{Base: b, Limiter: l, Policies: policies, MaxWait: wait}
					ctx := t.Context()
					if wait == time.Hour {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, 30*time.Second)
						defer cancel()
					}
					if status, err := send(t, tr, request(t, ctx, "GET", "")); status != 200 || err != nil {
						t.Fatal(status, err)
					}
					begin := time.Now()
					_, err := send(t, tr, request(t, ctx, "GET", ""))
					if no := late(t, err); no.Name != "a" || no.RetryAfter != time.Minute || time.Since(begin) != 0 {
						t.Error(no, time.Since(begin))
					}
					if len(b.times()) != 1 {
						t.Error(b.times())
					}
				})
			})
		}
	}
}

func TestTransportNever(t *testing.T) {
	bubble(t, func(t *testing.T, l *ration.Limiter) {
		for _, more := range [][]httplimit.Policy{nil, {{Limit: sliding("b", 9, time.Minute), Key: host}}} {
			tr := &httplimit.Transport{Base: newTripper(ok), Limiter: l,
				Policies: append(more, httplimit.Policy{Limit: sliding("a", 1, time.Minute), Key: host, Cost: func(*http.Request) int64 { return 2 }})}
			_, err := send(t, tr, request(t, t.Context(), "GET", ""))
			if no, ok := errors.AsType[*ration.RefusedError](err); !ok || !no.Never || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}

// What the server says: each dialect stops the next request for as long as it says, and no longer than jitter adds.
func TestTransportHeedsServer(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		lines  []string
		want   time.Duration
	}{
		{"nothing", 200, nil, 0},
		{"something left", 200, []string{`RateLimit: "a";r=1;t=30`}, 0},
		{"draft 11", 200, []string{`RateLimit: "a";r=0;t=30`}, 30 * time.Second},
		{"draft 12", 200, []string{`RateLimit: "a";a=0;w=30;c=1`}, 30 * time.Second},
		{"draft 12, a costly one", 200, []string{`RateLimit: "a";a=4;w=30;c=5`}, 30 * time.Second},
		{"of several", 200, []string{`RateLimit: "a";r=5;t=30, "b";r=0;t=20`}, 20 * time.Second},
		{"draft 07", 200, []string{"RateLimit: limit=1, remaining=0, reset=12"}, 12 * time.Second},
		{"GitHub", 200, []string{"Date: Sun, 01 Mar 2026 12:00:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1772366430"}, 30 * time.Second},
		{"OpenAI", 200, []string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1m2s"}, 62 * time.Second},
		{"OpenAI tokens", 200, []string{"x-ratelimit-remaining-requests: 9", "x-ratelimit-reset-requests: 1m2s", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 6ms"}, 6 * time.Millisecond},
		{"Anthropic", 200, []string{"anthropic-ratelimit-input-tokens-remaining: 0", "anthropic-ratelimit-input-tokens-reset: 2000-01-01T00:00:10Z"}, 10 * time.Second},
		{"Retry-After", 429, []string{"Retry-After: 7"}, 7 * time.Second},
		{"Retry-After wins", 429, []string{"Retry-After: 7", `RateLimit: "a";r=0;t=50`}, 7 * time.Second},
		{"a date", 503, []string{"Retry-After: Sat, 01 Jan 2000 00:00:10 GMT"}, 10 * time.Second},
		{"GitHub's second limit", 403, []string{"Retry-After: 9"}, 9 * time.Second},
		{"not of a refusal", 200, []string{"Retry-After: 9"}, 0},
		{"not told", 429, nil, time.Second},
		{"not told, but a limit is", 429, []string{`RateLimit: "a";r=0;t=5`}, 5 * time.Second},
		{"a broken server", 503, nil, 0},
		{"milliseconds", 429, []string{"Retry-After: 1", "Retry-After-Ms: 120"}, 120 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *ration.Limiter) {
				b := newTripper(func(n int, _ *http.Request) *http.Response {
					if n == 1 {
						return answer(c.status, c.lines...)
					}
					return answer(200)
				})
				tr := &httplimit.Transport{Base: b, MaxWait: 2 * time.Minute, Replays: -1}
				if status, err := send(t, tr, request(t, t.Context(), "POST", "")); status != c.status || err != nil {
					t.Fatal(status, err)
				}
				if status, err := send(t, tr, request(t, t.Context(), "POST", "")); status != 200 || err != nil {
					t.Fatal(status, err)
				}
				if came := b.times(); !near(came[1], c.want) {
					t.Errorf("sent after %v, want %v", came[1], c.want)
				}
			})
		})
	}
}

// The server says that three are left: of ten at once three are sent; the others wait for the news, and then for the end.
func TestTransportCountsWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, _ *ration.Limiter) {
		b := newTripper(func(n int, r *http.Request) *http.Response {
			if n <= 4 {
				time.Sleep(time.Second)
				return answer(200, fmt.Sprintf(`RateLimit: "a";r=%d;t=%d`, max(0, 4-n), 30-n))
			}
			return answer(200)
		})
		tr := &httplimit.Transport{Base: b}
		if _, err := send(t, tr, request(t, t.Context(), "GET", "")); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 200 || err != nil {
					t.Error(status, err)
				}
			})
		}
		wg.Wait()
		came := b.times()
		if len(came) != 11 || came[3] != time.Second || came[4] < 20*time.Second || came[10] > 40*time.Second {
			t.Error(came)
		}
	})
}

// A wait that the budget does not cover fails at once, and again until it is over; the refusal itself is the server's answer.
func TestTransportBudget(t *testing.T) {
	bubble(t, func(t *testing.T, l *ration.Limiter) {
		b := newTripper(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(429, "Retry-After: 100")
			}
			return answer(200)
		})
		mine := sliding("mine", 10, time.Hour)
		tr := &httplimit.Transport{Base: b, Limiter: l, MaxWait: 30 * time.Second, Policies: []httplimit.Policy{{Limit: mine, Key: func(*http.Request) string { return "192.0.2.1" }}}}
		if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 429 || err != nil {
			t.Fatal(status, err)
		}
		closed := false
		r := request(t, t.Context(), "POST", "")
		r.Body = closing{strings.NewReader("x"), &closed}
		_, err := send(t, tr, r)
		if no := late(t, err); no.RetryAfter != 100*time.Second || !closed {
			t.Error(no, closed)
		}
		if got := used(t, l, mine); got != 1 {
			t.Errorf("%d are charged", got)
		}
		// http.Client tells it as a timeout.
		_, err = (&http.Client{Transport: tr}).Get("http://api.example.test/")
		if e, ok := errors.AsType[*url.Error](err); !ok || !e.Timeout() {
			t.Error(err)
		}
		time.Sleep(71 * time.Second)
		if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 200 || err != nil || !near(b.times()[1], 100*time.Second) {
			t.Error(status, err, b.times())
		}
	})
}

type closing struct {
	io.Reader
	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

// A cancelled wait ends at once, charges nothing more and sends nothing.
func TestTransportCancel(t *testing.T) {
	bubble(t, func(t *testing.T, l *ration.Limiter) {
		b := newTripper(func(int, *http.Request) *http.Response { return answer(429, "Retry-After: 20") })
		tr := &httplimit.Transport{Base: b, Replays: -1}
		send(t, tr, request(t, t.Context(), "GET", ""))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		begin := time.Now()
		_, err := send(t, tr, request(t, ctx, "GET", ""))
		if _, refused := errors.AsType[*ration.RefusedError](err); !errors.Is(err, context.Canceled) || refused || time.Since(begin) != 3*time.Second || len(b.times()) != 1 {
			t.Error(err, time.Since(begin), b.times())
		}
		if _, err := send(t, tr, request(t, ctx, "GET", "")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Only what does no harm twice is sent again, with its whole body, and not more often than was said.
func TestTransportReplays(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  string
		body    string
		edit    func(*http.Request)
		status  int
		header  string
		replays int
		want    int // times sent
	}{
		{name: "GET", method: "GET", status: 429, header: "Retry-After: 1", want: 3},
		{name: "HEAD", method: "HEAD", status: 429, header: "Retry-After: 1", want: 3},
		{name: "no method", method: "", status: 429, header: "Retry-After: 1", want: 3},
		{name: "PUT with body", method: "PUT", body: "hello", status: 429, header: "Retry-After: 1", want: 3},
		{name: "POST", method: "POST", body: "hello", status: 429, header: "Retry-After: 1", want: 1},
		{name: "PATCH", method: "PATCH", body: "hello", status: 429, header: "Retry-After: 1", want: 1},
		{name: "POST with a key", method: "POST", body: "hello", edit: func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }, status: 429, header: "Retry-After: 1", want: 3},
		{name: "body that is gone", method: "PUT", body: "hello", edit: func(r *http.Request) { r.GetBody = nil }, status: 429, header: "Retry-After: 1", want: 1},
		{name: "body that cannot be had", method: "PUT", body: "hello", edit: func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF } }, status: 429, header: "Retry-After: 1", want: 1},
		{name: "503", method: "GET", status: 503, header: "Retry-After: 1", want: 3},
		{name: "503 without a time", method: "GET", status: 503, want: 1},
		{name: "429 without a time", method: "GET", status: 429, want: 3},
		{name: "403", method: "GET", status: 403, header: "Retry-After: 1", want: 1},
		{name: "500", method: "GET", status: 500, header: "Retry-After: 1", want: 1},
		{name: "five", method: "GET", status: 429, header: "Retry-After: 1", replays: 5, want: 6},
		{name: "none", method: "GET", status: 429, header: "Retry-After: 1", replays: -1, want: 1},
		{name: "too long a wait", method: "GET", status: 429, header: "Retry-After: 61", want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *ration.Limiter) {
				var bodies []string
				b := newTripper(nil)
				b.answer = func(_ int, r *http.Request) *http.Response { return answer(c.status, c.header) }
				base := tripFunc(func(r *http.Request) (*http.Response, error) {
					if r.Body != nil {
						body, _ := io.ReadAll(r.Body)
						bodies = append(bodies, string(body))
					}
					return b.RoundTrip(r)
				})
				mine := sliding("mine", 10, time.Hour)
				tr := &httplimit.Transport{Base: base, Limiter: l, Replays: c.replays, Policies: []httplimit.Policy{{Limit: mine, Key: func(*http.Request) string { return "192.0.2.1" }}}}
				r := request(t, t.Context(), c.method, c.body)
				if c.edit != nil {
					c.edit(r)
				}
				before := *r
				if status, err := send(t, tr, r); status != c.status || err != nil {
					t.Fatal(status, err)
				}
				came := b.times()
				if len(came) != c.want || used(t, l, mine) != int64(c.want) {
					t.Errorf("sent %d times, charged %d, want %d", len(came), used(t, l, mine), c.want)
				}
				for i := 1; i < len(came); i++ {
					if came[i]-came[i-1] < time.Second {
						t.Error(came)
					}
				}
				for _, body := range bodies {
					if body != c.body {
						t.Errorf("the body was %q", body)
					}
				}
				if r.Body != before.Body || r.URL != before.URL || len(r.Header) > 1 {
					t.Error("the request was changed")
				}
			})
		})
	}
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What one server, or one account there, is told does not stop the others.
func TestTransportScope(t *testing.T) {
	bubble(t, func(t *testing.T, _ *ration.Limiter) {
		b := newTripper(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(429, "Retry-After: 50")
			}
			return answer(200)
		})
		tr := &httplimit.Transport{Base: b, Replays: -1}
		with := func(edit func(*http.Request)) *http.Request {
			r := request(t, t.Context(), "GET", "")
			edit(r)
			return r
		}
		send(t, tr, with(func(r *http.Request) { r.Header.Set("Authorization", "Bearer a") }))
		for _, r := range []*http.Request{
			with(func(r *http.Request) { r.Header.Set("Authorization", "Bearer b") }),
			with(func(r *http.Request) { r.Header.Set("X-Api-Key", "Bearer a") }),
			with(func(r *http.Request) { r.URL.Host = "other.example.test"; r.Header.Set("Authorization", "Bearer a") }),
			with(func(r *http.Request) {}),
		} {
			if status, err := send(t, tr, r); status != 200 || err != nil {
				t.Error(status, err)
			}
		}
		if came := b.times(); came[len(came)-1] != 0 {
			t.Error(came)
		}
		send(t, tr, with(func(r *http.Request) { r.Header.Set("Authorization", "Bearer a"); r.URL.Path = "/other" }))
		if came := b.times(); !near(came[len(came)-1], 50*time.Second) {
			t.Error(came)
		}
		// By a scope of the program's own.
		all := &httplimit.Transport{Base: newTripper(b.answer), Replays: -1, MaxWait: -1, Scope: func(*http.Request) string { return "all" }}
		send(t, all, with(func(r *http.Request) {}))
		_, err := send(t, all, with(func(r *http.Request) { r.URL.Host = "other.example.test" }))
		late(t, err)
	})
}

// More servers than are kept apart: those that are told nothing go first.
func TestTransportManyScopes(t *testing.T) {
	bubble(t, func(t *testing.T, _ *ration.Limiter) {
		b := newTripper(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(429, "Retry-After: 50")
			}
			return answer(200)
		})
		tr := &httplimit.Transport{Base: b, Replays: -1, MaxWait: -1, Scope: func(r *http.Request) string { return r.URL.Path }}
		for i := range 6000 {
			r := request(t, t.Context(), "GET", "")
			r.URL.Path = fmt.Sprint(i)
			if _, err := send(t, tr, r); err != nil {
				t.Fatal(err)
			}
		}
		r := request(t, t.Context(), "GET", "")
		r.URL.Path = "0"
		_, err := send(t, tr, r)
		late(t, err)
	})
}

// A slot is held until the answer was read, and renewed meanwhile.
func TestTransportConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, l *ration.Limiter) {
		slots := ration.Rule{Name: "at-once", Limit: ration.Concurrency{Limit: 1, Lease: 5 * time.Second}}
		b := newTripper(func(int, *http.Request) *http.Response {
			a := answer(200)
			if len(a.Header) == 0 {
				a.Header.Set("X", "y")
			}
			return a
		})
		tr := &httplimit.Transport{Base: b, Limiter: l, Policies: []httplimit.Policy{{Limit: slots, Key: host}}}
		first, err := tr.RoundTrip(request(t, t.Context(), "GET", ""))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Second, func() {
			if body, err := io.ReadAll(first.Body); string(body) != "body" || err != nil {
				t.Error(string(body), err)
			}
		})
		if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 200 || err != nil {
			t.Fatal(status, err)
		}
		if came := b.times(); came[1] < 20*time.Second || came[1] > 21*time.Second {
			t.Error(came)
		}
		first.Body.Close()
		// A request without an answer lets go at once.
		b.answer = func(int, *http.Request) *http.Response { return nil }
		if _, err := send(t, tr, request(t, t.Context(), "GET", "")); err == nil {
			t.Error("no error")
		}
		b.answer = ok
		begin := time.Now()
		if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 200 || err != nil || time.Since(begin) > time.Second {
			t.Error(status, err, time.Since(begin))
		}
		for range l.Holds(t.Context()) {
			t.Error("a reservation is left open")
		}
	})
}

// A slot that is not let go of in time: told when the time is over, since slots are mostly free before their lease ends.
func TestTransportNoSlotInTime(t *testing.T) {
	bubble(t, func(t *testing.T, l *ration.Limiter) {
		b := newTripper(ok)
		tr := &httplimit.Transport{Base: b, Limiter: l, MaxWait: 3 * time.Second,
			Policies: []httplimit.Policy{{Limit: ration.Rule{Name: "at-once", Limit: ration.Concurrency{Limit: 1, Lease: 5 * time.Second}}, Key: host}}}
		first, err := tr.RoundTrip(request(t, t.Context(), "GET", ""))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = send(t, tr, request(t, t.Context(), "GET", ""))
		if no := late(t, err); no.Name != "at-once" || time.Since(begin) != 3*time.Second || len(b.times()) != 1 {
			t.Error(no, time.Since(begin), b.times())
		}
		first.Body.Close()
		if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 200 || err != nil {
			t.Error(status, err)
		}
	})
}

// Only the answers that count are charged; one that never came is.
func TestTransportCount(t *testing.T) {
	bubble(t, func(t *testing.T, l *ration.Limiter) {
		mine := sliding("mine", 10, time.Hour)
		b := newTripper(func(n int, _ *http.Request) *http.Response {
			return []*http.Response{nil, answer(200), answer(404), nil}[n]
		})
		tr := &httplimit.Transport{Base: b, Limiter: l, Policies: []httplimit.Policy{{Limit: mine, Key: func(*http.Request) string { return "192.0.2.1" },
			Count: func(status int, _ http.Header) bool { return status < 400 }}}}
		for i, want := range []int64{1, 1, 2} {
			send(t, tr, request(t, t.Context(), "GET", ""))
			if got := used(t, l, mine); got != want {
				t.Errorf("after %d: %d charged, want %d", i, got, want)
			}
		}
	})
}

func TestTransportConfiguration(t *testing.T) {
	bubble(t, func(t *testing.T, l *ration.Limiter) {
		closed := false
		for name, tr := range map[string]*httplimit.Transport{
			"no Limiter": {Policies: []httplimit.Policy{{Limit: sliding("a", 1, time.Minute), Key: host}}},
			"no Key":     {Limiter: l, Policies: []httplimit.Policy{{Limit: sliding("a", 1, time.Minute)}}},
			"no identity": {Limiter: l, Policies: []httplimit.Policy{{Limit: sliding("a", 1, time.Minute),
				Key: func(*http.Request) string { return "" }}}},
		} {
			closed = false
			r := request(t, t.Context(), "POST", "")
			r.Body = closing{strings.NewReader("x"), &closed}
			if _, err := send(t, tr, r); err == nil || !closed {
				t.Error(name, err, closed)
			}
		}
	})
}

// A guarded server and a polite client of it, with many callers at once: every request is answered in the end.
func TestTransportAgainstGuard(t *testing.T) {
	// Without X-RateLimit-Reset: in a bubble it is the year 2000, whose times since 1970 are no longer told from spans.
	for _, dialect := range []httplimit.Headers{httplimit.Draft11, httplimit.Draft12, httplimit.Split, httplimit.None} {
		t.Run(fmt.Sprint(dialect), func(t *testing.T) {
			bubble(t, func(t *testing.T, l *ration.Limiter) {
				h := guard(t, l, &httplimit.Options{Headers: dialect},
					httplimit.Policy{Limit: ration.Rule{Name: "x", Limit: ration.TokenBucket{Burst: 10, Refill: ration.PerSecond(10)}}, Key: byAddr})(hello)
				var refusals atomic.Int64
				tr := &httplimit.Transport{Replays: 9, Base: tripFunc(func(r *http.Request) (*http.Response, error) {
					w := httptest.NewRecorder()
					time.Sleep(10 * time.Millisecond)
					r.RemoteAddr = "192.0.2.1:1"
					h.ServeHTTP(w, r)
					if w.Code == 429 {
						refusals.Add(1)
					}
					w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
					return w.Result(), nil
				})}
				begin := time.Now()
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						for range 5 {
							if status, err := send(t, tr, request(t, t.Context(), "GET", "")); status != 200 || err != nil {
								t.Error(status, err)
							}
						}
					})
				}
				wg.Wait()
				if took := time.Since(begin); took < 8*time.Second || took > time.Minute || refusals.Load() > 300 {
					t.Error(refusals.Load(), "refusals in", took)
				}
			})
		})
	}
}

// Over real connections a caller who goes by what the answers say is never refused.
func TestTransportNeverRefused(t *testing.T) {
	t.Parallel()
	for _, dialect := range []httplimit.Headers{httplimit.Draft11, httplimit.Draft12, httplimit.Split, httplimit.XHeaders} {
		t.Run(fmt.Sprint(dialect), func(t *testing.T) {
			t.Parallel()
			l := ration.New(memstore.New(nil), nil)
			t.Cleanup(func() { l.Close() })
			g := guard(t, l, &httplimit.Options{Headers: dialect},
				httplimit.Policy{Limit: ration.Rule{Name: "x", Limit: ration.TokenBucket{Burst: 5, Refill: ration.PerSecond(20)}}, Key: byAddr})
			url, c := serve(t, g(hello))
			client := &http.Client{Transport: &httplimit.Transport{Base: c.Transport, Replays: -1}}
			for range 12 {
				if r, body := get(t, client, url); r.StatusCode != 200 || body != "hello" {
					t.Error(r.StatusCode, body)
				}
			}
			client.CloseIdleConnections()
		})
	}
}
