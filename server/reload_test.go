package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server"
)

const runtimeConfig = `store: "memory:"
limits:
  chat: fixed 5/1h
check:
  chat: header X-User
`

// replace puts text in the place of a file as editors do.
func replace(t testing.TB, path, text string) {
	t.Helper()
	next := write(t, path+".new", text)
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// limitOf is the size that a peek of chat answers.
func limitOf(t testing.TB, url string) string {
	t.Helper()
	_, answer := post(t, url+"/v1/peek", `{"key": "somebody", "limit": "chat"}`)
	return fmt.Sprint(answer["limit"])
}

func TestReloadAtHangup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "ration.yaml"), runtimeConfig)
	p := serve(t, dir, "--config", path, "--watch", "false")
	post(t, p.url+"/v1/take", `{"key": "somebody", "limit": "chat", "cost": 4}`)

	replace(t, path, strings.Replace(runtimeConfig, "5/1h", "7/1h", 1)+"on_error: allow\n")
	p.signal(syscall.SIGHUP)
	p.wait(p.stderr, `changed="on_error: deny → allow; limits.chat: fixed 5/1h → fixed 7/1h"`)
	_, answer := post(t, p.url+"/v1/take", `{"key": "somebody", "limit": "chat"}`)
	if fmt.Sprintf("%v %v", answer["limit"], answer["used"]) != "7 5" {
		t.Errorf("the count did not stay: %v", answer)
	}
	if got := checkStatus(t, p.url, "somebody"); got != "200" {
		t.Errorf("the check answers %s", got)
	}

	// What is wrong is named with file and line, and changes nothing.
	replace(t, path, strings.Replace(runtimeConfig, "5/1h", "9 an hour", 1))
	p.signal(syscall.SIGHUP)
	p.wait(p.stderr, path+":3: limits.chat: ")
	replace(t, path, strings.Replace(runtimeConfig, "5/1h", "9/1h", 1)+"listen: 127.0.0.1:1\n")
	p.signal(syscall.SIGHUP) // --listen goes before the file, so this is no change
	p.wait(p.stderr, "fixed 7/1h → fixed 9/1h")
	replace(t, path, strings.Replace(runtimeConfig, "5/1h", "11/1h", 1)+"namespace: other\ntimeout: 6s\n")
	p.signal(syscall.SIGHUP)
	p.wait(p.stderr, "a change of namespace, timeout needs a restart")
	if got := limitOf(t, p.url); got != "9" {
		t.Errorf("the limit is %s; nothing of a configuration that needs a restart is applied", got)
	}

	// The same by the API.
	status, answer := post(t, p.url+"/v1/admin/reload", `{}`)
	if status != http.StatusConflict || answer["code"] != "invalid_config" {
		t.Errorf("a wrong configuration: %d %v", status, answer)
	}
	replace(t, path, runtimeConfig)
	if status, answer = post(t, p.url+"/v1/admin/reload", `{}`); status != 200 || answer["done"] != true {
		t.Errorf("%d %v", status, answer)
	}
	if got := limitOf(t, p.url); got != "5" {
		t.Errorf("the limit is %s", got)
	}
}

func checkStatus(t testing.TB, url, key string) string {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/check/chat", nil))
	req.Header.Set("X-User", key)
	res := must[*http.Response](t)(http.DefaultClient.Do(req))
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	return fmt.Sprint(res.StatusCode)
}

// Files are replaced, written over, and swapped as Kubernetes does it; each time the server sees it by itself.
func TestReloadAtChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	text := func(n int) string { return strings.Replace(runtimeConfig, "5/1h", fmt.Sprintf("%d/1h", n), 1) }
	version := func(name string, n int) {
		for _, err := range []error{os.Mkdir(in(name), 0o700), os.WriteFile(in(name, "ration.yaml"), []byte(text(n)), 0o600), os.Symlink(name, in("next"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(in("next"), in("..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..v1", 10)
	if err := os.Symlink("..data/ration.yaml", in("ration.yaml")); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir, "--config", "ration.yaml")
	version("..v2", 20)
	p.wait(p.stderr, "fixed 10/1h → fixed 20/1h")
	write(t, in("..v2", "ration.yaml"), text(30))
	p.wait(p.stderr, "fixed 20/1h → fixed 30/1h")
	replace(t, in("ration.yaml"), text(40))
	p.wait(p.stderr, "fixed 30/1h → fixed 40/1h")
	if err := os.Remove(in("ration.yaml")); err != nil {
		t.Fatal(err)
	}
	p.wait(p.stderr, "the configuration cannot be read")
	if got := limitOf(t, p.url); got != "40" {
		t.Errorf("the limit is %s", got)
	}
	write(t, in("ration.yaml"), text(50))
	p.wait(p.stderr, "fixed 40/1h → fixed 50/1h")
}

// load is calls of many clients. Each has a key of its own and knows what it must be answered.
type load struct {
	calls atomic.Int64
	wg    sync.WaitGroup
}

func startLoad(ctx context.Context, t *testing.T, clients int, one func(ctx context.Context, http *http.Client, client, n int) error) *load {
	l := &load{}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(transport.CloseIdleConnections)
	for client := range clients {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := one(ctx, &http.Client{Transport: transport}, client, n); err != nil && ctx.Err() == nil {
					t.Errorf("client %d, call %d: %v", client, n, err)
					return
				}
				l.calls.Add(1)
			}
		})
	}
	return l
}

