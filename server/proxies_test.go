//go:build linux

package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/server"
)

// proxies is docs/proxies.md, whose configurations and commands are tested here.
func proxies(t *testing.T) string {
	t.Helper()
	return string(must[[]byte](t)(os.ReadFile("../docs/proxies.md")))
}

func TestDocumentedChecks(t *testing.T) {
	t.Parallel()
	cfg := must[*server.Config](t)(server.Load(write(t, filepath.Join(t.TempDir(), "c"), block(proxies(t), "yaml")), nil))
	if err := cfg.Validate(); err != nil || len(cfg.Checks) != 3 {
		t.Errorf("%d checks, %v", len(cfg.Checks), err)
	}
}

// application is what a proxy passes requests on to.
func application(t *testing.T) (addr string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), asked
}

// nginx runs one with the documented configuration, in front of a server and an application.
func nginx(t *testing.T, p *process, app string) *engines.Server {
	t.Helper()
	return engines.Nginx(t, func(addr string) string {
		return strings.NewReplacer("127.0.0.1:8080", addr, "127.0.0.1:7531", strings.TrimPrefix(p.url, "http://"), "127.0.0.1:3000", app).
			Replace(block(proxies(t), "nginx"))
	})
}

// answer is what came back from a proxy.
type answer struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	a := must[*http.Response](t)(client.Do(r))
	defer a.Body.Close()
	return answer{a.StatusCode, a.Header, string(must[[]byte](t)(io.ReadAll(a.Body)))}
}

// TestNginx has the documented configuration pass requests, refuse them with 429, and say 503 when ration is gone.
func TestNginx(t *testing.T) {
	t.Parallel()
	engines.Require(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), "limits: {edge: fixed 6/1h}\ncheck: {edge: {key: ip, trusted_proxies: 127.0.0.1}}\n")
	p := serve(t, dir, "--store", "memory:", "--config", "ration.yaml")
	app, asked := application(t)
	web := nginx(t, p, app)

	for i, one := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", "/page?key=other", "", 200, "GET /page "},
		{"POST", "/form", strings.Repeat("x", 100_000), 200, "POST /form " + strings.Repeat("x", 100_000)},
		{"GET", "/broken", "", 500, "GET /broken "}, // the application's own
		{"HEAD", "/page", "", 200, ""},
		{"PUT", "/form", "y", 200, "PUT /form y"},
		{"DELETE", "/form", "", 200, "DELETE /form "},
	} {
		// What a client claims changes nothing.
		a := ask(t, one.method, web.URL+one.path, one.body, "X-Forwarded-For", fmt.Sprint("203.0.113.", i), "X-Ration-Key", fmt.Sprint(i))
		if a.status != one.status || a.body != one.answer {
			t.Errorf("%d: %d %.80s", i, a.status, a.body)
		}
		if left := a.header.Get("RateLimit"); !strings.HasPrefix(left, fmt.Sprintf(`"edge";r=%d;t=`, 5-i)) || a.header.Get("RateLimit-Policy") != `"edge";q=6;w=3600` {
			t.Errorf("%d: %v", i, a.header)
		}
	}
	for range 2 {
		a := ask(t, "POST", web.URL+"/form", strings.Repeat("x", 100_000))
		retry, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != 429 || err != nil || retry < 1 || retry > 3600 || a.header.Get("RateLimit") != fmt.Sprintf(`"edge";r=0;t=%d`, retry) ||
			a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(a.body, "#quota-exceeded") {
			t.Errorf("%+v", a)
		}
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("the application was asked %d times", n)
	}
	p.signal(os.Kill)
	p.end()
	a := ask(t, "GET", web.URL+"/page", "")
	if a.status != 503 || !strings.Contains(a.body, "#temporary-reduced-capacity") || a.header.Get("RateLimit") != "" {
		t.Errorf("%+v", a)
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("the application was asked %d times", n)
	}
}

