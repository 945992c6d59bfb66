package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/httpapi"
)

const good = `{"key":"xyzzy","limit":"chat"}`

func TestRequestsThatAreNone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		{"POST", "/", good, nil, 404, "not_found"},
		{"POST", "/v1", good, nil, 404, "not_found"},
		{"POST", "/v1/", good, nil, 404, "not_found"},
		{"POST", "/v1/take/", good, nil, 404, "not_found"},
		{"POST", "//v1/take", good, nil, 404, "not_found"},
		{"POST", "/v1/../v1/take", good, nil, 404, "not_found"},
		{"POST", "/V1/take", good, nil, 404, "not_found"},
		{"POST", "/v1/Take", good, nil, 404, "not_found"},
		{"POST", "/v1/reserved", good, nil, 404, "not_found"},
		{"POST", "/v1/reservations/", good, nil, 404, "not_found"},
		{"POST", "/v1/reservations/xyzzy", good, nil, 404, "not_found"},
		{"POST", "/v1/reservations/settle", good, nil, 404, "not_found"},
		{"POST", "/v1/reservations/xyzzy/settled", good, nil, 404, "not_found"},
		{"POST", "/v1/reservations/xyz/zy/settle", good, nil, 404, "not_found"},
		{"POST", "/v1/reservations/xyzzy/settle/", good, nil, 404, "not_found"},
		{"POST", "/v1/reservations/{id}/", good, nil, 404, "not_found"},
		{"GET", "/v1/reservations/xyzzy/settle", "", nil, 405, "method_not_allowed"},
		{"POST", "/v1/reservations", good, nil, 405, "method_not_allowed"},
		{"POST", "/v1/reservations/xyzzy/settle?x", "{}", nil, 400, "unexpected_query"},
		{"GET", "/v1/reservations?key=xyzzy", "", nil, 400, "unexpected_query"},
		{"GET", "/v1/reservations?max=1&max=2", "", nil, 400, "unexpected_query"},
		{"GET", "/v1/reservations?after=%zz", "", nil, 400, "unexpected_query"},
		{"GET", "/v1/reservations?after=a;max=2", "", nil, 400, "unexpected_query"},
		{"GET", "/v1/reservations?max=", "", nil, 400, "invalid_number"},
		{"GET", "/v1/reservations?max=0", "", nil, 400, "invalid_number"},
		{"GET", "/v1/reservations?max=501", "", nil, 400, "invalid_number"},
		{"GET", "/v1/reservations?max=1e2", "", nil, 400, "invalid_number"},
		{"GET", "/v1/reservations?max=-1", "", nil, 400, "invalid_number"},
		{"POST", "/v1/reservations//settle", "{}", nil, 400, "invalid_id"},
		{"POST", "/v1%2Freservations/%7Bid%7D/settle", "{}", nil, 400, "invalid_id"},
		{"POST", "/v1/reservations/" + strings.Repeat("x", 145) + "/cancel", "{}", nil, 400, "invalid_id"},
		{"POST", "/v1/reservations/" + strings.Repeat("%FF", 145) + "/renew", `{"ttl_ms":60000}`, nil, 400, "invalid_id"},
		{"GET", "/v1/take", "", nil, 405, "method_not_allowed"},
		{"HEAD", "/v1/take", "", nil, 405, ""},
		{"PUT", "/v1/take", good, nil, 405, "method_not_allowed"},
		{"post", "/v1/take", good, nil, 405, "method_not_allowed"},
		{"DELETE", "/v1/limits", "", nil, 405, "method_not_allowed"},
		{"POST", "/v1/limits", "", nil, 405, "method_not_allowed"},
		{"POST", "/healthz", "", nil, 405, "method_not_allowed"},
		{"POST", "/v1/take?cost=5", good, nil, 400, "unexpected_query"},
		{"POST", "/v1/take?", good, nil, 400, "unexpected_query"},
		{"GET", "/v1/limits?x", "", nil, 400, "unexpected_query"},
		{"POST", "/v1/take", good, []string{"Content-Type", ""}, 415, "unsupported_media_type"},
		{"POST", "/v1/take", good, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type"},
		{"POST", "/v1/take", good, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"POST", "/v1/take", good, []string{"Content-Type", "application/jsonp"}, 415, "unsupported_media_type"},
		{"POST", "/v1/take", good, []string{"Content-Type", "application/json; charset=latin1"}, 415, "unsupported_media_type"},
		{"POST", "/v1/take", good, []string{"Content-Type", "application/json; charset"}, 415, "unsupported_media_type"},
		{"POST", "/v1/take", good, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type"},
		{"POST", "/v1/take", good + strings.Repeat(" ", 64<<10), nil, 413, "body_too_large"},
		{"POST", "/v1/apply", `{"txns":[]}` + strings.Repeat(" ", 4<<20), nil, 413, "body_too_large"},
	} {
		response := e.do(c.method, c.path, c.body, c.header...)
		if response.StatusCode != c.status {
			t.Errorf("%s %s %v: %d", c.method, c.path, c.header, response.StatusCode)
		}
		if response.Header.Get("Content-Type") != wire.ProblemType || response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: header %v", c.method, c.path, response.Header)
		}
		if allow := response.Header.Get("Allow"); (allow != "") != (c.status == 405) {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, allow)
		}
		if c.code != "" {
			if p := bodyOf(t, response); p["code"] != c.code || p["charged"] != "no" {
				t.Errorf("%s %s %v: %v", c.method, c.path, c.header, p)
			}
		}
	}
	if n := e.store.calls.Load(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

func TestRequestsThatAreFine(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	for i, header := range [][]string{
		{"Content-Type", "application/json; charset=utf-8"}, {"Content-Type", "Application/JSON;charset=\"UTF-8\""},
		{"Content-Encoding", "identity"}, {"Accept", "text/html"},
	} {
		body := good + strings.Repeat(" ", 64<<10-len(good))
		if response := e.do("POST", "/v1/take", body, header...); response.StatusCode != 200 || bodyOf(t, response)["used"] != float64(i+1) {
			t.Errorf("%v: %d", header, response.StatusCode)
		}
	}
	for path, allow := range map[string]string{"/v1/take": "POST, OPTIONS", "/healthz": "GET, HEAD, OPTIONS"} {
		response := e.do("OPTIONS", path, "")
		if response.StatusCode != 204 || response.Header.Get("Allow") != allow {
			t.Errorf("OPTIONS %s: %d %v", path, response.StatusCode, response.Header)
		}
	}
	for _, path := range []string{"/healthz", "/v1/limits", "/openapi.json"} {
		if response := e.do("HEAD", path, ""); response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD %s: %d %v", path, response.StatusCode, response.Header)
		}
	}
	limits, err := io.ReadAll(e.do("GET", "/v1/limits", "").Body)
	if want := `{"limits":[{"name":"chat","limit":"bucket 10/1m burst 20"},{"name":"daily","limit":"sliding 3/24h","on_error":"allow"},` +
		`{"name":"day","limit":"budget 100/day"}]}` + "\n"; err != nil || string(limits) != want {
		t.Errorf("%s, %v", limits, err)
	}
	if health := bodyOf(t, e.do("GET", "/healthz", "")); health["status"] != "ok" || health["version"] != "v0" {
		t.Errorf("%v", health)
	}
}