// Wrong configurations, one after the other, under load: each call is answered, and by the limit that there is.
func TestWrongReloadUnderLoad(t *testing.T) {
	t.Parallel()
	const clients, size = 8, 50
	dir := t.TempDir()
	config := strings.Replace(runtimeConfig, "5/1h", fmt.Sprintf("%d/1h", size), 1)
	path := write(t, filepath.Join(dir, "ration.yaml"), config)
	p := serve(t, dir, "--config", path, "--watch", "false")
	ctx, cancel := context.WithCancel(t.Context())
	l := startLoad(ctx, t, clients, func(ctx context.Context, http *http.Client, client, n int) error {
		// Each key is taken once more than its limit: exactly the last is refused.
		round, at := n/(size+1), n%(size+1)
		status, answer, err := tryPost(ctx, http, p.url+"/v1/take", fmt.Sprintf(`{"key": ["%d", "%d"], "limit": "chat"}`, client, round))
		if err != nil {
			return err
		}
		if status != 200 || answer["allowed"] != (at < size) || fmt.Sprint(answer["limit"]) != fmt.Sprint(size) {
			return fmt.Errorf("take %d of %d: %d %v", at+1, size, status, answer)
		}
		return nil
	})
	wrong := []string{
		strings.Replace(config, "fixed", "fixt", 1),                       // no limit
		strings.Replace(config, "limits:", "limit:", 1),                   // no setting
		config + "namespace: other\n",                                     // needs a restart
		strings.Replace(config, "chat: header", "cat: header", 1),         // no such limit
		strings.Replace(config, "50/1h", "9/1h", 1) + "on_error: maybe\n", // half of it right
		": : :",
		"", // the defaults: another store
	}
	for i, text := range wrong {
		replace(t, path, text)
		p.signal(syscall.SIGHUP)
		waitCount(p, "the configuration was not applied", i+1)
		for from := l.calls.Load(); l.calls.Load() < from+int64(10*clients) && !t.Failed(); { // some calls between two
			if status, _ := post(t, p.url+"/v1/peek", `{"key": "other", "limit": "chat"}`); status != 200 {
				t.Errorf("after reload %d: %d", i, status)
			}
		}
	}
	cancel()
	l.wg.Wait()
	t.Logf("%d calls, %d wrong reloads", l.calls.Load(), len(wrong))
	if strings.Contains(p.stderr.String(), "was read anew") {
		t.Errorf("one of them was applied:\n%s", p.stderr)
	}
}

// waitCount waits until p has said want so often.
func waitCount(p *process, want string, times int) {
	p.t.Helper()
	for strings.Count(p.stderr.String(), want) < times {
		p.stderr.mu.Lock()
		changed := p.stderr.changed
		p.stderr.mu.Unlock()
		if strings.Count(p.stderr.String(), want) >= times {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			p.t.Fatalf("the server ended\n%s", p.stderr)
		case <-p.t.Context().Done():
			p.t.Fatalf("it does not say %q %d times\n%s", want, times, p.stderr)
		}
	}
}

