package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/httpapi"
)

func applied(t *testing.T, e *env, body string) []any {
	t.Helper()
	return e.ok(t, "apply", body)["txns"].([]any)
}

// TestOneBadTransaction is its own trouble: its neighbours are decided.
func TestOneBadTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	const good = `{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]}`
	for bad, code := range map[string]string{
		`{"verb":"take"}`:               "invalid_txn",
		`{"verb":"take","ops":[]}`:      "invalid_txn",
		`{"verb":"cancel","id":"eA"}`:   "", // not base64: no batch at all
		`{"verb":"cancel","id":"eA=="}`: "unsupported",
		`{"verb":"peek","ops":[{"space":"|s||","id":"eA==","kind":"slots","size":1,"span_us":1000000,"cost":1}]}`:                             "unsupported",
		`{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1,"cost":1}]}`:                                 "invalid_txn",
		`{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":-1}]}`:                          "invalid_txn",
		`{"verb":"take","ops":[{"space":"|b||","id":"eA==","kind":"bucket","size":9007199254740991,"rate":7,"span_us":1000000,"cost":1}]}`:    "invalid_txn",
		`{"verb":"take","ops":[{"space":"|c||","id":"","kind":"counter","size":5,"span_us":1000000,"cost":1}]}`:                               "invalid_txn",
		`{"verb":"take","now_us":5,"ops":[{"space":"|m||","id":"eA==","kind":"budget","size":5,"bounds_us":[10,20,30,40],"cost":1}]}`:         "clock",
		`{"verb":"hit","ops":[{"space":"|c||","id":"eQ==","kind":"counter","span_us":1000000,"cost":9007199254740991}],"now_us":1}`:           "maybe overflow",
		`{"verb":"hit","ops":[{"space":"|c||","id":"eQ==","kind":"counter","span_us":1000000,"cost":1}],"now_us":1}`:                          "maybe overflow",
		`{"verb":"forget","ops":[{"space":"|","id":"enp6"}]}`:                                                                                 "fine",
		`{"verb":"refund","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]}`:                         "invalid_txn",
		`{"verb":"refund","ops":[{"space":"|c||","id":"enp6","kind":"counter","size":5,"span_us":1000000,"cost":1,"at_us":1}]}`:               "fine",
		`{"verb":"take","id":"eA==","ttl_us":1,"ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]}`:    "unsupported",
		`{"verb":"take","now_us":9007199254740991,"ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]}`: "invalid_txn",
	} {
		e.ok(t, "forget", `{"key":"x"}`)
		status, answer := e.post(t, "apply", `{"txns":[`+good+`,`+bad+`,`+good+`]}`)
		if code == "" {
			if status != http.StatusBadRequest || answer["code"] != "wrong_type" {
				t.Errorf("%s: %d %v", bad, status, answer)
			}
			continue
		}
		if status != http.StatusOK {
			t.Errorf("%s: %d %v", bad, status, answer)
			continue
		}
		txns := answer["txns"].([]any)
		first, second, third := txns[0].(object), txns[1].(object), txns[2].(object)
		if first["allowed"] != true || third["allowed"] != true || third["ops"].([]any)[0].(object)["used"] != 2.0 {
			t.Errorf("%s: the neighbours: %v", bad, answer)
		}
		problem, _ := second["error"].(object)
		if code == "fine" && problem != nil || code != "fine" && code != "maybe overflow" && (problem == nil || problem["code"] != code || problem["detail"] == "") {
			t.Errorf("%s: %v", bad, second)
		}
	}
}

func TestOverflowOverTheWire(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	e.ok(t, "hit", `{"key":"x","window_ms":60000,"n":9007199254740991}`)
	if status, p := e.post(t, "hit", `{"key":"x","window_ms":60000}`); status != http.StatusConflict || p["code"] != "overflow" || p["charged"] != "no" {
		t.Errorf("%d %v", status, p)
	}
	if a := e.ok(t, "hit", `{"key":"x","window_ms":60000,"n":-9007199254740991}`); a["count"] != 0.0 {
		t.Errorf("%v", a)
	}
	txns := applied(t, e, `{"txns":[{"verb":"hit","ops":[{"space":"|c||","id":"eA==","kind":"counter","span_us":60000000,"cost":-9007199254740991}]},`+
		`{"verb":"hit","ops":[{"space":"|c||","id":"eA==","kind":"counter","span_us":60000000,"cost":-1}]}]}`)
	if txns[0].(object)["ops"].([]any)[0].(object)["used"] != -9007199254740991.0 || txns[1].(object)["error"].(object)["code"] != "overflow" {
		t.Errorf("%v", txns)
	}
	if status, p := e.post(t, "take-all", `{"charges":[{"key":"x","limit":"fixed 1/1m","cost":9007199254740991},{"key":"x","limit":"fixed 1/1m"}]}`); status != http.StatusConflict || p["code"] != "overflow" {
		t.Errorf("%d %v", status, p)
	}
}