// TestErrorsOfTheStore has the code and status of everything that can go wrong behind the API, at each verb.
func TestErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := newEnv(t, &httpapi.Options{Limits: configured[:2], Logger: slog.New(slog.NewTextHandler(&log, nil))}, holds)
	secret := errors.New("dial tcp 10.0.0.7:5432: password of /var/lib/ration.db")
	for _, c := range []struct {
		err     error
		status  int
		code    string
		charged string
	}{
		{driver.ErrFull, 503, "full", "no"},
		{driver.ErrOverflow, 409, "overflow", "no"},
		{driver.ErrCrossGroup, 400, "cross_group", "no"},
		{driver.ErrCorrupt, 500, "corrupt", "no"},
		{driver.ErrClosed, 503, "closed", "no"},
		{driver.ErrClock, 503, "clock", "no"},
		{driver.ErrEnded, 409, "ended", "no"},
		{driver.ErrIDReused, 409, "id_reused", "no"},
		{driver.ErrNoHold, 404, "no_reservation", "no"},
		{driver.ErrAmounts, 400, "invalid_amounts", "no"},
		{ration.ErrOverloaded, 504, "outcome_unknown", "unknown"}, // a store that does not say that nothing was changed
		{errors.Join(ration.ErrOverloaded, driver.ErrNotApplied), 503, "overloaded", "no"},
		{errors.Join(ration.ErrUnsupported, driver.ErrNotApplied), 501, "unsupported", "no"},
		{errors.Join(secret, driver.ErrNotApplied), 503, "unavailable", "no"},
		{errors.Join(context.DeadlineExceeded, driver.ErrNotApplied), 503, "unavailable", "no"},
		{secret, 504, "outcome_unknown", "unknown"},
		{context.DeadlineExceeded, 504, "outcome_unknown", "unknown"},
	} {
		for _, whole := range []bool{true, false} {
			e.store.fail = func(batch []*driver.Txn) error {
				if !whole {
					batch[0].Err = c.err
					e.store.Store = failing{e.store.Store, c.err}
					return nil
				}
				return c.err
			}
			for verb, body := range map[string]string{
				"take": good, "take-all": `{"charges":[` + good + `]}`, "reset": good, "forget": `{"key":"xyzzy"}`,
				"hit": `{"key":"xyzzy","window_ms":1000}`, "refund": `{"key":"xyzzy","limit":"chat","at_us":1}`,
				"reserve": `{"charges":[` + good + `],"id":"xyzzy"}`, "reservations/xyzzy/settle": `{}`, "reservations/xyzzy/cancel": `{}`,
				"reservations/xyzzy/renew": `{"ttl_ms":60000}`, "reservations/xyzzy/progress": `{"amounts":[1]}`,
			} {
				response := e.do("POST", "/v1/"+verb, body)
				p := bodyOf(t, response)
				if response.StatusCode != c.status || p["code"] != c.code || p["charged"] != c.charged || p["status"] != float64(c.status) {
					t.Errorf("%v, %s: %d %v", c.err, verb, response.StatusCode, p)
				}
				if retry := response.Header.Get("Retry-After"); (retry == "1") != (c.status == 503) {
					t.Errorf("%v, %s: Retry-After is %q", c.err, verb, retry)
				}
				if detail := p["detail"].(string); strings.Contains(detail, "10.0.0.7") || strings.Contains(detail, "xyzzy") {
					t.Errorf("%v, %s: the answer says too much: %s", c.err, verb, detail)
				}
			}
			if f, ok := e.store.Store.(failing); ok {
				for ok {
					e.store.Store = f.Store
					f, ok = f.Store.(failing)
				}
			}
		}
	}
	e.store.fail = nil
	if d := e.ok(t, "peek", good); d["used"] != 0.0 {
		t.Errorf("%v", d)
	}
	if text := log.String(); strings.Contains(text, "xyzzy") || !strings.Contains(text, "code=outcome_unknown") {
		t.Errorf("the log: %s", text)
	}
}

