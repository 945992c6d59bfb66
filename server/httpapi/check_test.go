package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/httpapi"
)

// newChecks is an API with the check c, of a limit "edge" of two in an hour, and of a limit "minute" of two in a minute.
func newChecks(t testing.TB, c httpapi.Check, more ...func(*counted)) *env {
	t.Helper()
	c.Limit = "edge"
	if c.Key == nil {
		c.Key = httplimit.ByHeader("X-Ration-Key")
	}
	minute := c
	minute.Limit = "minute"
	return newEnv(t, &httpapi.Options{
		Limits: append([]ration.Rule{
			{Name: "edge", Limit: ration.FixedWindow{Limit: 2, Window: time.Hour}},
			{Name: "minute", Limit: ration.FixedWindow{Limit: 2, Window: time.Minute}},
		}, configured...),
		Checks: []httpapi.Check{c, minute},
	}, more...)
}

// check asks with headers.
func (e *env) check(header ...string) *http.Response {
	return e.do(http.MethodGet, "/v1/check/edge", "", header...)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newChecks(t, httpapi.Check{})
		ask := func(key string) *http.Response { return e.do("GET", "/v1/check/minute", "", "X-Ration-Key", key) }
		for i, want := range []struct {
			status            int
			left, retry, code string
		}{
			{200, `"minute";r=1;t=60`, "", ""},
			{200, `"minute";r=0;t=60`, "", ""},
			{429, `"minute";r=0;t=60`, "60", "quota_exceeded"},
		} {
			r := ask("alice")
			for field, text := range map[string]string{
				"RateLimit": want.left, "RateLimit-Policy": `"minute";q=2;w=60`, "Retry-After": want.retry, "Cache-Control": "no-store",
			} {
				if got := strings.Join(r.Header.Values(field), "|"); got != text {
					t.Errorf("%d: %s is %q, not %q", i, field, got, text)
				}
			}
			if r.StatusCode != want.status {
				t.Errorf("%d: %d", i, r.StatusCode)
			}
			if want.code == "" {
				if r.ContentLength > 0 {
					t.Errorf("%d: a body of %d bytes", i, r.ContentLength)
				}
				continue
			}
			p := bodyOf(t, r)
			if p["code"] != want.code || p["status"] != 429.0 || p["charged"] != "no" || fmt.Sprint(p["violated-policies"]) != "[minute]" ||
				!strings.HasSuffix(p["type"].(string), "#quota-exceeded") || r.Header.Get("Content-Type") != wire.ProblemType {
				t.Errorf("%d: %v", i, p)
			}
		}
		// It is the count of that key in other calls, and nobody else's.
		if d := e.ok(t, "peek", `{"key":"alice","limit":"minute"}`); d["used"] != 2.0 {
			t.Errorf("%v", d)
		}
		if r := ask("bob"); r.StatusCode != 200 {
			t.Errorf("%d", r.StatusCode)
		}
		// A caller who waits for as long as he is told to is let in.
		<-time.After(time.Minute) // of the bubble's clock
		if r := ask("alice"); r.StatusCode != 200 {
			t.Errorf("%d", r.StatusCode)
		}
	})
}

func TestCheckRefusesWith403(t *testing.T) {
	t.Parallel()
	e := newChecks(t, httpapi.Check{Refused: 403})
	for range 2 {
		e.check("X-Ration-Key", "alice")
	}
	r := e.check("X-Ration-Key", "alice")
	if p := bodyOf(t, r); r.StatusCode != 403 || p["status"] != 403.0 || p["code"] != "quota_exceeded" || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", r.StatusCode, p)
	}
}

func TestCheckWithoutKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy httplimit.NoKey
		status []int
		used   float64 // of null
	}{
		{httplimit.RefuseNoKey, []int{403, 403, 403}, 0},
		{httplimit.SkipNoKey, []int{200, 200, 200}, 0},
		{httplimit.ShareNoKey, []int{200, 200, 429}, 2},
	} {
		e := newChecks(t, httpapi.Check{NoKey: c.policy})
		for i, status := range c.status {
			r := e.check("X-Ration-Key", "")
			if r.StatusCode != status {
				t.Errorf("%d, %d: %d", c.policy, i, r.StatusCode)
			}
			if c.policy == httplimit.RefuseNoKey {
				if p := bodyOf(t, r); p["code"] != "no_key" || p["charged"] != "no" {
					t.Errorf("%v", p)
				}
			}
			if left := r.Header.Get("RateLimit"); (left != "") != (c.policy == httplimit.ShareNoKey) {
				t.Errorf("%d, %d: %q", c.policy, i, left)
			}
		}
		if d := e.ok(t, "peek", `{"key":null,"limit":"edge"}`); d["used"] != c.used {
			t.Errorf("%d: %v", c.policy, d)
		}
	}
}

