package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

const topSample = `{
	"at_us": 1796099292870579, "since_us": 1796099229573498, "version": "1.2.3",
	"totals": {"allowed": 1200, "refused": 300, "errors": 2}, "minute": {"allowed": 110, "refused": 40, "errors": 1},
	"limits": [
		{"name": "", "limit": "", "totals": {"allowed": 9}, "minute": {"allowed": 1}, "allowed": [0, 1], "refused": [0, 0], "errors": [0, 0]},
		{"name": "api", "limit": "bucket 600/1m burst 100", "totals": {"allowed": 900}, "minute": {"allowed": 99}, "allowed": [10, 60], "refused": [0, 0], "errors": [0, 0]},
		{"name": "chat", "limit": "fixed 2/1h", "totals": {"allowed": 291, "refused": 300, "errors": 2}, "minute": {"allowed": 10, "refused": 40, "errors": 1}, "allowed": [0, 10], "refused": [4, 36], "errors": [0, 1]},
		{"name": "idle", "limit": "sliding 3/24h", "totals": {}, "minute": {}, "allowed": [], "refused": [], "errors": []}
	],
	"limits_left_out": 0,
	"most_refused": [{"fingerprint": "0123456789abcdef", "limit": "chat", "count": 39, "over": 0}, {"fingerprint": "f", "key": ["a\u001b[2Jb", "ü"], "limit": "chat", "count": 2, "over": 1}],
	"most_used": [{"fingerprint": "g", "shared": true, "limit": "", "count": 9, "over": 0}],
	"store": {"kind": "sqlite", "scope": "machine", "durable": true, "up": true, "detail": "", "took_us": 120}
}`

func sampleView(t *testing.T) topView {
	t.Helper()
	var a topActivity
	if err := json.Unmarshal([]byte(topSample), &a); err != nil {
		t.Fatal(err)
	}
	return topView{now: &a}
}

func TestTopShows(t *testing.T) {
	t.Parallel()
	view := sampleView(t)
	got := strings.Join(view.lines(80, 24), "\n")
	const want = `ration 1.2.3, counting for 1m3s
store sqlite: up, answers in 120µs; counts of the machine, durable
24 decisions/s, 8.0 refused/s; last minute: 151, 26.5 % refused, 1 could not be…
`
	for i, line := range strings.Split(want, "\n")[:3] {
		if g := strings.Split(got, "\n")[i]; g != line {
			t.Errorf("line %d is\n%q, not\n%q", i+1, g, line)
		}
	}
	for _, part := range []string{"LAST MINUTE", "(others)", "0123456789abcdef chat", "a?[2Jb / ü chat", "≤ 2", "(everybody) (others)", "q quit"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
	if strings.ContainsRune(got, 0x1b) {
		t.Errorf("without colours there is an escape in\n%q", got)
	}
	order := func(view topView) (names string) {
		for _, line := range view.lines(120, 0) {
			if word, _, _ := strings.Cut(line, " "); word == "api" || word == "chat" || word == "idle" || word == "(others)" {
				names += word + " "
			}
		}
		return names
	}
	for by, want := range []string{"chat api (others) idle ", "api chat (others) idle ", "api chat (others) idle ", "(others) api chat idle "} {
		view.by = topOrder(by)
		if got := order(view); got != want {
			t.Errorf("sorted by %s: %s, not %s", topOrders[by], got, want)
		}
	}
}

// TestTopFits: nothing is wider or longer than the terminal, however small.
func TestTopFits(t *testing.T) {
	t.Parallel()
	view := sampleView(t)
	for i := range 300 {
		l := view.now.Limits[2]
		l.Name = fmt.Sprintf("limit-with-a-rather-long-name-that-does-not-fit-%d", i)
		view.now.Limits = append(view.now.Limits, l)
	}
	for range 20 {
		view.now.Refused = append(view.now.Refused, view.now.Refused[0])
	}
	view.now.Store.Up, view.now.Store.Detail = false, strings.Repeat("the store did not answer in time ", 5)
	for _, size := range [][2]int{{80, 24}, {40, 10}, {20, 5}, {200, 60}, {10, 3}, {1, 1}} {
		for _, colour := range []bool{false, true} {
			view.colour = colour
			lines := view.lines(size[0], size[1])
			if len(lines) > size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, line := range lines {
				plain := line
				for _, code := range []string{"1", "2", "33", "0"} {
					plain = strings.ReplaceAll(plain, "\x1b["+code+"m", "")
				}
				if n := utf8.RuneCountInString(plain); n > size[0] && size[0] >= 60 || strings.ContainsRune(plain, 0x1b) {
					t.Errorf("%v: %d columns: %q", size, n, line)
				}
			}
		}
	}
	if text := strings.Join(view.lines(80, 24), "\n"); !strings.Contains(text, "DOWN") || !strings.Contains(text, "more") {
		t.Error(text)
	}
}

// TestTopAgainstAServer: once, as JSON, and what it says of one that records nothing, or is none.
func TestTopAgainstAServer(t *testing.T) {
	t.Parallel()
	run := func(status int, body string, args ...string) (string, error) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/activity" || r.Method != http.MethodGet {
				t.Errorf("%s %s", r.Method, r.URL.Path)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		defer s.Close()
		defer s.CloseClientConnections()
		p := &program{opts: (*Options)(nil).resolved()} // with no environment
		cmd := p.top()
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append([]string{"--server", s.URL}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := run(200, topSample); err != nil || !strings.Contains(out, "fixed 2/1h") || strings.ContainsRune(out, 0x1b) {
		t.Errorf("%v %s", err, out)
	}
	if out, err := run(200, topSample, "--json"); err != nil || strings.TrimSpace(out) != topSample {
		t.Errorf("%v %s", err, out)
	}
	for _, c := range []struct {
		status    int
		body      string
		args      []string
		complaint string
	}{
		{404, `{"code": "not_found", "detail": "the setting dashboard.serve does"}`, nil, "dashboard.serve"},
		{200, topSample, []string{"--sort", "colour"}, "refused or rate"},
		{200, topSample, []string{"--store", "memory:"}, "--server"},
		{200, "<html>", nil, "is it a ration server?"},
	} {
		if out, err := run(c.status, c.body, c.args...); err == nil || !strings.Contains(err.Error(), c.complaint) {
			t.Errorf("%v: %v %s", c, err, out)
		}
	}
}
