package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
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