func TestCheckCost(t *testing.T) {
	t.Parallel()
	e := newChecks(t, httpapi.Check{CostHeader: "X-Cost"})
	for _, bad := range []string{"", "-1", "+1", "1.0", "1e0", "0x1", "1 ", "١", "two", "9007199254740992", "99999999999999999999"} {
		r := e.check("X-Ration-Key", "alice", "X-Cost", bad)
		if bad == "1 " { // not as net/http reads it
			r = e.check("X-Ration-Key", "alice", "X-Cost", "1\u00a0")
		}
		if p := bodyOf(t, r); r.StatusCode != 400 || p["code"] != "invalid_cost" || p["charged"] != "no" {
			t.Errorf("%q: %d %v", bad, r.StatusCode, p)
		}
	}
	twice := httptest.NewRequest("GET", "/v1/check/edge", nil)
	twice.Header = http.Header{"X-Ration-Key": {"alice"}, "X-Cost": {"0", "1"}}
	w := httptest.NewRecorder()
	if e.ServeHTTP(w, twice); w.Code != 400 {
		t.Errorf("%d", w.Code)
	}
	if n := e.store.calls.Load(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	for i, c := range []struct {
		cost   string
		status int
		used   float64
	}{{"0", 200, 0}, {"2", 200, 2}, {"0", 200, 2}, {"1", 429, 2}, {"3", 429, 2}} {
		r := e.check("X-Ration-Key", "alice", "X-Cost", c.cost)
		if d := e.ok(t, "peek", `{"key":"alice","limit":"edge"}`); r.StatusCode != c.status || d["used"] != c.used {
			t.Errorf("%d: %d %v", i, r.StatusCode, d)
		}
		// What can never pass is not to be waited for.
		if retry := r.Header.Get("Retry-After"); (retry != "") != (c.cost == "1") {
			t.Errorf("%d: Retry-After is %q", i, retry)
		}
	}
	// Without a header of that name, what a client sends means nothing.
	if e := newChecks(t, httpapi.Check{}); e.check("X-Ration-Key", "alice", "X-Cost", "0").StatusCode != 200 {
		t.Error("refused")
	} else if d := e.ok(t, "peek", `{"key":"alice","limit":"edge"}`); d["used"] != 1.0 {
		t.Errorf("%v", d)
	}
}

// TestCheckByAddress: only what a trusted proxy says counts, and it counts from the right.
func TestCheckByAddress(t *testing.T) {
	t.Parallel()
	e := newChecks(t, httpapi.Check{Key: httplimit.ByIP(&httplimit.IPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})})
	for i := range 20 { // httptest's client is 192.0.2.1
		r := e.check("X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 203.0.113.7", i))
		if want := map[bool]int{true: 200, false: 429}[i < 2]; r.StatusCode != want {
			t.Errorf("%d: %d", i, r.StatusCode)
		}
	}
	if d := e.ok(t, "peek", `{"key":"203.0.113.7","limit":"edge"}`); d["used"] != 2.0 {
		t.Errorf("%v", d)
	}
	for i := range 20 {
		r := e.check("X-Forwarded-For", fmt.Sprintf("2001:db8::%x", i))
		if want := map[bool]int{true: 200, false: 429}[i < 2]; r.StatusCode != want {
			t.Errorf("%d: %d", i, r.StatusCode)
		}
	}
	if r := e.check("X-Forwarded-For", "::ffff:203.0.113.7"); r.StatusCode != 429 {
		t.Errorf("a mapped address: %d", r.StatusCode)
	}
	if r := e.check("X-Forwarded-For", "unknown"); r.StatusCode != 403 {
		t.Errorf("no address: %d", r.StatusCode)
	}
}

