package httpapi_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/ration-go/ration/driver"
)

// FuzzRequest sends bodies to every endpoint. Whatever comes, the answer is JSON with a status that is documented, and
// what is refused has not reached the store.
func FuzzRequest(f *testing.F) {
	verbs := []string{
		"take", "peek", "take-all", "refund", "reset", "forget", "hit", "apply", "reserve", "reservations/xyzzy/settle",
		"reservations/xyzzy/cancel", "reservations/xyzzy/renew", "reservations/xyzzy/progress", "holds", "sweep",
	}
	for _, c := range badInputs() {
		for i, verb := range verbs {
			if verb == c.verb && len(c.body) < 500 {
				f.Add(uint8(i), []byte(c.body))
			}
		}
	}
	for i, body := range []string{
		`{"key":["a","b"],"group":"g","limit":"bucket 10/1m burst 20","name":"n","cost":3}`, `{"key":null,"limit":"budget 5/day Europe/Berlin"}`,
		`{"charges":[{"key":"x","limit":"chat"},{"key_base64":"/w==","limit":"fixed 1/1m","cost":0}]}`,
		`{"key":"x","limit":"chat","cost":1,"at_us":1767225600000000}`, `{"key":"x","limit":"chat"}`, `{"key":"x"}`, `{"key":"x","window_ms":1000,"n":-1}`,
		`{"txns":[{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":5,"span_us":1000000,"cost":1}]}]}`,
		`{"charges":[{"key":"x","limit":"concurrent 5 lease 30s"}],"id":"xyzzy","ttl_ms":60000,"refund_on_expiry":true}`, `{"amounts":[1]}`, `{}`,
		`{"ttl_ms":60000}`, `{"amounts":[1,2]}`, `{"after":"eA==","max":3}`, `{"max":3,"now_us":5}`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	e := holding(f)
	e.store.fail = func(batch []*driver.Txn) error {
		for _, t := range batch {
			if len(t.Ops) == 0 && t.Verb <= driver.Forget || len(t.Ops) > driver.MaxOps || t.ID == "" && t.Verb > driver.Forget {
				panic("a transaction that the contract excludes")
			}
		}
		return nil
	}
	f.Fuzz(func(t *testing.T, verb uint8, body []byte) {
		before := e.store.calls.Load()
		response := e.do(http.MethodPost, "/v1/"+verbs[int(verb)%len(verbs)], string(body))
		answer := bodyOf(t, response)
		switch response.StatusCode {
		case http.StatusOK:
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			// How many amounts there are to be, only the store knows.
			if e.store.calls.Load() != before && answer["code"] != "invalid_amounts" {
				t.Fatalf("the store was asked, and the answer is %v", answer)
			}
			fallthrough
		case http.StatusConflict, http.StatusNotFound, http.StatusNotImplemented, http.StatusServiceUnavailable:
			detail, _ := answer["detail"].(string)
			if answer["charged"] != "no" || answer["code"] == "" || detail == "" || !utf8.ValidString(detail) {
				t.Fatalf("%v", answer)
			}
			if offset, ok := answer["offset"].(float64); ok && (offset < 0 || int(offset) > len(body)) {
				t.Fatalf("%v", answer)
			}
		default:
			t.Fatalf("%d %v", response.StatusCode, answer)
		}
		if !utf8.Valid(body) && response.StatusCode == http.StatusOK || !json.Valid(body) && response.StatusCode == http.StatusOK {
			t.Fatalf("%q is not JSON and was accepted", body)
		}
	})
}
