package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
)

// serve starts a real server, and answers its URL and a client.
func serve(t testing.TB, h http.Handler, edit ...func(*httptest.Server)) (string, *http.Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, f := range edit {
		f(s)
	}
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.URL, s.Client()
}

func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
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

// Guards of both sorts: one that only looks at headers, and one that holds the charge.
func guards(t testing.TB) map[string]func(http.Handler) http.Handler {
	l, _ := newLimiter(t)
	many := ration.TokenBucket{Burst: 1000, Refill: ration.PerSecond(1000)}
	return map[string]func(http.Handler) http.Handler{
		"charged": guard(t, l, nil, httplimit.Policy{Limit: ration.Rule{Name: "charged", Limit: many}, Key: byAddr}),
		"held": guard(t, l, nil, httplimit.Policy{Limit: ration.Rule{Name: "held", Limit: many}, Key: byAddr,
			Count: func(int, http.Header) bool { return true }}),
	}
}

// Events arrive one by one, by http.Flusher and by http.ResponseController, over HTTP/1 and HTTP/2.
func TestFlush(t *testing.T) {
	t.Parallel()
	for name, g := range guards(t) {
		for _, h2 := range []bool{false, true} {
			for _, controller := range []bool{false, true} {
				got := make(chan struct{})
				url, c := serve(t, g(handler(func(w http.ResponseWriter, r *http.Request) {
					for range 3 {
						io.WriteString(w, "data: x\n\n")
						if controller {
							if err := http.NewResponseController(w).Flush(); err != nil {
								t.Error(err)
							}
						} else {
							w.(http.Flusher).Flush()
						}
						<-got
					}
				})), func(s *httptest.Server) { s.EnableHTTP2 = h2 })
				r, err := c.Get(url)
				if err != nil {
					t.Fatal(name, err)
				}
				if r.Header.Get("RateLimit") == "" || h2 != (r.ProtoMajor == 2) {
					t.Error(name, r.Proto, r.Header)
				}
				lines := bufio.NewReader(r.Body)
				for range 3 {
					for _, want := range []string{"data: x\n", "\n"} {
						if line, err := lines.ReadString('\n'); err != nil || line != want {
							t.Error(name, line, err)
						}
					}
					got <- struct{}{}
				}
				r.Body.Close()
			}
		}
	}
}

// A handler can take over the connection, as websockets do: with the interface, or with the controller.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, g := range guards(t) {
		for _, controller := range []bool{false, true} {
			url, _ := serve(t, g(handler(func(w http.ResponseWriter, _ *http.Request) {
				take := func() (net.Conn, *bufio.ReadWriter, error) { return w.(http.Hijacker).Hijack() }
				if controller {
					take = http.NewResponseController(w).Hijack
				}
				conn, rw, err := take()
				if err != nil {
					t.Error(name, err)
					return
				}
				defer conn.Close()
				rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				rw.Flush()
				line, _ := rw.ReadString('\n')
				rw.WriteString("echo " + line)
				rw.Flush()
			})))
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			answer := bufio.NewReader(conn)
			r, err := http.ReadResponse(answer, nil)
			if err != nil || r.StatusCode != 101 {
				t.Fatal(name, r, err)
			}
			io.WriteString(conn, "hello\n")
			if line, err := answer.ReadString('\n'); err != nil || line != "echo hello\n" {
				t.Error(name, line, err)
			}
		}
	}
}

// Hints come before the answer, and trailers after it.
func TestHintsAndTrailers(t *testing.T) {
	t.Parallel()
	for name, g := range guards(t) {
		url, c := serve(t, g(handler(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "Sum")
			w.WriteHeader(http.StatusAccepted)
			io.WriteString(w, "body")
			w.Header().Set("Sum", "4")
			w.Header().Set(http.TrailerPrefix+"Late", "1")
		})))
		var hints []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			hints = append(hints, code)
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 202 || string(body) != "body" || !slices.Equal(hints, []int{103}) || r.Trailer.Get("Sum") != "4" || r.Trailer.Get("Late") != "1" ||
			len(r.Header.Values("RateLimit")) != 1 {
			t.Error(name, r.StatusCode, string(body), hints, r.Trailer, r.Header)
		}
	}
}

// Files are served as before, with ranges; and ReadFrom, which sendfile needs, is there.
func TestReadFrom(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, g := range guards(t) {
		url, c := serve(t, g(handler(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := w.(io.ReaderFrom); !ok {
				t.Error(name, "no io.ReaderFrom")
			}
			http.ServeFile(w, r, file)
		})))
		if _, body := get(t, c, url); body != string(content) {
			t.Error(name, len(body))
		}
		req, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		req.Header.Set("Range", "bytes=10-19")
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 206 || string(body) != "0123456789" {
			t.Error(name, r.StatusCode, string(body))
		}
	}
}

