package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

func used(t testing.TB, l *ration.Limiter, limit ration.Limit) int64 {
	t.Helper()
	d, err := l.Peek(context.Background(), ration.KeyOf("192.0.2.1"), limit, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Used
}

// Only the answers that count are charged; what was answered, also by a panic, decides.
func TestCount(t *testing.T) {
	t.Parallel()
	failures := func(status int, h http.Header) bool { return status >= 400 || h.Get("Count") != "" }
	for _, c := range []struct {
		name    string
		serve   http.HandlerFunc
		want    int64
		status  int
		panics  bool
		hangsUp bool
	}{
		{name: "nothing written", serve: func(http.ResponseWriter, *http.Request) {}, status: 200},
		{name: "a body", serve: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }, status: 200},
		{name: "a failure", serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, status: 401, want: 1},
		{name: "the first status counts", serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); w.WriteHeader(500) }, status: 204},
		{name: "hints come before", serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(404) }, status: 103, want: 1}, // the recorder keeps the first
		{name: "by header", serve: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Count", "1"); w.WriteHeader(200) }, status: 200, want: 1},
		{name: "flushed", serve: func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, status: 200},
		{name: "a panic", serve: func(http.ResponseWriter, *http.Request) { panic("boom") }, panics: true, status: 200, want: 1},
		{name: "a panic in the middle", serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("boom") }, panics: true, status: 200},
		{name: "given up before the answer", serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, hangsUp: true, status: 200, want: 1},
		{name: "given up without an answer", serve: func(http.ResponseWriter, *http.Request) {}, hangsUp: true, status: 200, want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, _ := newLimiter(t)
			counted, always := sliding("counted", 5, time.Minute), sliding("always", 50, time.Hour)
			ctx, hangUp := context.WithCancel(context.Background())
			defer hangUp()
			h := guard(t, l, nil,
				httplimit.Policy{Limit: counted, Key: byAddr, Count: failures},
				httplimit.Policy{Limit: always, Key: byAddr},
			)(handler(func(w http.ResponseWriter, r *http.Request) {
				if got := used(t, l, counted); got != 1 {
					t.Errorf("%d are charged while it is served", got)
				}
				if c.hangsUp {
					hangUp()
				}
				c.serve(w, r)
			}))
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			r.RemoteAddr = "192.0.2.1:1234"
			func() {
				defer func() {
					if p := recover(); (p == "boom") != c.panics {
						t.Errorf("recovered %v", p)
					}
				}()
				h.ServeHTTP(w, r)
			}()
			if got := used(t, l, counted); got != c.want {
				t.Errorf("%d are charged, want %d", got, c.want)
			}
			if got := used(t, l, always); got != 1 {
				t.Errorf("%d are charged where all answers count", got)
			}
			if w.Code != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
			for range l.Holds(context.Background()) {
				t.Error("a reservation is left open")
			}
		})
	}
}

// A hundred wrong passwords at once: five are tried.
func TestCountHundredAtOnce(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	var tried atomic.Int64
	h := guard(t, l, nil, httplimit.Policy{Limit: sliding("failures", 5, time.Minute), Key: byAddr, Count: func(status int, _ http.Header) bool { return status == 401 }})(
		handler(func(w http.ResponseWriter, _ *http.Request) { tried.Add(1); w.WriteHeader(401) }))
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { do(h) })
	}
	wg.Wait()
	if tried.Load() != 5 {
		t.Fatal(tried.Load())
	}
}