// failing answers every transaction with an error.
type failing struct {
	driver.Store
	err error
}

func (f failing) Apply(_ context.Context, batch []*driver.Txn) error {
	for i := range batch {
		batch[i].Err = f.err
	}
	return nil
}

// TestPeekHasNoUnknownOutcome: what changes nothing has no unknown outcome.
func TestPeekHasNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	e.store.fail = func([]*driver.Txn) error { return errors.New("the line is dead") }
	for method, path := range map[string]string{"POST": "/v1/peek", "GET": "/healthz"} {
		response := e.do(method, path, good)
		if p := bodyOf(t, response); response.StatusCode != 503 || p["code"] != "unavailable" || p["charged"] != "no" {
			t.Errorf("%s: %d %v", path, response.StatusCode, p)
		}
	}
}

func TestDegraded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	e.store.fail = func([]*driver.Txn) error { return errors.New("the line is dead") }
	if d := e.ok(t, "take", `{"key":"x","limit":"daily"}`); d["allowed"] != true || d["degraded"] != true || d["name"] != "daily" {
		t.Errorf("%v", d)
	}
}

// TestLogIsBounded: an outage is one line a second and code.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := newEnv(t, &httpapi.Options{Limits: configured, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		e.store.fail = func([]*driver.Txn) error { return driver.ErrFull }
		for range 100 {
			e.post(t, "take", good)
		}
		<-time.After(time.Second) // of the bubble's clock
		e.post(t, "take", good)
		var lines []object
		for line := range strings.Lines(log.String()) {
			var o object
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, o)
		}
		if len(lines) != 2 || lines[0]["not_logged"] != 0.0 || lines[1]["not_logged"] != 99.0 || lines[1]["path"] != "/v1/take" {
			t.Errorf("%v", lines)
		}
	})
}

