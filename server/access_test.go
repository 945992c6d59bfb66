package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/access"
)

// tokenLine makes a token, and the line for it.
func tokenLine(t testing.TB, name, scopes, expires string) (token, line string) {
	t.Helper()
	token = access.NewToken()
	return token, fmt.Sprintf("%s %s %s %s", name, must[access.Hash](t)(access.HashOf(token)), scopes, expires)
}

func TestListenBeyondLoopback(t *testing.T) {
	t.Parallel()
	_, line := tokenLine(t, "web", "take", "")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tokens"), line+"\n")
	for _, setting := range []string{"listen", "grpc.listen", "resp.listen"} {
		flag := "--" + strings.ReplaceAll(setting, ".", "-")
		for _, address := range []string{"0.0.0.0:0", ":0"} {
			args := []string{"serve", "--store", "memory:", "--listen", "127.0.0.1:0", flag, address}
			stdout, stderr, code := run(t, dir, nil, args...)
			for _, want := range []string{"ration: " + setting + ": other machines could reach ", "access.tokens_file", "tls.client_ca_file", "127.0.0.1", "access.insecure=true"} {
				if code != server.ExitError || !strings.Contains(stderr, want) || stdout != "" {
					t.Errorf("%v: %d %s\n%s lacks %s", args, code, stdout, stderr, want)
				}
			}
			p := start(t, dir, nil, append(args, "--access-insecure=true")...)
			p.wait(p.stdout, "listens on")
			p.wait(p.stderr, "INSECURE: other machines can reach this server")
			p = start(t, dir, nil, append(args, "--access-tokens-file=tokens")...)
			p.wait(p.stdout, "listens on")
			p.wait(p.stderr, "other machines can reach this server without TLS")
			if text := p.stderr.String(); strings.Contains(text, "INSECURE") {
				t.Error(text)
			}
		}
	}
}

// guarded is a server in this process with these tokens, on loopback; what it logs at level debug goes to log.
func guarded(t *testing.T, log io.Writer, change func(*server.Config), lines ...string) (url string, s *server.Server) {
	t.Helper()
	at, s := guardedAll(t, log, change, lines...)
	return "http://" + at["http"], s
}

// guardedAll is guarded, with what else the configuration has; it answers the addresses.
func guardedAll(t *testing.T, log io.Writer, change func(*server.Config), lines ...string) (at map[string]string, s *server.Server) {
	t.Helper()
	cfg := server.Defaults()
	cfg.Store, cfg.Listen = "memory:", "127.0.0.1:0"
	cfg.Access.Tokens = lines
	if change != nil {
		change(cfg)
	}
	opts := &server.Options{
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Stores: map[string]server.OpenFunc{"memory": server.OpenMemory},
	}
	s = must[*server.Server](t)(server.New(t.Context(), cfg, opts))
	at = map[string]string{}
	ctx, cancel := context.WithCancel(context.Background())
	var ended []chan error
	for name, one := range map[string]struct {
		listen func(context.Context) (net.Listener, error)
		serve  func(context.Context, net.Listener) error
	}{"http": {s.Listen, s.Serve}, "grpc": {s.ListenGRPC, s.ServeGRPC}, "resp": {s.ListenRESP, s.ServeRESP}} {
		l := must[net.Listener](t)(one.listen(t.Context()))
		if l == nil {
			continue
		}
		at[name] = l.Addr().String()
		served := make(chan error, 1)
		go func() { served <- one.serve(ctx, l) }()
		ended = append(ended, served)
	}
	t.Cleanup(func() {
		cancel()
		for _, served := range ended {
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return at, s
}

// call makes a request with headers, as name: value, and answers status, headers and body.
func call(t testing.TB, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res := must[*http.Response](t)(transport.RoundTrip(req))
	defer res.Body.Close()
	text := must[[]byte](t)(io.ReadAll(res.Body))
	return res.StatusCode, res.Header, string(text)
}

const takeChat = `{"key": "alice", "limit": "fixed 100/1h"}`

// TestTokensOverHTTP: who does not say who it is gets nothing but the server's health.
func TestTokensOverHTTP(t *testing.T) {
	t.Parallel()
	good, line := tokenLine(t, "web", "take,read", "")
	old, oldLine := tokenLine(t, "old", "admin@*", "2020-01-01")
	url, _ := guarded(t, io.Discard, func(cfg *server.Config) { cfg.API.FailedLimit = "off" }, line, oldLine)
	for _, c := range []struct {
		header string
		status int
		code   string
	}{
		{"", 401, "unauthorized"},
		{"Authorization: Bearer " + good, 200, ""},
		{"Authorization: bearer " + good, 200, ""},
		{"Authorization: Bearer  " + good, 200, ""},
		{"Authorization: Bearer " + access.NewToken(), 401, "unauthorized"},
		{"Authorization: Bearer " + good[:len(good)-1], 401, "unauthorized"},
		{"Authorization: Bearer " + good + "A", 401, "unauthorized"},
		{"Authorization: Bearer " + good[1:], 401, "unauthorized"},
		{"Authorization: Bearer " + strings.ToUpper(good), 401, "unauthorized"},
		{"Authorization: Bearer " + good + " " + good, 401, "unauthorized"},
		{"Authorization: Bearer " + strings.TrimPrefix(strings.Fields(line)[1], "sha256:"), 401, "unauthorized"},
		{"Authorization: Bearer " + strings.Fields(line)[1], 401, "unauthorized"},
		{"Authorization: Bearer", 401, "unauthorized"},
		{"Authorization: Bearer ", 401, "unauthorized"},
		{"Authorization: " + good, 401, "unauthorized"},
		{"Authorization: Basic " + good, 401, "unauthorized"},
		{"Authorization: Bearer " + old, 401, "token_expired"},
		{"X-Api-Key: " + good, 401, "unauthorized"},
		{"Cookie: ration_session=" + good, 401, "unauthorized"},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		status, header, body := call(t, http.MethodPost, url+"/v1/take", takeChat, headers...)
		if status != c.status || !strings.Contains(body, c.code) || c.status == 401 && (header.Get("WWW-Authenticate") == "" || !strings.Contains(body, `"charged":"no"`)) {
			t.Errorf("%s: %d %v %s", c.header, status, header, body)
		}
		if status, _, body := call(t, http.MethodGet, url+"/healthz", "", headers...); status != 200 {
			t.Errorf("%s: healthz: %d %s", c.header, status, body)
		}
	}
	status, _, body := call(t, http.MethodPost, url+"/v1/take", takeChat, "Authorization: Bearer "+good, "Authorization: Bearer "+good)
	if status != 401 {
		t.Errorf("twice: %d %s", status, body)
	}
	for _, path := range []string{"/v1/activity", "/v1/activity/stream", "/dashboard/", "/dashboard/x", "//", "/v1/limits", "/openapi.json", "/metrics", "/v1/reservations", "/nothing", "/healthz/", "//healthz", "/healthz%2f", "/session/x"} {
		if status, _, body := call(t, http.MethodGet, url+path, ""); status != 401 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	// The page has a form to log in, and tells nothing by itself.
	for _, path := range []string{"/", "/dashboard/app.js"} {
		if status, _, body := call(t, http.MethodGet, url+path, ""); status != 200 || strings.Contains(body, "chat") {
			t.Errorf("%s: %d", path, status)
		}
	}
}
