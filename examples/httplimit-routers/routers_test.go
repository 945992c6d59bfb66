package routers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/ration-go/ration"
	chiguard "github.com/ration-go/ration/examples/httplimit-chi"
	echoguard "github.com/ration-go/ration/examples/httplimit-echo"
	fiberguard "github.com/ration-go/ration/examples/httplimit-fiber"
	ginguard "github.com/ration-go/ration/examples/httplimit-gin"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

// TestMain fails if goroutines outlive the tests.
func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // it would print all its routes
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left over:\n\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked is the stacks of goroutines that are neither this one nor kept for ever by fiber's server, after a while in which
// they may end.
func leaked() string {
	deadline := time.Now().Add(15 * time.Second)
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for i, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && !strings.Contains(stack, "fasthttp.") && !strings.Contains(stack, "gofiber/utils") && !strings.Contains(stack, "created by testing.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}

type middleware = func(http.Handler) http.Handler

// start serves the routes behind guard, and answers where.
type start func(t *testing.T, guard middleware) string

func ofHandler(routes func(middleware) http.Handler) start {
	return func(t *testing.T, guard middleware) string {
		s := httptest.NewServer(routes(guard))
		t.Cleanup(s.Close)
		return s.URL
	}
}

func ofFiber(make func(middleware) fiber.Handler) start {
	return func(t *testing.T, guard middleware) string {
		app := fiberguard.App(make(guard))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			if err := app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			if err := app.Shutdown(); err != nil {
				t.Error(err)
			}
			served.Wait()
		})
		return "http://" + l.Addr().String()
	}
}

var routers = map[string]start{
	"chi":   ofHandler(chiguard.Routes),
	"gin":   ofHandler(ginguard.Routes),
	"echo":  ofHandler(echoguard.Routes),
	"fiber": ofFiber(fiberguard.Guard),
}

func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(body)
}

func limiter(t *testing.T) *ration.Limiter {
	l := ration.New(memstore.New(nil), nil)
	t.Cleanup(func() { l.Close() })
	return l
}

func guarded(t *testing.T, l *ration.Limiter, ps ...httplimit.Policy) middleware {
	t.Helper()
	g, err := httplimit.New(l, ps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func hourly(name string, n int64) ration.Rule {
	return ration.Rule{Name: name, Limit: ration.SlidingWindow{Limit: n, Window: time.Hour}}
}

// Every request is charged, and refused when nothing is left: with all that belongs to a refusal, and nothing of the handler.
func TestCharged(t *testing.T) {
	t.Parallel()
	with := map[string]start{"fiber's own adaptor": ofFiber(func(g middleware) fiber.Handler { return adaptor.HTTPMiddleware(g) })}
	for name, start := range routers {
		with[name] = start
	}
	for name, start := range with {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, guarded(t, limiter(t), httplimit.Policy{Limit: hourly("hourly", 2), Key: httplimit.ByIP(nil)}))
			c := client(t)
			for left := 1; left >= 0; left-- {
				r, body := get(t, c, url+"/hello/ada")
				if r.StatusCode != 200 || body != "hello ada" || r.Header.Get("Retry-After") != "" {
					t.Fatal(r.StatusCode, body, r.Header)
				}
				want := map[int]string{1: `"hourly";r=1;t=3600`, 0: `"hourly";r=0;t=3600`}[left]
				if got := r.Header.Values("RateLimit"); !slices.Equal(got, []string{want}) {
					t.Errorf("%q, want %q", got, want)
				}
			}
			r, body := get(t, c, url+"/hello/ada")
			var p struct {
				Type     string
				Status   int
				Violated []string `json:"violated-policies"`
			}
			if err := json.Unmarshal([]byte(body), &p); err != nil || r.StatusCode != 429 || p.Status != 429 || !slices.Equal(p.Violated, []string{"hourly"}) || strings.Contains(body, "hello") {
				t.Error(r.StatusCode, body, err)
			}
			if got := r.Header.Values("Content-Type"); !slices.Equal(got, []string{"application/problem+json"}) {
				t.Error(got)
			}
			for _, field := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
				if len(r.Header.Values(field)) != 1 {
					t.Errorf("%s: %q", field, r.Header.Values(field))
				}
			}
			if r, body := get(t, c, url+"/health"); r.StatusCode != 200 || body != "fine" || r.Header.Get("RateLimit") != "" {
				t.Error(r.StatusCode, body, r.Header)
			}
		})
	}
}

// Only failures are charged, however the router tells them.
func TestCountsFailures(t *testing.T) {
	t.Parallel()
	for name, start := range routers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limiter(t)
			failures := hourly("failures", 10)
			url := start(t, guarded(t, l, httplimit.Policy{Limit: failures, Key: func(*http.Request) string { return "x" },
				Count: func(status int, _ http.Header) bool { return status >= 400 }}))
			c := client(t)
			want := int64(0)
			for _, step := range []struct {
				path   string
				status int
			}{{"/hello/ada", 200}, {"/secret", 401}, {"/empty", 404}, {"/hello/bob", 200}, {"/secret", 401}} {
				r, body := get(t, c, url+step.path)
				if r.StatusCode != step.status || len(r.Header.Values("RateLimit")) != 1 {
					t.Errorf("%s: %d %s %v", step.path, r.StatusCode, body, r.Header)
				}
				if step.status >= 400 {
					want++
				}
				d, err := l.Peek(context.Background(), ration.KeyOf("x"), failures, 0)
				if err != nil || d.Used != want {
					t.Errorf("after %s: %d are charged, want %d", step.path, d.Used, want)
				}
			}
		})
	}
}

// Events arrive while the handler runs, and a slot is held for as long.
func TestStreams(t *testing.T) {
	t.Parallel()
	for name, start := range routers {
		if name == "fiber" {
			continue // it streams after its handlers have returned
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, guarded(t, limiter(t), httplimit.Policy{Key: httplimit.ByIP(nil),
				Limit: ration.Rule{Name: "at-once", Limit: ration.Concurrency{Limit: 1, Lease: time.Minute}}}))
			c := client(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "GET", url+"/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(r.Body).ReadString('\n'); line != "data: 1\n" || err != nil {
				t.Error(line, err)
			}
			if r, body := get(t, c, url+"/hello/ada"); r.StatusCode != 429 {
				t.Error(r.StatusCode, body)
			}
			cancel()
			r.Body.Close()
			deadline := time.Now().Add(60 * time.Second)
			for { // until the server has seen that the client is gone
				r, body := get(t, c, url+"/hello/ada")
				if r.StatusCode == 200 && body == "hello ada" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the slot is not let go of", r.StatusCode, body)
				}
			}
		})
	}
}
