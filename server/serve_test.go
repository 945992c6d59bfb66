package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server"
)

// post sends a body and answers status and body.
func post(t testing.TB, url, body string) (int, map[string]any) {
	t.Helper()
	status, answer, err := tryPost(t.Context(), http.DefaultClient, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

func tryPost(ctx context.Context, client *http.Client, url, body string) (int, map[string]any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	var answer map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&answer)
	return res.StatusCode, answer, err
}

func TestServeWithoutFlags(t *testing.T) {
	// The one test that uses the default port; it says so if somebody else has it.
	dir := t.TempDir()
	p := start(t, dir, nil, "serve")
	p.url = listening.FindString(p.wait(p.stdout, "listens on"))
	if want := "http://" + server.DefaultListen; p.url != want {
		t.Errorf("listens on %s, not %s", p.url, want)
	}
	if text := p.stdout.String(); !strings.Contains(text, "sqlite:ration.db (shared by this machine, durable)") || strings.Count(text, "\n") != 1 {
		t.Errorf("the line is %q", text)
	}
	status, answer := post(t, p.url+"/v1/take", `{"key": "alice", "limit": "bucket 10/1m burst 20"}`)
	if status != 200 || answer["allowed"] != true || fmt.Sprint(answer["remaining"]) != "19" {
		t.Errorf("answer %d %v", status, answer)
	}
	if _, err := os.Stat(filepath.Join(dir, "ration.db")); err != nil {
		t.Error(err)
	}
	p.signal(syscall.SIGTERM)
	if code, by := p.end(); code != server.ExitOK || by != 0 {
		t.Errorf("ended with %d, by signal %v", code, by)
	}
}

func TestServeFinishesCallsUnderWay(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir(), "--store", "memory:")
	conn, reader := halfCall(t, p.url)
	p.signal(syscall.SIGTERM)
	p.wait(p.stderr, "stopping")
	if _, err := io.WriteString(conn, halfBody[halfAt:]); err != nil {
		t.Fatal(err)
	}
	res := must[*http.Response](t)(http.ReadResponse(reader, nil))
	body := must[[]byte](t)(io.ReadAll(res.Body))
	res.Body.Close()
	if res.StatusCode != 200 || !bytes.Contains(body, []byte(`"allowed":true`)) {
		t.Errorf("the call under way got %d %s", res.StatusCode, body)
	}
	if code, by := p.end(); code != server.ExitOK || by != 0 {
		t.Errorf("ended with %d, by signal %v\n%s", code, by, p.stderr)
	}
	if _, err := http.Get(p.url + "/healthz"); err == nil {
		t.Error("a new call was answered after the end")
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir(), "--store", "memory:", "--shutdown-timeout", "1h")
	halfCall(t, p.url)
	p.signal(syscall.SIGINT)
	p.wait(p.stderr, "stopping")
	p.signal(syscall.SIGINT)
	if code, by := p.end(); by != syscall.SIGINT {
		t.Errorf("ended with %d, by signal %v", code, by)
	}
}

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir(), "--store", "memory:", "--shutdown-timeout", "10ms")
	halfCall(t, p.url)
	p.signal(syscall.SIGTERM)
	if code, _ := p.end(); code != server.ExitError || !strings.Contains(p.stderr.String(), "calls were cut off after 10ms") {
		t.Errorf("ended with %d\n%s", code, p.stderr)
	}
}

const (
	halfBody = `{"key": "slow", "limit": "fixed 3/1m"}`
	halfAt   = 10
)

// halfCall sends half a call, and returns when the server is reading the rest.
func halfCall(t *testing.T, url string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := must[net.Conn](t)(net.Dial("tcp", strings.TrimPrefix(url, "http://")))
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(halfBody))
	reader := bufio.NewReader(conn)
	res := must[*http.Response](t)(http.ReadResponse(reader, nil))
	if res.StatusCode != http.StatusContinue {
		t.Fatalf("the server said %s", res.Status)
	}
	if _, err := io.WriteString(conn, halfBody[:halfAt]); err != nil {
		t.Fatal(err)
	}
	return conn, reader
}