// A slot is held while the handler runs, for as long as that takes, and free right after; also after a panic.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ration.New(memstore.New(nil), nil)
		defer l.Close()
		enter, leave := make(chan struct{}), make(chan struct{})
		h := guard(t, l, nil, httplimit.Policy{Limit: ration.Rule{Name: "at-once", Limit: ration.Concurrency{Limit: 2, Lease: 10 * time.Second}}, Key: byAddr})(
			handler(func(_ http.ResponseWriter, r *http.Request) {
				enter <- struct{}{}
				select {
				case <-leave:
				case <-r.Context().Done():
					t.Error("the request's context ended", context.Cause(r.Context()))
				}
				if r.Header.Get("Boom") != "" {
					panic(http.ErrAbortHandler)
				}
			}))
		for range 2 {
			go func() {
				defer func() {
					if p := recover(); p != http.ErrAbortHandler {
						t.Error(p)
					}
				}()
				do(h, header("Boom", "1"))
			}()
			<-enter
		}
		time.Sleep(time.Minute)
		r := do(h)
		if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
			t.Error(r.StatusCode, r.Header)
		}
		leave <- struct{}{}
		leave <- struct{}{}
		synctest.Wait()
		done := make(chan []int)
		go func() { done <- statuses(h, 1) }()
		<-enter
		leave <- struct{}{}
		if got := <-done; !slices.Equal(got, []int{200}) {
			t.Error(got)
		}
	})
}

// A handler that does not look at its context keeps its slot, although its client is gone; and a request that lasts longer
// than a reservation lives is settled all the same.
func TestLongRequests(t *testing.T) {
	t.Parallel()
	slots := ration.Rule{Name: "x", Limit: ration.Concurrency{Limit: 1, Lease: 10 * time.Second}}
	for _, c := range []struct {
		name  string
		limit ration.Rule
		count func(int, http.Header) bool
		after int
	}{
		{"slots", slots, nil, 200},
		{"not counted", sliding("x", 1, 24*time.Hour), func(int, http.Header) bool { return false }, 200},
		{"counted", sliding("x", 1, 24*time.Hour), func(int, http.Header) bool { return true }, 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := ration.New(memstore.New(&memstore.Options{SweepEvery: time.Minute}), nil)
				defer l.Close()
				first := true
				h := guard(t, l, nil, httplimit.Policy{Limit: c.limit, Key: byAddr, Count: c.count})(handler(func(w http.ResponseWriter, _ *http.Request) {
					if first {
						first = false
						w.WriteHeader(200)
						time.Sleep(time.Hour)
					}
				}))
				ctx, hangUp := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, hangUp)
				done := make(chan struct{})
				go func() {
					defer close(done)
					do(h, func(r *http.Request) { *r = *r.WithContext(ctx) })
				}()
				time.Sleep(59 * time.Minute)
				if got := do(h).StatusCode; got != 429 {
					t.Error("while it runs", got)
				}
				<-done
				if got := do(h).StatusCode; got != c.after {
					t.Error("after it", got)
				}
			})
		})
	}
}

// A slot that is lost ends the request's context.
func TestLostSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ration.New(memstore.New(nil), nil)
		defer l.Close()
		limit := ration.Rule{Name: "x", Limit: ration.Concurrency{Limit: 1, Lease: 10 * time.Second}}
		h := guard(t, l, nil, httplimit.Policy{Limit: limit, Key: byAddr})(handler(func(_ http.ResponseWriter, r *http.Request) {
			for hold, err := range l.Holds(r.Context()) {
				if err != nil {
					t.Error(err)
				}
				if err := l.Reservation(hold.ID).Cancel(r.Context()); err != nil { // as an operator may
					t.Error(err)
				}
			}
			begin := time.Now()
			<-r.Context().Done()
			if waited := time.Since(begin); waited > 10*time.Second {
				t.Error(waited)
			}
		}))
		do(h)
	})
}

// What inner handlers note on the request is seen outside, although a slot needs a context of its own.
func TestConcurrencyKeepsRequest(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /items/{id}", func(_ http.ResponseWriter, r *http.Request) { r.ParseForm() })
	h := guard(t, l, nil, httplimit.Policy{Limit: ration.Rule{Name: "at-once", Limit: ration.Concurrency{Limit: 2, Lease: time.Minute}}, Key: byAddr})(mux)
	var seen *http.Request
	if got := do(h, func(r *http.Request) { r.Method, r.URL.Path, r.URL.RawQuery, seen = "POST", "/items/7", "a=b", r }).StatusCode; got != 200 {
		t.Fatal(got)
	}
	if seen.Pattern != "POST /items/{id}" || seen.Form.Get("a") != "b" {
		t.Error(seen.Pattern, seen.Form)
	}
}
