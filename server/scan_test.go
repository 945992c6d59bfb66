package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/access"
)

// raw sends bytes, and answers what came back until the server closed, or the status line if it keeps the connection.
func raw(t testing.TB, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(conn, text) }() // the server need not read all of it
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer)
}

// TestScanners: what scanners send is refused, the server goes on, and its log holds neither keys nor tokens.
func TestScanners(t *testing.T) {
	t.Parallel()
	log := newOutput()
	web, line := tokenLine(t, "web", "take,reset", "")
	const key = "topsecretkey"
	url, _ := guarded(t, log, nil, line)
	address := strings.TrimPrefix(url, "http://")
	authorized := "Authorization: Bearer " + web + "\r\n"
	head := "Host: localhost\r\n" + authorized
	body := `{"key": "` + key + `", "limit": "fixed 1000000/1h"}`
	take := func(first, headers string) string {
		return fmt.Sprintf("%s\r\n%s%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", first, head, headers, len(body), body)
	}
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct{ send, want string }{
		"good":                {take("POST /v1/take HTTP/1.1", ""), "200"},
		"HTTP/1.0":            {take("POST /v1/take HTTP/1.0", ""), "200"},
		"HTTP/1.0, no token":  {"GET /v1/limits HTTP/1.0\r\n\r\n", "401"},
		"HTTP/0.9":            {"GET /\r\n\r\n", "400"},
		"HTTP/3.0":            {"GET / HTTP/3.0\r\n\r\n", "505"},
		"no host":             {"GET /healthz HTTP/1.1\r\n\r\n", "400"},
		"two hosts":           {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		"another host":        {"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"},
		"garbage":             {"\x16\x03\x01\x02\x00\x01\x00" + key + "\r\n\r\n", "400"},
		"TLS to HTTP":         {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", "400"},
		"a header of 1 MiB":   {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nX-A: " + long + "\r\n\r\n", "431"},
		"10 000 headers":      {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X-A: "+key+"\r\n", 10_000) + "\r\n", "431"},
		"a query of 1 MiB":    {"GET /v1/limits?" + long + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "431"},
		"a query":             {"GET /v1/limits?token=" + web + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		"a token of 10 KiB":   {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + long[:10<<10] + "\r\n\r\n", "401"},
		"a cookie of 10 KiB":  {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nCookie: ration_session=" + long[:10<<10] + "\r\n\r\n", "401"},
		"a cookie":            {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nCookie: ration_session=d2Vi.AAAAAf____8.AAAA\r\n\r\n", "401"},
		"a body of 1 GiB":     {"POST /v1/take HTTP/1.1\r\n" + head + "Content-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n" + body, "413"},
		"a length below 0":    {"POST /v1/take HTTP/1.1\r\n" + head + "Content-Length: -1\r\n\r\n", "400"},
		"two lengths":         {"POST /v1/take HTTP/1.1\r\n" + head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
		"chunks of 1 MiB":     {"POST /v1/take HTTP/1.1\r\n" + head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n" + long + "\r\n0\r\n\r\n", "413"},
		"a strange encoding":  {"POST /v1/take HTTP/1.1\r\n" + head + "Transfer-Encoding: gzip, chunked\r\n\r\n", "501"},
		"header with a space": {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nX A: " + key + "\r\n\r\n", "400"},
		"folded header":       {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\n X: " + key + "\r\n\r\n", "400"},
		"TRACE":               {"TRACE /v1/take HTTP/1.1\r\n" + head + "\r\n", "405"},
		"TRACE, no token":     {"TRACE /v1/limits HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		"TRACE of the page":   {"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"}, // it is for everybody
		"CONNECT":             {"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", "403"},
		"a proxy's request":   {"GET http://localhost/v1/limits HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		"PUT":                 {take("PUT /v1/take HTTP/1.1", ""), "405"},
		"GET with a body":     {take("GET /v1/take HTTP/1.1", ""), "405"},
		"an unknown method":   {take(strings.ToUpper(key)+" /v1/take HTTP/1.1", ""), "405"},
		"double slash":        {take("POST //v1/take HTTP/1.1", ""), "404"},
		"dots":                {take("POST /v1/../v1/take HTTP/1.1", ""), "404"},
		"encoded dots":        {take("POST /%2e%2e/v1/take HTTP/1.1", ""), "404"},
		"encoded slash":       {take("POST /v1%2ftake HTTP/1.1", ""), "200"},
		"slash at the end":    {take("POST /v1/take/ HTTP/1.1", ""), "404"},
		"capitals":            {take("POST /V1/TAKE HTTP/1.1", ""), "404"},
		"a bad escape":        {take("POST /v1/%zz HTTP/1.1", ""), "400"},
		"a null":              {take("POST /v1/take%00 HTTP/1.1", ""), "404"},
		"health and dots":     {"GET /healthz/../v1/limits HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		"health encoded":      {"GET /healthz%2f..%2fv1%2flimits HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		"session and dots":    {"GET /session/../v1/limits HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		"a file":              {"GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		"a file, with token":  {"GET /../../../../etc/passwd HTTP/1.1\r\n" + head + "\r\n", "404"},
		"h2c":                 {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "401"},
		"upgrade":             {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "401"},
		"forwarded":           {"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.1\r\nX-Original-URL: /healthz\r\n\r\n", "401"},
		"log lines":           {"GET /v1/limits%0atime=x%20level=ERROR HTTP/1.1\r\n" + head + "\r\n", "404"},
	} {
		got := raw(t, address, c.send)
		for range 5 { // an answer can get lost if the server closes before it has read all
			if got == "" {
				got = raw(t, address, c.send)
			}
		}
		if !strings.Contains(got, " "+c.want) {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}

	// Many at once who say nothing, or half of something; others are answered meanwhile.
	var slow []net.Conn
	for i := range 300 {
		conn := must[net.Conn](t)(net.Dial("tcp", address))
		slow = append(slow, conn)
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "POST /v1/take HTTP/1.1\r\nX-"+key)
		}
	}
	if got := raw(t, address, take("POST /v1/take HTTP/1.1", "")); !strings.Contains(got, " 200 ") {
		t.Errorf("beside slow clients: %q", got)
	}
	for _, conn := range slow {
		conn.Close()
	}
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 50 {
				if got := raw(t, address, "GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+access.NewToken()+"\r\n\r\n"); !strings.Contains(got, " 401 ") && !strings.Contains(got, " 429 ") {
					t.Errorf("a guess: %q", got)
				}
			}
		})
	}
	calls.Wait()
	// The address is told to wait now, as far as it does not say who it is.
	status, header := 0, http.Header{}
	for range 5 { // there may be room for one by now
		if status, header, _ = call(t, http.MethodGet, url+"/v1/limits", ""); status == http.StatusTooManyRequests {
			break
		}
	}
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("%d %v", status, header)
	}
	if got := raw(t, address, take("POST /v1/take HTTP/1.1", "")); !strings.Contains(got, " 200 ") {
		t.Errorf("who says who it is: %q", got)
	}
	if status, _, body := call(t, http.MethodPost, url+"/v1/reset", body, "Authorization: Bearer "+web); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	text := log.String()
	for _, secret := range []string{web, web[7:], key, strings.ToUpper(key), "evil", "etc/passwd", "x level=ERROR"} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("the log holds %q: …%s", secret, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	if !strings.Contains(text, "admin action") || !strings.Contains(text, "who=web") || !strings.Contains(text, "audit=true") {
		t.Error("the reset is not in the log")
	}
}

// TestSession: a browser logs in by a token, and then needs it no more, until it logs out or another page asks.
func TestSession(t *testing.T) {
	t.Parallel()
	secret := write(t, filepath.Join(t.TempDir(), "secret"), "0123456789abcdef")
	token, line := tokenLine(t, "web", "read", "2999-01-01")
	share := func(cfg *server.Config) { cfg.API.FailedLimit, cfg.KeySecretFile = "off", secret }
	url, _ := guarded(t, io.Discard, share, line)
	sibling, _ := guarded(t, io.Discard, share, line)
	_, otherLine := tokenLine(t, "web", "read", "")
	other, _ := guarded(t, io.Discard, share, otherLine)

	if _, _, body := call(t, "GET", url+"/session", ""); !strings.Contains(body, `"on":true,"name":""`) || strings.Contains(body, `"read":true`) {
		t.Error(body)
	}
	for _, in := range []string{`{}`, `{"token": 1}`, `{"token": "x"}`, `{"token": "` + access.NewToken() + `"}`, `{"token": "` + token + `", "a": 1}`} {
		if status, header, _ := call(t, "POST", url+"/session", in); status != 401 && status != 400 || header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", in, status, header)
		}
	}
	status, header, body := call(t, "POST", url+"/session", `{"token": "`+token+`"}`)
	cookie := header.Get("Set-Cookie")
	if status != 200 || !strings.Contains(body, `"name":"web"`) || !strings.Contains(body, `"read":true,"reset":false`) {
		t.Fatalf("%d %s", status, body)
	}
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("%s lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Secure") || strings.Contains(cookie, token[7:]) {
		t.Error(cookie)
	}
	value, _, _ := strings.Cut(cookie, ";")
	for _, c := range []struct {
		url, cookie, site string
		status            int
	}{
		{url, value, "", 200},
		{url, value, "same-origin", 200},
		{sibling, value, "", 200}, // which has the same secret
		{other, value, "", 401},   // where web has another token
		{url, value, "same-site", 401},
		{url, value, "cross-site", 401},
		{url, value[:len(value)-2], "", 401},
		{url, value + "A", "", 401},
		{url, strings.Replace(value, "=", "=A", 1), "", 401},
		{url, regexp.MustCompile(`\.[^.]*\.`).ReplaceAllString(value, "._____v____8."), "", 401},
	} {
		headers := []string{"Cookie: " + c.cookie}
		if c.site != "" {
			headers = append(headers, "Sec-Fetch-Site: "+c.site)
		}
		if status, _, body := call(t, "GET", c.url+"/v1/limits", "", headers...); status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.cookie, c.site, status, body, c.status)
		}
	}
	if status, _, _ := call(t, "POST", url+"/v1/reset", takeChat, "Cookie: "+value); status != 403 {
		t.Errorf("beyond the scope: %d", status)
	}
	if status, header, _ := call(t, "DELETE", url+"/session", "", "Cookie: "+value); status != 204 || !strings.Contains(header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%d %v", status, header)
	}
	if _, header, _ := call(t, "POST", url+"/session", `{"token": "`+token+`"}`, "X-Forwarded-Proto: https"); !strings.Contains(header.Get("Set-Cookie"), "Secure") {
		t.Errorf("%v", header)
	}
}

func TestTokenCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stdout, stderr, code := run(t, dir, nil, "token", "new", "--name", "web", "--scope", "take,read", "--expires", "720h", "--file", "tokens")
	found := regexp.MustCompile(`(?s)^token, shown this once: (ration_\S{43})\nline for the server:    (web sha256:\S{64} take,read 20\S+)\n$`).FindStringSubmatch(stdout)
	if code != 0 || found == nil {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	token := found[1]
	file := string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, "tokens"))))
	if file != found[2]+"\n" || strings.Contains(file, token) || must[os.FileInfo](t)(os.Stat(filepath.Join(dir, "tokens"))).Mode().Perm() != 0o600 {
		t.Errorf("%s", file)
	}
	for args, want := range map[string]string{
		"--scope take":           "--name is missing",
		"--name a":               "--scope is missing",
		"--name 9 --scope take":  "--name: ",
		"--name a --scope steal": "--scope: ",
		"--name a --scope take --expires yesterday": "--expires: ",
		"--name a --scope take --expires -1h":       "is over already",
		"--name web --scope take --file tokens":     "two tokens have the name web",
	} {
		if stdout, stderr, code := run(t, dir, nil, append([]string{"token", "new"}, strings.Fields(args)...)...); code != server.ExitError || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: %d %s%s", args, code, stdout, stderr)
		}
	}
	if _, _, code := run(t, dir, nil, "token", "new", "--name", "old", "--scope", "admin", "--expires", "2020-01-01", "--file", "tokens"); code != 0 {
		t.Error(code)
	}
	if stdout, _, _ := run(t, dir, nil, "token", "list", "tokens"); !regexp.MustCompile(`^web  take,read  until 20\S+\nold  admin      expired 2020-01-01\n$`).MatchString(stdout) {
		t.Error(stdout)
	}
	p := serve(t, dir, "--store", "memory:", "--access-tokens-file", "tokens", "--audit-file", "audit", "--log-level", "debug")
	take := []string{"take", "alice", "fixed 3/1h", "--server", p.url}
	if _, stderr, code := run(t, dir, nil, take...); code != server.ExitError || !strings.Contains(stderr, "say who is calling") {
		t.Errorf("%d %s", code, stderr)
	}
	if stdout, stderr, _ := run(t, dir, []string{"RATION_TOKEN=" + token}, take...); stdout != "allowed, 2 of 3 left\n" {
		t.Error(stdout, stderr)
	}
	write(t, filepath.Join(dir, "mine"), token+"\n")
	if stdout, stderr, _ := run(t, dir, nil, append(take, "--token-file", "mine")...); stdout != "allowed, 1 of 3 left\n" {
		t.Error(stdout, stderr)
	}
	if _, stderr, code := run(t, dir, []string{"RATION_TOKEN=" + token}, "reset", "alice", "fixed 3/1h", "--server", p.url); code != server.ExitError || !strings.Contains(stderr, "no scope reset") {
		t.Errorf("%d %s", code, stderr)
	}
	if _, stderr, code := run(t, dir, []string{"RATION_TOKEN=hunter2"}, take...); code != server.ExitError || strings.Contains(stderr, "hunter2") {
		t.Errorf("%d %s", code, stderr)
	}
	// A token that is added while the server runs.
	stdout, _, _ = run(t, dir, nil, "token", "new", "--name", "ops", "--scope", "admin", "--file", "tokens", "--json")
	ops := regexp.MustCompile(`ration_[^"]*`).FindString(stdout)
	for deadline := time.Now().Add(time.Minute); ; {
		stdout, stderr, _ := run(t, dir, []string{"RATION_TOKEN=" + ops}, "reset", "alice", "fixed 3/1h", "--server", p.url)
		if stdout == "reset\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(stderr)
		}
	}
	p.signal(syscall.SIGTERM)
	p.end()
	audit := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "audit")))
	for _, want := range []string{`"action":"tokens"`, `"action":"reset","outcome":"done","who":"ops","from":"127.0.0.1","limit":"fixed 3/1h","key":"`} {
		if !bytes.Contains(audit, []byte(want)) {
			t.Errorf("the audit log lacks %s:\n%s", want, audit)
		}
	}
	for _, secret := range []string{token, ops, "alice"} {
		if strings.Contains(p.stderr.String()+p.stdout.String()+string(audit), secret) {
			t.Errorf("%s is in a log", secret)
		}
	}
	config, _, _ := run(t, dir, nil, "config", "check", "--access-tokens-file", "tokens", "--json")
	if strings.Contains(config, "sha256") || strings.Contains(config, token) {
		t.Error(config)
	}
}

func TestAuditFileThatWasMoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit")
	a := must[*server.AuditFile](t)(server.OpenAudit(path))
	put := func(line string) {
		t.Helper()
		if _, err := a.Write([]byte(line + "\n")); err != nil {
			t.Error(err)
		}
	}
	put("one")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	server.LookAgain(a)
	put("two")
	if one, two := string(must[[]byte](t)(os.ReadFile(path+".1"))), string(must[[]byte](t)(os.ReadFile(path))); one != "one\n" || two != "two\n" {
		t.Errorf("%q %q", one, two)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Write([]byte("three")); err == nil {
		t.Error("a closed file is written to")
	}
}