func TestServeSaysWhyItCannotStart(t *testing.T) {
	t.Parallel()
	taken := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { taken.Close() })
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	write(t, filepath.Join(dir, "short"), "secret\n")
	write(t, filepath.Join(dir, "text.db"), strings.Repeat("not a database\n", 1000))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--store", "memory:", "--listen", taken.Addr().String()}, "is in use by another program, or by another ration; stop that one, or choose another port with --listen"},
		{[]string{"--store", "memory:", "--listen", "192.0.2.1:0"}, "is not an address of this machine; choose another with --listen"},
		{[]string{"--store", "memory:", "--listen", "no.such.host.invalid:0"}, "choose another address with --listen"},
		{[]string{"--listen", "7531"}, `--listen: "7531" is not HOST:PORT, such as 127.0.0.1:7531`},
		{[]string{"--listen", "127.0.0.1:70000"}, `is not HOST:PORT`},
		{[]string{"--store", "postgers://x"}, "this program has no stores of the scheme postgers; did you mean postgres?"},
		{[]string{"--store", "postgres://u:secret@127.0.0.1:1/x?sslmode=disable"}, "store postgres://u:xxxxx@127.0.0.1:1/x: the database cannot be reached"},
		{[]string{"--store", "postgres://u:secret@[/x"}, "the URL cannot be read"},
		{[]string{"--store", "sqllite:x.db"}, "this program has no stores of the scheme sqllite; did you mean sqlite?"},
		{[]string{"--store", "ration.db"}, `--store: "ration.db" is not the URL of a store`},
		{[]string{"--store", "memory:big"}, "nothing comes after memory:"},
		{[]string{"--store", "sqlite:"}, "no path; name a file"},
		{[]string{"--store", "sqlite::memory:"}, "use memory:"},
		{[]string{"--store", "sqlite://host/x.db"}, "a file has no host"},
		{[]string{"--store", "sqlite:x.db?mode=ro"}, "the setting is sqlite.synchronous"},
		{[]string{"--store", "sqlite:no/such/x.db"}, "the folder no/such is not there; make it, or name another path with --store"},
		{[]string{"--store", "sqlite:file/x.db"}, "file is not a folder; name another path with --store"},
		{[]string{"--store", "sqlite:/proc/x.db"}, "the folder /proc is not writable"},
		{[]string{"--store", "sqlite:."}, "cannot be written"},
		{[]string{"--store", "sqlite:text.db"}, "store sqlite:text.db: "},
		{[]string{"--config", "none.yaml"}, "none.yaml: the configuration cannot be read: no such file or directory; name another file with --config"},
		{[]string{"--store", "memory:", "--key-secret-file", "none"}, "key_secret_file: open none"},
		{[]string{"--store", "memory:", "--key-secret-file", "short"}, "key_secret_file: short holds 6 bytes; a secret has at least 16"},
		{[]string{"--lisen", "x"}, "unknown flag: --lisen"},
		{[]string{"now"}, "1 argument where no arguments should be"},
	} {
		stdout, stderr, code := run(t, dir, nil, append([]string{"serve"}, c.args...)...)
		if code != server.ExitError || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("serve %v ended with %d\nstdout: %s\nstderr: %s\nwant: %s", c.args, code, stdout, stderr, c.want)
		}
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, "ration: ") && !strings.HasPrefix(line, "See ration") {
				t.Errorf("serve %v says %q", c.args, line)
			}
		}
	}
}

