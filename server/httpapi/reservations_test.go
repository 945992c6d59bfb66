package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/httpapi"
)

// Holds and Sweep are the store's.
func (c *counted) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return c.Store.(driver.HoldLister).Holds(ctx)
}

func (c *counted) Sweep(ctx context.Context, now driver.Micros, max int) (int, error) {
	return c.Store.(driver.Sweeper).Sweep(ctx, now, max)
}

// holding is an API over a store with holds.
func holding(t testing.TB) *env {
	t.Helper()
	return newEnv(t, &httpapi.Options{Limits: configured, Logger: slog.New(slog.DiscardHandler)}, holds)
}

// holds has the store claim all it can.
func holds(c *counted) {
	info := c.Store.Info()
	c.info = &info
}

// to is the status and the answer of what is done to a reservation.
func (e *env) to(t testing.TB, id, verb, body string) (int, object) {
	t.Helper()
	return e.post(t, "reservations/"+url.PathEscape(id)+"/"+verb, body)
}

func (e *env) used(t testing.TB, key, limit string) float64 {
	t.Helper()
	return e.ok(t, "peek", `{"key":"`+key+`","limit":"`+limit+`","cost":0}`)["used"].(float64)
}

const two = `{"charges":[{"key":"a","limit":"fixed 100/1h","cost":10},{"key":"b","limit":"fixed 100/1h","cost":10}]`

func TestReserveAndSettle(t *testing.T) {
	t.Parallel()
	e := holding(t)
	used := func(a, b float64) {
		t.Helper()
		if x, y := e.used(t, "a", "fixed 100/1h"), e.used(t, "b", "fixed 100/1h"); x != a || y != b {
			t.Errorf("used are %v and %v, not %v and %v", x, y, a, b)
		}
	}
	reserve := func() string {
		t.Helper()
		r := e.ok(t, "reserve", two+`,"ttl_ms":60000}`)
		if at, expires := r["at_us"].(float64), r["expires_at_us"].(float64); r["allowed"] != true || expires-at != 60e6 || len(r["each"].([]any)) != 2 {
			t.Errorf("%v", r)
		}
		return r["id"].(string)
	}
	done := func(id, verb, body string) {
		t.Helper()
		if status, answer := e.to(t, id, verb, body); status != 200 || answer["done"] != true || len(answer) != 1 {
			t.Errorf("%s %s: %d %v", verb, body, status, answer)
		}
	}
	fails := func(id, verb, body string, want int, code string) {
		t.Helper()
		status, answer := e.to(t, id, verb, body)
		if status != want || answer["code"] != code || answer["charged"] != "no" || strings.Contains(fmt.Sprint(answer), id) {
			t.Errorf("%s %s: %d %v, not %d %s", verb, body, status, answer, want, code)
		}
	}
	id := reserve()
	used(10, 10)
	done(id, "settle", `{"amounts":[7,13]}`)
	used(7, 13)
	done(id, "settle", `{"amounts":[7,13]}`)
	done(id, "cancel", `{}`)
	used(7, 13)
	fails(id, "settle", `{}`, 409, "ended")
	fails(id, "settle", `{"amounts":[8]}`, 409, "ended")
	fails(id, "renew", `{"ttl_ms":60000}`, 409, "ended")
	fails(id, "progress", `{"amounts":[1]}`, 409, "ended")

	id = reserve()
	done(id, "cancel", `{}`)
	done(id, "cancel", `{}`)
	fails(id, "settle", `{}`, 409, "ended")
	used(7, 13)

	id = reserve()
	done(id, "settle", `{}`)
	done(id, "settle", `{"amounts":[10]}`)
	used(17, 23)

	id = reserve()
	for _, c := range []struct {
		amounts string
		ok      bool
	}{{"[4]", true}, {"[4,4]", true}, {"[4,78]", false}} {
		if status, answer := e.to(t, id, "progress", `{"amounts":`+c.amounts+`}`); status != 200 || answer["ok"] != c.ok || len(answer) != 1 {
			t.Errorf("%s: %d %v", c.amounts, status, answer)
		}
	}
	if status, answer := e.to(t, id, "renew", `{"ttl_ms":120000}`); status != 200 || answer["expires_at_us"].(float64) < 1.7e15 {
		t.Errorf("%d %v", status, answer)
	}
	fails(id, "settle", `{"amounts":[1,2,3]}`, 400, "invalid_amounts")
	done(id, "cancel", `{}`) // what was reported stays
	used(21, 101)

	fails("xyzzy", "settle", `{}`, 404, "no_reservation")
	fails("xyzzy", "cancel", `{}`, 404, "no_reservation")
	fails("xyzzy", "renew", `{"ttl_ms":60000}`, 404, "no_reservation")
	fails("xyzzy", "progress", `{"amounts":[1]}`, 404, "no_reservation")

	r := e.ok(t, "reserve", `{"charges":[{"key":"c","limit":"fixed 100/1h","cost":101}]}`)
	if _, has := r["id"]; has || r["allowed"] != false || r["never"] != true || r["expires_at_us"] != nil {
		t.Errorf("refused: %v", r)
	}
	r = e.ok(t, "reserve", `{"charges":[{"key":"c","limit":"fixed 100/1h"},{"key":"c","limit":"day","cost":2}]}`)
	fails(r["id"].(string), "settle", `{"amounts":[1]}`, 400, "invalid_amounts")
}