// TestNginxWithout429: a proxy that knows 403 only, and nothing more than the question.
func TestNginxWithout429(t *testing.T) {
	t.Parallel()
	engines.Require(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), "limits: {edge: fixed 1/1h}\ncheck: {edge: {key: header X-Api-Key, refused: 403}}\n")
	p := serve(t, dir, "--store", "memory:", "--config", "ration.yaml")
	app, _ := application(t)
	web := engines.Nginx(t, func(addr string) string {
		return "server { listen " + addr + "; location / { auth_request /check; proxy_pass http://" + app + "; }\n" +
			"location = /check { internal; proxy_pass " + p.url + "/v1/check/edge; proxy_pass_request_body off; } }"
	})
	for i, one := range []struct {
		key    string
		status int
	}{{"alice", 200}, {"alice", 403}, {"bob", 200}, {"", 403}} {
		// Content-Length reaches ration, and the body does not.
		a := ask(t, "POST", web.URL+"/page", "hello", "X-Api-Key", one.key)
		if a.status != one.status || a.status == 200 && a.body != "POST /page hello" {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

// TestNginxInAnOutage: a store that is down is 503, with the server's word for when to come again.
func TestNginxInAnOutage(t *testing.T) {
	t.Parallel()
	store := engines.Redis(t, nil)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), "limits: {edge: fixed 6/1h}\ncheck: {edge: {key: ip, trusted_proxies: 127.0.0.1}}\n")
	p := serve(t, dir, "--store", store.URL, "--config", "ration.yaml", "--timeout", "2s")
	app, asked := application(t)
	web := nginx(t, p, app)
	if a := ask(t, "GET", web.URL+"/page", ""); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if err := store.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a := ask(t, "GET", web.URL+"/page", "")
		if a.status != 503 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "#temporary-reduced-capacity") {
			t.Errorf("%+v", a)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the application was asked %d times", n)
	}
}

// TestCaddy has the documented configuration pass requests, hand ration's refusals to the client, and let nothing through when
// ration is gone.
func TestCaddy(t *testing.T) {
	t.Parallel()
	engines.Require(t)
	store := engines.Redis(t, nil)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), "limits: {edge: fixed 6/1h}\ncheck: {edge: {key: ip, trusted_proxies: 127.0.0.1}}\n")
	p := serve(t, dir, "--store", store.URL, "--config", "ration.yaml", "--timeout", "2s")
	app, asked := application(t)
	web := engines.Caddy(t, func(addr string) string {
		return strings.NewReplacer("example.com", "http://"+addr, "127.0.0.1:7531", strings.TrimPrefix(p.url, "http://"), "127.0.0.1:3000", app).
			Replace(block(proxies(t), "caddyfile"))
	})
	for i, one := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", "/page?key=other", "", 200, "GET /page "},
		{"POST", "/form", strings.Repeat("x", 100_000), 200, "POST /form " + strings.Repeat("x", 100_000)},
		{"GET", "/broken", "", 500, "GET /broken "}, // the application's own
		{"HEAD", "/page", "", 200, ""},
		{"PUT", "/form", "y", 200, "PUT /form y"},
		{"DELETE", "/form", "", 200, "DELETE /form "},
	} {
		a := ask(t, one.method, web.URL+one.path, one.body, "X-Forwarded-For", fmt.Sprint("203.0.113.", i), "X-Ration-Key", fmt.Sprint(i))
		if a.status != one.status || a.body != one.answer {
			t.Errorf("%d: %d %.80s", i, a.status, a.body)
		}
	}
	for i := range 2 {
		a := ask(t, "POST", web.URL+"/form", strings.Repeat("x", 100_000), "X-Forwarded-For", fmt.Sprint("203.0.113.", 100+i))
		retry, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != 429 || err != nil || retry < 1 || retry > 3600 || a.header.Get("RateLimit") != fmt.Sprintf(`"edge";r=0;t=%d`, retry) ||
			a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(a.body, "#quota-exceeded") {
			t.Errorf("%+v", a)
		}
	}
	if err := store.Kill(); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, "GET", web.URL+"/page", ""); a.status != 503 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "#temporary-reduced-capacity") {
		t.Errorf("%+v", a)
	}
	p.signal(os.Kill)
	p.end()
	if a := ask(t, "GET", web.URL+"/page", ""); a.status != 502 {
		t.Errorf("%+v", a)
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("the application was asked %d times", n)
	}
}