// Only what the writer outside can do is offered; and what it can do only by unwrapping is offered too.
func TestOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	type all struct {
		http.Flusher
		http.Hijacker
		http.Pusher
		closer
	}
	any := all{&httptest.ResponseRecorder{}, nil, nil, nil}
	bare := func() http.ResponseWriter { return struct{ http.ResponseWriter }{httptest.NewRecorder()} }
	for mask := range 16 {
		w := pick(mask, bare(), any.Flusher, any.Hijacker, any.Pusher, any.closer)
		for _, outside := range []http.ResponseWriter{w, unwrapper{w}} {
			for name, g := range guards(t) {
				g(handler(func(w http.ResponseWriter, _ *http.Request) {
					_, f := w.(http.Flusher)
					_, h := w.(http.Hijacker)
					_, p := w.(http.Pusher)
					_, c := w.(closer)
					if f != (mask&1 != 0) || h != (mask&2 != 0) || p != (mask&4 != 0) || c != (mask&8 != 0) {
						t.Errorf("%s: of %04b there are: flush %v, hijack %v, push %v, notify %v", name, mask, f, h, p, c)
					}
					if mask&1 == 0 {
						if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
							t.Error(name, err)
						}
					}
				})).ServeHTTP(outside, from("192.0.2.1:1"))
			}
		}
	}
}

type closer interface{ CloseNotify() <-chan bool }

type unwrapper struct{ w http.ResponseWriter }

func (u unwrapper) Header() http.Header         { return u.w.Header() }
func (u unwrapper) Write(b []byte) (int, error) { return u.w.Write(b) }
func (u unwrapper) WriteHeader(status int)      { u.w.WriteHeader(status) }
func (u unwrapper) Unwrap() http.ResponseWriter { return u.w }

// pick is a writer with the interfaces of mask.
func pick(mask int, w http.ResponseWriter, f http.Flusher, h http.Hijacker, p http.Pusher, c closer) http.ResponseWriter {
	type (
		writer = http.ResponseWriter
		F      = http.Flusher
		H      = http.Hijacker
		P      = http.Pusher
		C      = closer
	)
	return []http.ResponseWriter{
		w,
		struct {
			writer
			F
		}{w, f},
		struct {
			writer
			H
		}{w, h},
		struct {
			writer
			F
			H
		}{w, f, h},
		struct {
			writer
			P
		}{w, p},
		struct {
			writer
			F
			P
		}{w, f, p},
		struct {
			writer
			H
			P
		}{w, h, p},
		struct {
			writer
			F
			H
			P
		}{w, f, h, p},
		struct {
			writer
			C
		}{w, c},
		struct {
			writer
			F
			C
		}{w, f, c},
		struct {
			writer
			H
			C
		}{w, h, c},
		struct {
			writer
			F
			H
			C
		}{w, f, h, c},
		struct {
			writer
			P
			C
		}{w, p, c},
		struct {
			writer
			F
			P
			C
		}{w, f, p, c},
		struct {
			writer
			H
			P
			C
		}{w, h, p, c},
		struct {
			writer
			F
			H
			P
			C
		}{w, f, h, p, c},
	}[mask]
}

// Deadlines and full duplex, which only the controller knows, get through.
func TestController(t *testing.T) {
	t.Parallel()
	for name, g := range guards(t) {
		url, c := serve(t, g(handler(func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			err := errors.Join(control.SetReadDeadline(time.Now().Add(time.Hour)), control.SetWriteDeadline(time.Now().Add(time.Hour)), control.EnableFullDuplex())
			if err != nil {
				t.Error(name, err)
			}
		})))
		get(t, c, url)
	}
}

// A panic aborts the answer as it would without the guard.
func TestPanic(t *testing.T) {
	t.Parallel()
	for name, g := range guards(t) {
		recovered := make(chan any, 9)
		url, c := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				p := recover()
				recovered <- p
				panic(p)
			}()
			g(handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).ServeHTTP(w, r)
		}))
		if r, err := c.Get(url); err == nil {
			r.Body.Close()
			t.Error(name, r.StatusCode)
		}
		if p := <-recovered; p != http.ErrAbortHandler {
			t.Error(name, p)
		}
	}
}

// A client that goes away ends the request's context, and is charged.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	limit := sliding("x", 5, time.Minute)
	entered, ended := make(chan struct{}), make(chan struct{})
	url, c := serve(t, guard(t, l, nil, httplimit.Policy{Limit: limit, Key: func(*http.Request) string { return "192.0.2.1" },
		Count: func(int, http.Header) bool { return false }})(handler(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		w.WriteHeader(500)
	})), func(s *httptest.Server) {
		inner := s.Config.Handler
		s.Config.Handler = handler(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			inner.ServeHTTP(w, r)
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	if r, err := c.Do(req); err == nil {
		r.Body.Close()
		t.Error(r.StatusCode)
	}
	<-ended
	if got := used(t, l, limit); got != 1 {
		t.Errorf("%d charged", got)
	}
}