func TestConcurrencyOverHTTP(t *testing.T) {
	t.Parallel()
	e := holding(t)
	const slot = `"key":null,"limit":"concurrent 1 lease 30s","name":"jobs"`
	r := e.ok(t, "reserve", `{"charges":[{`+slot+`},{"key":"u","limit":"chat","cost":3}],"id":"a"}`)
	if r["allowed"] != true || r["expires_at_us"].(float64)-r["at_us"].(float64) != 30e6 {
		t.Errorf("%v", r)
	}
	if d := e.ok(t, "peek", `{`+slot+`}`); d["allowed"] != false || d["used"] != 1.0 || d["retry_after_ms"].(float64) > 30000 {
		t.Errorf("%v", d)
	}
	if r := e.ok(t, "reserve", `{"charges":[{`+slot+`},{"key":"u","limit":"chat","cost":3}],"id":"b"}`); r["allowed"] != false || r["name"] != "jobs" || r["index"] != 0.0 {
		t.Errorf("%v", r)
	}
	for _, verb := range []string{"take", "refund"} {
		body := `{` + slot + `}`
		if verb == "refund" {
			body = `{` + slot + `,"at_us":1}`
		}
		if status, answer := e.post(t, verb, body); status != 400 || answer["code"] != "invalid_limit" {
			t.Errorf("%s: %d %v", verb, status, answer)
		}
	}
	if status, answer := e.to(t, "a", "settle", `{"amounts":[2]}`); status != 200 { // the one number is not for the slot
		t.Errorf("%d %v", status, answer)
	}
	if n := e.used(t, "u", "chat"); n != 2 {
		t.Errorf("used is %v", n)
	}
	if r := e.ok(t, "reserve", `{"charges":[{`+slot+`}],"id":"b"}`); r["id"] != "b" {
		t.Errorf("%v", r)
	}
	e.ok(t, "reset", `{`+slot+`}`)
	if status, answer := e.to(t, "b", "renew", `{"ttl_ms":60000}`); status != 409 || answer["code"] != "ended" {
		t.Errorf("a slot that was reset: %d %v", status, answer)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	e := holding(t)
	const key = `"key":"a","limit":"fixed 100/1h"`
	for range 3 {
		if d := e.ok(t, "take", `{`+key+`,"cost":2,"id":"1"}`); d["used"] != 2.0 {
			t.Errorf("%v", d)
		}
		if d := e.ok(t, "take-all", `{"charges":[{`+key+`,"cost":2}],"id":"1"}`); d["used"] != 2.0 { // the same request
			t.Errorf("%v", d)
		}
		if d := e.ok(t, "take-all", `{"charges":[{`+key+`},{"key":"b","limit":"chat"}],"id":"2"}`); d["each"].([]any)[0].(object)["used"] != 3.0 {
			t.Errorf("%v", d)
		}
		if r := e.ok(t, "reserve", `{"charges":[{`+key+`,"cost":4}],"id":"é/ \u0000?","refund_on_expiry":true}`); r["used"] != 7.0 || r["id"] != "é/ \x00?" {
			t.Errorf("%v", r)
		}
	}
	for _, c := range []struct{ verb, body string }{
		{"take", `{` + key + `,"cost":3,"id":"1"}`},
		{"take", `{"key":"b","limit":"fixed 100/1h","cost":2,"id":"1"}`},
		{"take-all", `{"charges":[{"key":"b","limit":"chat"},{` + key + `}],"id":"2"}`},
		{"reserve", `{"charges":[{` + key + `,"cost":2}],"id":"1"}`},
		{"reserve", `{"charges":[{` + key + `,"cost":4}],"id":"é/ \u0000?"}`},
	} {
		status, answer := e.post(t, c.verb, c.body)
		if status != http.StatusConflict || answer["code"] != "id_reused" || answer["charged"] != "no" {
			t.Errorf("%s %s: %d %v", c.verb, c.body, status, answer)
		}
	}
	// A refusal is not remembered.
	if d := e.ok(t, "take", `{"key":"z","limit":"fixed 5/1h","cost":6,"id":"3"}`); d["allowed"] != false {
		t.Errorf("%v", d)
	}
	if d := e.ok(t, "take", `{"key":"z","limit":"fixed 5/1h","cost":5,"id":"3"}`); d["allowed"] != true {
		t.Errorf("%v", d)
	}
	if status, answer := e.to(t, "1", "settle", `{}`); status != 404 || answer["code"] != "no_reservation" {
		t.Errorf("what was taken once is no reservation: %d %v", status, answer)
	}
	if status, answer := e.to(t, "é/ \x00?", "settle", `{"amounts":[0]}`); status != 200 || e.used(t, "a", "fixed 100/1h") != 3 {
		t.Errorf("%d %v", status, answer)
	}
}

// TestLostReply: what has an id and is sent again is charged once, whether the Limiter repeats it or the caller.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"take", "take-all", "reserve"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			e := holding(t)
			body := `{"key":"a","limit":"fixed 100/1h","cost":7,"id":"x"}`
			if verb != "take" {
				body = `{"charges":[{"key":"a","limit":"fixed 100/1h","cost":7}],"id":"x"}`
			}
			lost := errors.New("lost")
			for _, losses := range []int{1, 100, 0} {
				e.store.lose = func([]*driver.Txn) error {
					if losses--; losses >= 0 {
						return lost
					}
					return nil
				}
				unknown := losses > 1
				status, answer := e.post(t, verb, body)
				switch {
				case unknown && (status != http.StatusGatewayTimeout || answer["code"] != "outcome_unknown" || answer["charged"] != "unknown"):
					t.Errorf("%d %v", status, answer)
				case !unknown && (status != http.StatusOK || answer["used"] != 7.0):
					t.Errorf("%d %v", status, answer)
				}
			}
			e.store.lose = nil
			if n := e.used(t, "a", "fixed 100/1h"); n != 7 {
				t.Errorf("used is %v", n)
			}
			if verb != "reserve" {
				return
			}
			losses := 1
			e.store.lose = func([]*driver.Txn) error {
				if losses--; losses >= 0 {
					return lost
				}
				return nil
			}
			if status, answer := e.to(t, "x", "settle", `{"amounts":[9]}`); status != 200 {
				t.Errorf("%d %v", status, answer)
			}
			if n := e.used(t, "a", "fixed 100/1h"); n != 9 {
				t.Errorf("used is %v", n)
			}
		})
	}
}