// TestCurlChecks asks as a script would.
func TestCurlChecks(t *testing.T) {
	t.Parallel()
	curl := engines.Curl(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), "limits: {edge: fixed 1/1h}\ncheck: {edge: {}}\n")
	p := serve(t, dir, "--store", "memory:", "--config", "ration.yaml")
	for i, want := range []string{"200 0 \n", "429 22 3600\n", "403 22 \n"} {
		args := []string{"--silent", "--fail", "--output", "/dev/null", "--noproxy", "*", "--write-out", "%{http_code} %{exitcode} %header{retry-after}\n", p.url + "/v1/check/edge"}
		if i < 2 {
			args = append(args, "--header", "X-Ration-Key: alice")
		}
		out, _ := exec.Command(curl, args...).Output() // its exit code is in the text
		if got := string(out); got != want && !(i == 1 && strings.HasPrefix(got, "429 22 35")) {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}

// TestRedisCLI runs the documented commands, and those of a pipe, with redis-cli.
func TestRedisCLI(t *testing.T) {
	t.Parallel()
	cli := engines.RedisCLI(t)
	text := proxies(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), block(text, "yaml"))
	_, address := serveRESP(t, dir, "--config", "ration.yaml")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for rest := text; ; {
		var found bool
		if _, rest, found = strings.Cut(rest, "\n```console\n"); !found {
			break
		}
		var commands string
		commands, rest, _ = strings.Cut(rest, "```\n")
		for part := range strings.SplitSeq("\n"+commands, "\n$ redis-cli -p 7533 ") {
			command, want, found := strings.Cut(part, "\n")
			if !found {
				continue
			}
			cmd := exec.Command("sh", "-c", cli+" -p "+port+" "+command)
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || !sameReply(got, strings.TrimSpace(want)) {
				t.Errorf("%s prints\n%s\nnot\n%s\n%v", command, got, want, err)
			}
			ran++
		}
	}
	if ran != 5 {
		t.Errorf("%d commands were found", ran)
	}

	// In protocol 3, and as a mass of commands.
	out, err := exec.Command(cli, "-3", "-p", port, "CL.THROTTLE", "three", "0", "1", "3600").CombinedOutput()
	if got := strings.Fields(string(out)); err != nil || strings.Join(got, " ") != "0 1 0 -1 3600" {
		t.Errorf("%s, %v", out, err)
	}
	pipe := exec.Command(cli, "-p", port, "--pipe")
	var in strings.Builder
	for i := range 1000 {
		key := fmt.Sprint("k", i%10)
		fmt.Fprintf(&in, "*5\r\n$11\r\nCL.THROTTLE\r\n$2\r\n%s\r\n$3\r\n199\r\n$1\r\n1\r\n$4\r\n3600\r\n", key)
	}
	pipe.Stdin = strings.NewReader(in.String())
	if out, err = pipe.CombinedOutput(); err != nil || !strings.Contains(string(out), "errors: 0, replies: 1000") {
		t.Errorf("%s, %v", out, err)
	}
	out, err = exec.Command(cli, "-p", port, "CL.THROTTLE", "k7", "199", "1", "3600", "0").CombinedOutput()
	if got := strings.Fields(string(out)); err != nil || len(got) != 5 || got[2] != "100" {
		t.Errorf("%s, %v", out, err)
	}
}

// sameReply compares two replies of redis-cli; seconds may have passed since the documented one.
func sameReply(got, want string) bool {
	gots, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(gots) != 5 || len(wants) != 5 {
		return got == want
	}
	for i := range gots {
		g, err := strconv.Atoi(gots[i])
		w, _ := strconv.Atoi(wants[i])
		if err != nil || g != w && (i < 3 || g < 1 || g > w) {
			return false
		}
	}
	return true
}