// TestCheckWhenTheStoreIsDown: that nobody could tell is 503, whatever the reason, and never a refusal.
func TestCheckWhenTheStoreIsDown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := &counted{Store: memstore.New(nil)}
	info := store.Info()
	info.Instant = false // what cannot be down has no parts
	store.info = &info
	l := ration.New(store, &ration.Options{Outage: &ration.Outage{Failures: 1 << 20, Parts: 2}, Logger: slog.New(slog.DiscardHandler)})
	defer l.Close()
	limits := []ration.Rule{
		{Name: "deny", Limit: ration.FixedWindow{Limit: 2, Window: time.Hour}},
		{Name: "allow", Limit: ration.FixedWindow{Limit: 2, Window: time.Hour}, OnError: ration.AllowOnError},
		{Name: "local", Limit: ration.FixedWindow{Limit: 4, Window: time.Hour}, OnError: ration.LocalOnError},
	}
	var checks []httpapi.Check
	for _, rule := range limits {
		checks = append(checks, httpapi.Check{Limit: rule.Name, Key: httplimit.ByHeader("X-Ration-Key")})
	}
	h, err := httpapi.New(l, store, &httpapi.Options{Limits: limits, Checks: checks, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{h, store}
	for _, c := range []struct {
		err           error
		code, charged string
	}{
		{errors.Join(errors.New("dial tcp 10.0.0.7:5432"), driver.ErrNotApplied), "unavailable", "no"},
		{errors.New("the line is dead"), "outcome_unknown", "unknown"},
		{context.DeadlineExceeded, "outcome_unknown", "unknown"},
		{driver.ErrFull, "full", "no"},
		{driver.ErrCorrupt, "corrupt", "no"},
	} {
		store.fail = func([]*driver.Txn) error { return c.err }
		r := e.do("GET", "/v1/check/deny", "", "X-Ration-Key", "xyzzy")
		p := bodyOf(t, r)
		if r.StatusCode != 503 || p["status"] != 503.0 || p["code"] != c.code || p["charged"] != c.charged || r.Header.Get("Retry-After") != "1" ||
			!strings.HasSuffix(p["type"].(string), "#temporary-reduced-capacity") || strings.Contains(fmt.Sprint(p), "10.0.0.7") {
			t.Errorf("%v: %d %v", c.err, r.StatusCode, p)
		}
	}
	store.fail = func([]*driver.Txn) error { return errors.Join(errors.New("down"), driver.ErrNotApplied) }
	for i := range 4 {
		if r := e.do("GET", "/v1/check/allow", "", "X-Ration-Key", "xyzzy"); r.StatusCode != 200 || r.Header.Get("RateLimit") != "" {
			t.Errorf("%d: %d %v", i, r.StatusCode, r.Header)
		}
		r := e.do("GET", "/v1/check/local", "", "X-Ration-Key", "xyzzy")
		want := 200
		if i >= 2 { // half of the limit
			want = 503
			if p := bodyOf(t, r); p["code"] != "unavailable" || !strings.HasSuffix(p["type"].(string), "#temporary-reduced-capacity") {
				t.Errorf("%d: %v", i, p)
			}
		}
		if r.StatusCode != want {
			t.Errorf("%d: %d", i, r.StatusCode)
		}
	}
	if text := log.String(); strings.Contains(text, "xyzzy") || !strings.Contains(text, "path=/v1/check/{limit}") {
		t.Error(text)
	}
}

// TestCheckReadsNoBody: a proxy may announce the client's body and never send it.
func TestCheckReadsNoBody(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(newChecks(t, httpapi.Check{}))
	defer s.Close()
	for _, head := range []string{"Content-Length: 5", "Transfer-Encoding: chunked", "Content-Length: 5\r\nExpect: 100-continue"} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := fmt.Fprintf(c, "GET /v1/check/edge?limit=chat HTTP/1.1\r\nHost: localhost\r\nX-Ration-Key: %x\r\n%s\r\n\r\n", head, head); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 200 || !r.Close {
			t.Errorf("%q: %d %v", head, r.StatusCode, r.Header)
		}
		c.Close()
	}
}

func TestCheckRequests(t *testing.T) {
	t.Parallel()
	e := newChecks(t, httpapi.Check{})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"HEAD", "/v1/check/edge", 200},
		{"GET", "/v1/check/edge?key=bob&cost=5", 200},
		{"GET", "/v1/check/edge", 429}, // so both were charged
		{"OPTIONS", "/v1/check/edge", 204},
		{"POST", "/v1/check/edge", 405},
		{"GET", "/v1/check/chat", 404}, // a limit without a check
		{"GET", "/v1/check/", 404},
		{"GET", "/v1/check", 404},
		{"GET", "/v1/check/edge/", 404},
		{"GET", "/v1/check/{limit}", 404},
		{"GET", "/v1/check/fixed%202/1h", 404},
	} {
		if r := e.do(c.method, c.path, "", "X-Ration-Key", "alice"); r.StatusCode != c.status {
			t.Errorf("%s %s: %d", c.method, c.path, r.StatusCode)
		}
	}
}

func TestChecksThatAreNone(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	l := ration.New(store, nil)
	defer l.Close()
	limits := append([]ration.Rule{{Name: "slots", Limit: ration.Concurrency{Limit: 2, Lease: time.Minute}}}, configured...)
	key := httplimit.ByHeader("X-Ration-Key")
	for _, c := range []struct {
		checks []httpapi.Check
		want   string
	}{
		{[]httpapi.Check{{Key: key}}, "named"},
		{[]httpapi.Check{{Limit: "chats", Key: key}}, "no limit of this name"},
		{[]httpapi.Check{{Limit: "fixed 2/1h", Key: key}}, "named"},
		{[]httpapi.Check{{Limit: "slots", Key: key}}, "slot"},
		{[]httpapi.Check{{Limit: "chat"}}, "Key is missing"},
		{[]httpapi.Check{{Limit: "chat", Key: key, NoKey: 7}}, "NoKey"},
		{[]httpapi.Check{{Limit: "chat", Key: key, Refused: 503}}, "429 or 403"},
		{[]httpapi.Check{{Limit: "chat", Key: key}, {Limit: "chat", Key: key}}, "two"},
	} {
		if _, err := httpapi.New(l, store, &httpapi.Options{Limits: limits, Checks: c.checks}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.checks, err)
		}
	}
}
