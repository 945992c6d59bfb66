package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ration-go/ration/server"
)

// TestNamesOfOthersAreRefused: on loopback, where no other name can be meant. They charge nothing.
func TestNamesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	on := func(listen string, hosts ...string) string {
		cfg := server.Defaults()
		cfg.Store, cfg.Listen, cfg.Hosts = "memory:", listen, hosts
		cfg.Access.Insecure = true
		opts := &server.Options{Logger: slog.New(slog.DiscardHandler), Stores: map[string]server.OpenFunc{"memory": server.OpenMemory}}
		s := must[*server.Server](t)(server.New(t.Context(), cfg, opts))
		l := must[net.Listener](t)(s.Listen(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, l) }()
		t.Cleanup(func() {
			cancel()
			if err := errors.Join(<-served, s.Close()); err != nil {
				t.Error(err)
			}
		})
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return "127.0.0.1:" + port
	}
	call := func(address, host string) int {
		t.Helper()
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/take", strings.NewReader(`{"key": "a", "limit": "fixed 100/1h"}`)))
		req.Header.Set("Content-Type", "application/json")
		req.Host = host
		transport := &http.Transport{DisableKeepAlives: true}
		res := must[*http.Response](t)(transport.RoundTrip(req))
		defer res.Body.Close()
		body := must[[]byte](t)(io.ReadAll(res.Body))
		if res.StatusCode == http.StatusForbidden && !(bytes.Contains(body, []byte(`"code":"unknown_host"`)) && bytes.Contains(body, []byte(`"charged":"no"`))) {
			t.Errorf("%s: %s", host, body)
		}
		return res.StatusCode
	}
	loopback, proxied, open := on("127.0.0.1:0"), on("localhost:0", "Limits.example", "b"), on("0.0.0.0:0")
	for _, c := range []struct {
		host                   string
		loopback, proxied, all int
	}{
		{"127.0.0.1", 200, 200, 200},
		{"127.0.0.1:7531", 200, 200, 200},
		{"[::1]:7531", 200, 200, 200},
		{"[::1]", 200, 200, 200},
		{"localhost", 200, 200, 200},
		{"LocalHost:80", 200, 200, 200},
		{"localhost.", 200, 200, 200},
		{"evil.example", 403, 403, 200},
		{"evil.example:7531", 403, 403, 200},
		{"localhost.evil.example", 403, 403, 200},
		{"127.0.0.1.evil.example", 403, 403, 200},
		{"limits.example", 403, 200, 200},
		{"limits.example:443", 403, 200, 200},
		{"b", 403, 200, 200},
		{"x.limits.example", 403, 403, 200},
	} {
		if got := [3]int{call(loopback, c.host), call(proxied, c.host), call(open, c.host)}; got != [3]int{c.loopback, c.proxied, c.all} {
			t.Errorf("%s: %v", c.host, got)
		}
	}
}

func TestHostsSetting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "[]", "a": "[a]", "A.Example, b-1.example": "[a.example b-1.example]", "a:80": "!", "http://a": "!", "*": "!", "a..b": "!"} {
		cfg, err := server.Load("", []string{"RATION_HOSTS=" + text})
		got := "!"
		if err == nil {
			got = sprint(cfg.Hosts)
		}
		if got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// pipes is a listener to which everybody wants to connect.
type pipes struct {
	net.Listener
	accepts int
}

func (l *pipes) Accept() (net.Conn, error) {
	l.accepts++
	c, _ := net.Pipe()
	return c, nil
}

func (l *pipes) Close() error { return nil }

// TestConnectionsAreBounded: one more waits until another has gone, and a stop does not wait for it.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := &pipes{}
		l := server.Bounded(inner, 2)
		accepted := make(chan net.Conn, 10)
		ended := make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}()
		for want := 2; want < 6; want++ {
			synctest.Wait()
			if inner.accepts != want {
				t.Fatalf("%d connections were accepted, not %d", inner.accepts, want)
			}
			one := <-accepted
			for range 2 { // closing twice makes room for one
				if err := one.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		synctest.Wait()
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