// TestStoresThatCanDoLess: the client cannot know, so the server says it.
func TestStoresThatCanDoLess(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	less := driver.Info{Kind: "small", Scope: driver.Machine, Caps: driver.CapBucket | driver.CapList, OneGroup: true}
	e.store.info = &less
	l := ration.New(e.store, nil)
	h, err := httpapi.New(l, e.store, &httpapi.Options{Limits: configured, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	e.Handler = h
	for verb, body := range map[string]string{
		"take": `{"key":"x","limit":"day"}`, "hit": `{"key":"x","window_ms":1000}`, "forget": `{"key":"x"}`, "reset": `{"key":"x","limit":"sliding 1s"}`,
	} {
		if status, p := e.post(t, verb, body); status != http.StatusNotImplemented || p["code"] != "unsupported" || p["charged"] != "no" {
			t.Errorf("%s: %d %v", verb, status, p)
		}
	}
	two := `{"charges":[{"key":"x","limit":"chat"},{"key":"y","limit":"chat"}]}`
	if status, p := e.post(t, "take-all", two); status != http.StatusBadRequest || p["code"] != "cross_group" {
		t.Errorf("%d %v", status, p)
	}
	two = strings.ReplaceAll(two, `"key"`, `"group":"g","key"`)
	if o := e.ok(t, "take-all", two); o["allowed"] != true {
		t.Errorf("%v", o)
	}
	bucket := func(id string) string {
		return `{"space":"|b||","id":"` + id + `","kind":"bucket","size":3,"rate":1,"span_us":1000000,"cost":1}`
	}
	txns := applied(t, e, `{"txns":[{"verb":"take","ops":[`+bucket("eA==")+`]},{"verb":"take","ops":[`+bucket("eA==")+`,`+bucket("eQ==")+`]},`+
		`{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]},`+
		`{"verb":"forget","ops":[{"space":"|","id":"eA=="}]}]}`)
	for i, code := range []any{nil, "cross_group", "unsupported", "unsupported"} {
		problem, _ := txns[i].(object)["error"].(object)
		if problem["code"] != code {
			t.Errorf("%d: %v", i, txns[i])
		}
	}
	if status, _ := e.post(t, "take", `{"key":"x","limit":"chat"}`); status != http.StatusOK {
		t.Error(status)
	}
	if response := e.do("GET", "/healthz", ""); response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}

// TestApplyErrors: an error of the whole batch is an error of the request.
func TestApplyErrors(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	const body = `{"txns":[{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]}]}`
	for _, c := range []struct {
		err     error
		status  int
		code    string
		charged string
	}{
		{errors.Join(errors.New("no line"), driver.ErrNotApplied), 503, "unavailable", "no"},
		{errors.New("lost"), 504, "outcome_unknown", "unknown"},
		{driver.ErrClosed, 503, "closed", "no"},
	} {
		e.store.fail = func([]*driver.Txn) error { return c.err }
		if status, p := e.post(t, "apply", body); status != c.status || p["code"] != c.code || p["charged"] != c.charged {
			t.Errorf("%v: %d %v", c.err, status, p)
		}
	}
}

// deadlines is a store that hangs until its context ends.
type deadlines struct{ driver.Store }

func (deadlines) Apply(ctx context.Context, _ []*driver.Txn) error {
	<-ctx.Done()
	return ctx.Err()
}

func (d deadlines) Info() driver.Info {
	info := d.Store.Info()
	info.Instant = false
	return info
}

func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	store := deadlines{e.store}
	l := ration.New(store, &ration.Options{Timeout: 10 * time.Millisecond})
	h, err := httpapi.New(l, store, &httpapi.Options{
		Limits: configured, Timeout: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Handler = h
	for path, status := range map[string]int{"/v1/take": 504, "/v1/peek": 503, "/healthz": 503, "/v1/apply": 504} {
		method, body := "POST", `{"key":"x","limit":"chat"}`
		switch path {
		case "/healthz":
			method = "GET"
		case "/v1/apply":
			body = `{"txns":[{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]}]}`
		}
		if response := e.do(method, path, body); response.StatusCode != status {
			t.Errorf("%s: %d, not %d", path, response.StatusCode, status)
		}
	}
}