// TestBodyThatBreaksOff: a request that was not received whole is not decided.
func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	for _, body := range []string{good, good[:10]} {
		r := httptest.NewRequest("POST", "/v1/take", io.MultiReader(strings.NewReader(body), broken{}))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if p := bodyOf(t, w.Result()); w.Code != 400 || p["code"] != "incomplete_body" {
			t.Errorf("%d %v", w.Code, p)
		}
	}
	// Of unknown length, and too long.
	r := httptest.NewRequest("POST", "/v1/take", io.MultiReader(strings.NewReader(good), strings.NewReader(strings.Repeat(" ", 64<<10))))
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = -1
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	if p := bodyOf(t, w.Result()); w.Code != 413 || p["code"] != "body_too_large" {
		t.Errorf("%d %v", w.Code, p)
	}
	if n := e.store.calls.Load(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestCallerIsGone: a request whose caller has hung up charges nothing.
func TestCallerIsGone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for path, body := range map[string]string{
		"/v1/take":  good,
		"/v1/apply": `{"txns":[{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":1,"span_us":1000000,"cost":1}]}]}`,
	} {
		r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if p := bodyOf(t, w.Result()); p["charged"] != "no" || w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %v", w.Code, p)
		}
	}
	if n := e.store.calls.Load(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	l := ration.New(store, nil)
	defer l.Close()
	chat := configured[0]
	for _, c := range []struct {
		limits []ration.Rule
		says   string
	}{
		{[]ration.Rule{chat, chat}, `two limits have the name "chat"`},
		{[]ration.Rule{{Limit: chat.Limit}}, "has no name"},
		{[]ration.Rule{{Name: "Chat", Limit: chat.Limit}}, "invalid limit"},
		{[]ration.Rule{{Name: "chat"}}, "invalid limit"},
		{[]ration.Rule{{Name: "chat", Limit: ration.FixedWindow{Limit: 1}}}, `limit "chat"`},
	} {
		if _, err := httpapi.New(l, store, &httpapi.Options{Limits: c.limits}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.limits, err)
		}
	}
	if _, err := httpapi.New(nil, store, nil); err == nil {
		t.Error("no Limiter is no error")
	}
	if _, err := httpapi.New(l, nil, nil); err == nil {
		t.Error("no store is no error")
	}
	if _, err := httpapi.New(l, store, nil); err != nil {
		t.Error(err)
	}
}