// TestReservationOutlivesItsCaller: what ends a reservation is done although the caller is gone.
func TestReservationOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	e := holding(t)
	e.ok(t, "reserve", two+`,"id":"x"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/v1/reservations/x/cancel", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	e.ServeHTTP(discard{}, r)
	if n := e.used(t, "a", "fixed 100/1h"); n != 0 {
		t.Errorf("used is %v", n)
	}
	if r.Pattern != "/v1/reservations/{id}/cancel" {
		t.Errorf("a log would say %q", r.Pattern)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

func TestListOfReservations(t *testing.T) {
	t.Parallel()
	e := holding(t)
	list := func(query string) (ids []string, more bool) {
		t.Helper()
		response := e.do(http.MethodGet, "/v1/reservations"+query, "")
		raw, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", query, response.StatusCode, raw, err)
		}
		if strings.Contains(string(raw), "xyzzy") {
			t.Errorf("the list shows a key: %s", raw)
		}
		var answer struct {
			Reservations []struct {
				ID       string `json:"id"`
				IDBase64 string `json:"id_base64"`
				AtUS     int64  `json:"at_us"`
				Expires  int64  `json:"expires_at_us"`
				Charges  []struct {
					Name           string
					Limit, Charged int64
				}
			}
			More bool
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			t.Fatal(err)
		}
		for _, r := range answer.Reservations {
			if r.Expires-r.AtUS != 60e6 || len(r.Charges) != 2 || r.Charges[0].Name != "chat" || r.Charges[0].Limit != 20 || r.Charges[0].Charged != 1 ||
				r.Charges[1].Name != "x" || r.Charges[1].Limit != 100 || r.Charges[1].Charged != 2 {
				t.Errorf("%+v", r)
			}
			ids = append(ids, r.ID+r.IDBase64)
		}
		return ids, answer.More
	}
	if ids, more := list(""); len(ids) != 0 || more {
		t.Errorf("%v, %v", ids, more)
	}
	if raw, err := io.ReadAll(e.do(http.MethodGet, "/v1/reservations", "").Body); err != nil || string(raw) != `{"reservations":[],"more":false}`+"\n" {
		t.Errorf("%s, %v", raw, err)
	}
	for i := range 7 {
		e.ok(t, "reserve", fmt.Sprintf(`{"charges":[{"key":"xyzzy%[1]d","limit":"chat"},{"key":"xyzzy%[1]d","limit":"fixed 100/1h","name":"x","cost":2}],"id":"id/%[1]d &","ttl_ms":60000}`, i))
	}
	if status, answer := e.to(t, "id/3 &", "cancel", `{}`); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
	var all []string
	for query := "?max=4"; ; {
		ids, more := list(query)
		all = append(all, ids...)
		if !more {
			break
		}
		query = "?max=4&after=" + url.QueryEscape(ids[len(ids)-1])
	}
	if got := strings.Join(all, ","); got != "id/0 &,id/1 &,id/2 &,id/4 &,id/5 &,id/6 &" {
		t.Errorf("%s", got)
	}

	// Made by a Limiter elsewhere, under an id that is no text; and in another namespace.
	for _, namespace := range []string{"", "other"} {
		l := ration.New(e.store, &ration.Options{Namespace: namespace}) // not closed: the store is e's
		r, err := l.Reserve(t.Context(), &ration.ReserveOptions{ID: "z\xff" + namespace, TTL: 60e9}, ration.KeyOf("q").Charge(configured[0], 1),
			ration.KeyOf("q").Charge(ration.Rule{Name: "x", Limit: ration.FixedWindow{Limit: 100, Window: 3600e9}}, 2))
		if err != nil || !r.Allowed {
			t.Fatal(err)
		}
	}
	if ids, _ := list("?after=id/6%20%26"); len(ids) != 1 || ids[0] != "ev8=" {
		t.Errorf("%q", ids)
	}
	if ids, _ := list("?after=z%ff"); len(ids) != 0 {
		t.Errorf("%q", ids)
	}
	if response := e.do(http.MethodPost, "/v1/reservations/z%FF/settle", `{}`); response.StatusCode != 200 {
		t.Errorf("%v", bodyOf(t, response))
	}
	if ids, _ := list("?after=z"); len(ids) != 0 {
		t.Errorf("%q", ids)
	}
}

// TestDegradedReservation: what the store could not tell of is held by nobody.
func TestDegradedReservation(t *testing.T) {
	t.Parallel()
	e := holding(t)
	e.store.fail = func([]*driver.Txn) error { return errors.Join(errors.New("down"), driver.ErrNotApplied) }
	r := e.ok(t, "reserve", `{"charges":[{"key":"a","limit":"daily"}],"id":"x"}`)
	if _, has := r["id"]; has || r["allowed"] != true || r["degraded"] != true {
		t.Errorf("%v", r)
	}
	if d := e.ok(t, "take", `{"key":"a","limit":"daily","id":"x"}`); d["allowed"] != true || d["degraded"] != true {
		t.Errorf("%v", d)
	}
	status, answer := e.post(t, "reserve", `{"charges":[{"key":"a","limit":"daily"},{"key":"a","limit":"chat"}],"id":"x"}`)
	if status != http.StatusServiceUnavailable || answer["charged"] != "no" {
		t.Errorf("with a limit that denies: %d %v", status, answer)
	}
}

// TestStoreWithoutHolds says what it cannot do.
func TestStoreWithoutHolds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	for _, c := range []struct{ verb, body string }{
		{"reserve", two + `}`}, {"take", `{"key":"a","limit":"chat","id":"x"}`}, {"take-all", two + `,"id":"x"}`},
		{"reservations/x/settle", `{}`}, {"reservations/x/cancel", `{}`}, {"reservations/x/renew", `{"ttl_ms":60000}`},
		{"reservations/x/progress", `{"amounts":[1]}`}, {"holds", `{}`}, {"peek", `{"key":"a","limit":"concurrent 5 lease 30s"}`},
	} {
		if status, answer := e.post(t, c.verb, c.body); status != http.StatusNotImplemented || answer["code"] != "unsupported" || answer["charged"] != "no" {
			t.Errorf("%s: %d %v", c.verb, status, answer)
		}
	}
	if answer := bodyOf(t, e.do(http.MethodGet, "/v1/reservations", "")); answer["code"] != "unsupported" {
		t.Errorf("%v", answer)
	}
}