// A right configuration under load: a call that began after the reload ended is decided by it, one that ended before the reload
// began is not, and those between by the one or the other.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	size := atomic.Int64{} // of the next reload
	size.Store(1000)
	read := func() (*server.Config, error) {
		cfg := server.Defaults()
		cfg.Store = "memory:"
		cfg.Limits = []ration.Rule{
			{Name: "a", Limit: ration.FixedWindow{Limit: size.Load(), Window: 3600e9}},
			{Name: "b", Limit: ration.FixedWindow{Limit: size.Load(), Window: 3600e9}},
		}
		return cfg, nil
	}
	opts := &server.Options{Stores: map[string]server.OpenFunc{"memory": server.OpenMemory}, Logger: slog.New(slog.DiscardHandler), Load: read}
	s := must[*server.Server](t)(server.New(t.Context(), must[*server.Config](t)(read()), opts))
	defer s.Close()
	hs := httptest.NewServer(s.Handler())
	defer hs.Close()
	web := hs.URL
	var began, ended atomic.Int64 // sizes of the reload that has begun, and of the last that has ended
	began.Store(1000)
	ended.Store(1000)
	ctx, cancel := context.WithCancel(t.Context())
	l := startLoad(ctx, t, 8, func(ctx context.Context, http *http.Client, client, n int) error {
		least := ended.Load()
		status, answer, err := tryPost(ctx, http, web+"/v1/take-all", `{"charges": [{"key": "k", "limit": "a", "cost": 0}, {"key": "k", "limit": "b", "cost": 0}]}`)
		most := began.Load()
		if err != nil {
			return err
		}
		each, _ := answer["each"].([]any)
		if status != 200 || len(each) != 2 {
			return fmt.Errorf("%d %v", status, answer)
		}
		got := [2]string{fmt.Sprint(each[0].(map[string]any)["limit"]), fmt.Sprint(each[1].(map[string]any)["limit"])}
		if got[0] != got[1] {
			return fmt.Errorf("half of a reload: %v", got)
		}
		var limit int64
		fmt.Sscan(got[0], &limit)
		if limit < least || limit > most {
			return fmt.Errorf("decided by %d; %d was in force before, %d after", limit, least, most)
		}
		return nil
	})
	const reloads = 200
	for i := range int64(reloads) {
		size.Store(1001 + i)
		began.Store(1001 + i)
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended.Store(1001 + i)
		if status, answer := post(t, web+"/v1/peek", `{"key": "k", "limit": "a"}`); status != 200 || fmt.Sprint(answer["limit"]) != fmt.Sprint(1001+i) {
			t.Fatalf("after reload %d: %d %v", i, status, answer)
		}
	}
	cancel()
	l.wg.Wait()
	if r := s.Reloads(); r.OK != reloads || r.Failed != 0 || r.LastOK.IsZero() || !r.Last.Equal(r.LastOK) {
		t.Errorf("counted %+v", r)
	}
	t.Logf("%d calls, %d reloads", l.calls.Load(), reloads)
}

// Envoy's files are read anew too. A fault in one of them keeps all of them, and the limits, as they were.
func TestEnvoyReload(t *testing.T) {
	t.Parallel()
	p, conn := serveGRPC(t)
	client := rlsv3.NewRateLimitServiceClient(conn)
	ask := func() uint32 {
		t.Helper()
		r, err := client.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "10.0.0.1"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
	}
	path := filepath.Join(p.cmd.Dir, "edge.yaml")
	replace(t, path, strings.Replace(envoyConfig, "requests_per_unit: 2", "requests_per_unit: 3", 1))
	p.wait(p.stderr, "Envoy's files: now 1 domain, 1 rule")
	if got := ask(); got != 3 {
		t.Errorf("the limit is %d", got)
	}
	replace(t, path, strings.Replace(envoyConfig, "hour", "our", 1))
	p.wait(p.stderr, "edge.yaml:5: descriptors[0].rate_limit.unit: ")
	if got := ask(); got != 3 {
		t.Errorf("the limit is %d", got)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	base := func() *server.Config {
		cfg := server.Defaults()
		cfg.Store = "memory:"
		cfg.Limits = []ration.Rule{{Name: "chat", Limit: ration.FixedWindow{Limit: 5, Window: 3600e9}}}
		return cfg
	}
	opts := &server.Options{Stores: map[string]server.OpenFunc{"memory": server.OpenMemory}, Logger: slog.New(slog.DiscardHandler)}
	s := must[*server.Server](t)(server.New(t.Context(), base(), opts))
	defer s.Close()
	if err := s.Reload(t.Context()); err == nil {
		t.Error("a server that has nothing to read from reloads")
	}
	secret := write(t, filepath.Join(t.TempDir(), "secret"), strings.Repeat("s", 16))
	for name, change := range map[string]func(*server.Config){
		"listen":          func(c *server.Config) { c.Listen = ":1" },
		"store":           func(c *server.Config) { c.Store = "memory:x" },
		"namespace":       func(c *server.Config) { c.Namespace = "x" },
		"key_secret_file": func(c *server.Config) { c.KeySecretFile = secret },
		"outage.parts":    func(c *server.Config) { c.Outage.Parts++ },
	} {
		cfg := base()
		change(cfg)
		cfg.Limits[0].Limit = ration.FixedWindow{Limit: 6, Window: 3600e9}
		if err := s.Update(t.Context(), cfg); !errors.Is(err, server.ErrNeedsRestart) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	invalid := base()
	invalid.Limits = append(invalid.Limits, ration.Rule{Name: "chat", Limit: ration.FixedWindow{Limit: 6, Window: 3600e9}})
	if err := s.Update(t.Context(), invalid); err == nil {
		t.Error("two limits of one name are accepted")
	}
	if err := s.Update(t.Context(), base()); err != nil {
		t.Error(err)
	}
	if r := s.Reloads(); r.OK != 1 || r.Failed != 6 {
		t.Errorf("counted %+v", r)
	}
}