func TestLogsHoldNoKeys(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		p := start(t, t.TempDir(), nil, "serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--log-level", "debug", "--log-format", format)
		out := p.stdout
		if format == "json" {
			out = p.stderr
		}
		url := listening.FindString(p.wait(out, `listen`))
		post(t, url+"/v1/take", `{"key": "topsecret", "limit": "fixed 3/1m"}`)
		post(t, url+"/v1/take", `{"key": ["topsecret", ""], "limit": "fixed 3/1m"}`)
		post(t, url+"/v1/take", `{"key": "topsecret", "limit": "fixed 3/1m", "topsecret": 1}`)
		post(t, url+"/topsecret", `{}`)
		post(t, url+"/v1/reserve", `{"charges": [{"key": "topsecret", "limit": "fixed 3/1m"}], "id": "topsecret"}`)
		post(t, url+"/v1/reservations/topsecret/settle", `{}`)
		post(t, url+"/v1/reservations/topsecret/topsecret", `{}`)
		p.signal(syscall.SIGTERM)
		p.end()
		text := p.stderr.String()
		if strings.Contains(text, "topsecret") {
			t.Errorf("%s: a key is in the log:\n%s", format, text)
		}
		if !strings.Contains(text, "/v1/take") || !strings.Contains(text, "/v1/reservations/{id}/settle") || !strings.Contains(text, "stopped") {
			t.Errorf("%s: calls are not in the log:\n%s", format, text)
		}
		if format == "json" {
			for line := range strings.Lines(text) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		}
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir(), "--store", "memory:")
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/reset", strings.NewReader(`{"key": "a", "limit": "fixed 3/1m"}`)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", "https://example.com")
	res := must[*http.Response](t)(http.DefaultClient.Do(req))
	defer res.Body.Close()
	body := must[[]byte](t)(io.ReadAll(res.Body))
	if res.StatusCode != http.StatusForbidden || !bytes.Contains(body, []byte(`"code":"cross_origin"`)) {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

func TestSecretAndNamespace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret"), "0123456789abcdef\n")
	p := serve(t, dir, "--key-secret-file", "secret", "--namespace", "shop")
	post(t, p.url+"/v1/take", `{"key": "topsecret", "limit": "fixed 3/1m"}`)
	p.signal(syscall.SIGTERM)
	p.end()
	for _, name := range []string{"ration.db", "ration.db-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && bytes.Contains(data, []byte("topsecret")) {
			t.Errorf("%s holds the key", name)
		}
	}
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"--namespace", "shop"}, "would be allowed, 3 of 3 left\n"},
		{[]string{"RATION_KEY_SECRET_FILE=secret"}, nil, "would be allowed, 3 of 3 left\n"},
		{[]string{"RATION_KEY_SECRET_FILE=secret"}, []string{"--namespace", "shop"}, "would be allowed, 2 of 3 left\n"},
	} {
		args := append([]string{"peek", "topsecret", "fixed 3/1m", "--store", "sqlite:ration.db"}, c.args...)
		if stdout, stderr, _ := run(t, dir, c.env, args...); stdout != c.want {
			t.Errorf("%v %v: %s%s", c.env, c.args, stdout, stderr)
		}
	}
}

// slowStore is a third party's store that holds up its calls.
type slowStore struct {
	driver.Store
	entered chan struct{}
	leave   chan struct{}
}

func (s *slowStore) Apply(ctx context.Context, batch []*driver.Txn) error {
	s.entered <- struct{}{}
	<-s.leave
	return s.Store.Apply(ctx, batch)
}

func TestServerOfOnesOwn(t *testing.T) {
	t.Parallel()
	memory := must[driver.Store](t)(server.OpenMemory(t.Context(), "memory:", server.Defaults()))
	slow := &slowStore{memory, make(chan struct{}), make(chan struct{})}
	opts := &server.Options{Logger: slog.New(slog.DiscardHandler), Stores: map[string]server.OpenFunc{
		"slow": func(_ context.Context, url string, cfg *server.Config) (driver.Store, error) {
			if url != "slow:ly" || cfg.Namespace != "mine" {
				t.Errorf("opened %q in %q", url, cfg.Namespace)
			}
			return slow, nil
		},
	}}
	cfg := server.Defaults()
	cfg.Store, cfg.Namespace, cfg.Listen = "slow:ly", "mine", "localhost:0"
	cfg.Limits = []ration.Rule{{Name: "chat", Limit: ration.FixedWindow{Limit: 3, Window: time.Minute}}}
	s := must[*server.Server](t)(server.New(t.Context(), cfg, opts))
	l := must[net.Listener](t)(s.Listen(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()

	client := &http.Client{Transport: &http.Transport{}}
	answered := make(chan string, 1)
	go func() {
		status, answer, err := tryPost(context.Background(), client, "http://"+l.Addr().String()+"/v1/take", `{"key": "a", "limit": "chat"}`)
		answered <- fmt.Sprintln(status, answer["name"], answer["remaining"], err)
	}()
	<-slow.entered
	cancel()
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v while a call was under way", err)
	case slow.leave <- struct{}{}:
	}
	if got := <-answered; got != "200 chat 2 <nil>\n" {
		t.Errorf("the call under way got %s", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error("second Close:", err)
	}
	client.CloseIdleConnections()

	cfg.Store = "sqlite:x.db"
	if _, err := server.New(t.Context(), cfg, opts); err == nil || !strings.Contains(err.Error(), "known are slow") {
		t.Errorf("a store that was not given: %v", err)
	}
	cfg.Store, cfg.Timeout = "slow:ly", 0
	if _, err := server.New(t.Context(), cfg, opts); err == nil || !strings.Contains(err.Error(), "timeout: 0s is not between") {
		t.Errorf("an invalid configuration: %v", err)
	}
}
