package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

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
