//go:build linux

package clients

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/examples/internal/chromium"
	"github.com/ration-go/ration/httplimit"
)

//go:embed page.html
var page []byte

// A page sees what is left, and when to come back. Events and pieces of a body arrive while the handler runs, and a socket is
// passed on; each has a slot for as long.
func TestBrowser(t *testing.T) {
	t.Parallel()
	ctx := chromium.Start(t)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			s := newPageSite(t, protocol == "HTTP/2.0")
			if err := chromedp.Do(ctx, chromedp.Navigate(s.URL)); err != nil {
				t.Fatal(err)
			}
			asked := 0
			ask := func(want string) {
				t.Helper()
				asked++
				if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("button"))); err != nil {
					t.Fatal(err)
				}
				got, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(fmt.Sprintf(`#answer[data-asked="%d"]`, asked))))
				if err != nil || got != want {
					t.Errorf("%q %v, want %q", got, err, want)
				}
			}
			ask(protocol + ", 1 left")
			ask(protocol + ", 0 left")
			ask("minutely refused, come back in 61 s")
			s.clock.Advance(61 * time.Second)
			ask(protocol + ", 1 left")

			for range 2 {
				call(t, ctx, "events()", "1", "2", "3", "closed", 429.0)
				s.released(t, 200)
				call(t, ctx, "pieces()", "data: 1", "data: 2")
				s.released(t, 200)
				call(t, ctx, "sockets()", "hello", "closed 1006", 100_000.0, 1000.0)
				s.released(t, 101)
			}
		})
	}
}

// call calls a function of the page.
func call(t *testing.T, ctx context.Context, expression string, want ...any) {
	t.Helper()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[]any](expression, chromedp.EvalAwaitPromise))
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s: %v %v, want %v", expression, got, err, want)
	}
}

// pageSite serves the page and what it asks for.
type pageSite struct {
	*httptest.Server
	clock  *clock
	seen   chan string // the page has seen an event
	status chan int    // of a stream or a socket that was admitted
	ended  chan bool   // its guard has returned
}

func newPageSite(t *testing.T, http2 bool) *pageSite {
	s := &pageSite{clock: newClock(), seen: make(chan string), status: make(chan int, 10), ended: make(chan bool, 10)}
	l := newLimiter(t, s.clock)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	mux.HandleFunc("POST /seen", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case s.seen <- r.URL.RawQuery:
		case <-r.Context().Done():
		}
	})
	minutely := ration.Rule{Name: "minutely", Limit: ration.SlidingWindow{Limit: 2, Window: 60_500 * time.Millisecond}}
	mux.Handle("GET /api", guard(t, l, httplimit.Policy{Limit: minutely, Key: httplimit.ByIP(nil)})(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })))
	mux.Handle("GET /events", s.oneAtATime(t, l, "streams", s.events))
	mux.Handle("GET /socket", s.oneAtATime(t, l, "sockets", echo))
	s.Server = httptest.NewUnstartedServer(mux)
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.CloseClientConnections() // of a stream that failed, the page still has the other end
		s.Close()
	})
	return s
}

// oneAtATime guards h by a slot, and by a count that asks for the outcome.
func (s *pageSite) oneAtATime(t *testing.T, l *ration.Limiter, name string, h http.HandlerFunc) http.Handler {
	slot := httplimit.Policy{Key: httplimit.ByIP(nil), Limit: ration.Rule{Name: name, Limit: ration.Concurrency{Limit: 1, Lease: time.Minute}}}
	count := httplimit.Policy{Key: httplimit.ByIP(nil), Limit: ration.Rule{Name: name + "-ever", Limit: ration.SlidingWindow{Limit: 100, Window: time.Hour}},
		Count: func(status int, _ http.Header) bool {
			s.status <- status
			return true
		}}
	guarded := guard(t, l, slot, count)(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded.ServeHTTP(w, r)
		if w.Header().Get("Retry-After") == "" {
			s.ended <- true
		}
	})
}

// released waits until the guard of a stream or a socket has returned, and checks what it took for the status.
func (s *pageSite) released(t *testing.T, status int) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-s.ended:
		if got := <-s.status; got != status {
			t.Errorf("status %d, want %d", got, status)
		}
	case <-late.C:
		t.Fatal("the handler still runs, and its client is gone")
	}
}

// events sends the next one when the page has seen the last.
func (s *pageSite) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for n := 1; ; n++ {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", n); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case got := <-s.seen:
			if got != fmt.Sprint(n) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// echo says on a WebSocket what it hears, until the other end closes it.
func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = c.CloseNow() }() // it is closed already, or broken
	c.SetReadLimit(1 << 20)
	for {
		kind, text, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, text) != nil {
			return
		}
	}
}
