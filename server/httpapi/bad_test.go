package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// bad is an input that must be refused before the store is asked.
type bad struct{ verb, body, code, pointer string }

func badInputs() []bad {
	list := []bad{
		// The body as a whole.
		{"take", ``, "invalid_json", ""},
		{"take", ` `, "invalid_json", ""},
		{"take", `null`, "wrong_type", ""},
		{"take", `[]`, "wrong_type", ""},
		{"take", `"xyzzy"`, "wrong_type", ""},
		{"take", `{"key":"xyzzy","limit":"chat"`, "invalid_json", ""},
		{"take", `{"key":"xyzzy","limit":"chat"}}`, "invalid_json", ""},
		{"take", `{"key":"xyzzy","limit":"chat"}{"key":"xyzzy","limit":"chat"}`, "invalid_json", ""},
		{"take", "\ufeff" + `{"key":"xyzzy","limit":"chat"}`, "invalid_json", ""},
		{"take", `key=xyzzy&limit=chat`, "invalid_json", ""},
		{"take", `{"key":"xyzzy","limit":"chat",}`, "invalid_json", ""},
		{"take", `{"key":"xyzzy","limit":"chat"/**/}`, "invalid_json", ""},

		// Fields.
		{"take", `{}`, "missing_field", ""},
		{"take", `{"limit":"chat"}`, "missing_field", ""},
		{"take", `{"key":"xyzzy"}`, "missing_field", ""},
		{"take", `{"key":"xyzzy","limit":"chat","costs":2}`, "unknown_field", ""},
		{"take", `{"key":"xyzzy","limit":"chat","Cost":2}`, "unknown_field", ""},
		{"take", `{"KEY":"xyzzy","limit":"chat"}`, "unknown_field", ""},
		{"take", `{"key":"xyzzy","limit":"chat","n":2}`, "unknown_field", ""},
		{"take", `{"key":"xyzzy","limit":"chat","at_us":2}`, "unknown_field", ""},
		{"take", `{"key":"xyzzy","key":"xyzzy","limit":"chat"}`, "duplicate_field", ""},
		{"take", `{"key":"xyzzy","limit":"chat","cost":1,"cost":1}`, "duplicate_field", ""},
		{"take", `{"key":"xyzzy","limit":"chat","c\u006fst":1,"cost":5}`, "duplicate_field", ""},

		// Numbers.
		{"take", `{"key":"xyzzy","limit":"chat","cost":"1"}`, "wrong_type", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":null}`, "wrong_type", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":true}`, "wrong_type", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":[1]}`, "wrong_type", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":1.0}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":0.5}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":1e0}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":1E3}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":-0}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":NaN}`, "invalid_json", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":Infinity}`, "invalid_json", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":01}`, "invalid_json", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":+1}`, "invalid_json", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":0x1}`, "invalid_json", ""},
		{"take", `{"key":"xyzzy","limit":"chat","cost":9007199254740992}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":18446744073709551617}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":-9007199254740992}`, "invalid_number", "/cost"},
		{"take", `{"key":"xyzzy","limit":"chat","cost":-1}`, "invalid_cost", ""},
		{"take", `{"key":"xyzzy","limit":"chat","cost":-9007199254740991}`, "invalid_cost", ""},
		{"refund", `{"key":"xyzzy","limit":"chat","at_us":1,"cost":-1}`, "invalid_cost", ""},

		// Keys.
		{"take", `{"key":"","limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key":[],"limit":"chat"}`, "invalid_key", "/key"},
		{"take", `{"key":[""],"limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key":["xyzzy",""],"limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key":["xyzzy",null],"limit":"chat"}`, "wrong_type", "/key/1"},
		{"take", `{"key":["xyzzy",7],"limit":"chat"}`, "wrong_type", "/key/1"},
		{"take", `{"key":[["xyzzy"]],"limit":"chat"}`, "wrong_type", "/key/0"},
		{"take", `{"key":7,"limit":"chat"}`, "wrong_type", "/key"},
		{"take", `{"key":false,"limit":"chat"}`, "wrong_type", "/key"},
		{"take", `{"key":{"id":"xyzzy"},"limit":"chat"}`, "wrong_type", "/key"},
		{"take", `{"key":,"limit":"chat"}`, "invalid_json", "/key"},
		{"take", `{"key":nil,"limit":"chat"}`, "invalid_json", "/key"},
		{"take", `{"key":"` + strings.Repeat("x", 1025) + `","limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key":["` + strings.Repeat("x", 1000) + `","` + strings.Repeat("y", 25) + `"],"limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key":"xyzzy","group":"` + strings.Repeat("x", 1025) + `","limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key":"xyzzy","group":null,"limit":"chat"}`, "wrong_type", "/group"},
		{"take", `{"key":"xyzzy","group":["x"],"limit":"chat"}`, "wrong_type", "/group"},
		{"take", "{\"key\":\"xyz\xffzy\",\"limit\":\"chat\"}", "invalid_unicode", ""},
		{"take", "{\"key\":\"xyz\xed\xa0\x80zy\",\"limit\":\"chat\"}", "invalid_unicode", ""},
		{"take", "{\"key\":\"xyz\xc0\x80zy\",\"limit\":\"chat\"}", "invalid_unicode", ""},
		{"take", `{"key":"xyz\ud800zy","limit":"chat"}`, "invalid_unicode", "/key"},
		{"take", `{"key":"xyz\udfffzy","limit":"chat"}`, "invalid_unicode", "/key"},
		{"take", `{"key":["a","\ud83d\ud83d"],"limit":"chat"}`, "invalid_unicode", "/key/1"},
		{"take", "{\"key\":\"xyz\nzy\",\"limit\":\"chat\"}", "invalid_json", "/key"},
		{"take", "{\"key\":\"xyz\x00zy\",\"limit\":\"chat\"}", "invalid_json", "/key"},
		{"take", `{"key":"xyzzy","key_base64":"YWxpY2U=","limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key":null,"key_base64":"YWxpY2U=","limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key_base64":null,"limit":"chat"}`, "wrong_type", "/key_base64"},
		{"take", `{"key_base64":"YWxpY2U","limit":"chat"}`, "wrong_type", "/key_base64"},
		{"take", `{"key_base64":"YWxpY2V=","limit":"chat"}`, "wrong_type", "/key_base64"},
		{"take", `{"key_base64":"YWxp\nY2U=","limit":"chat"}`, "wrong_type", "/key_base64"},
		{"take", `{"key_base64":"_wA=","limit":"chat"}`, "wrong_type", "/key_base64"},
		{"take", `{"key_base64":"xyzzy!","limit":"chat"}`, "wrong_type", "/key_base64"},
		{"take", `{"key_base64":["YQ==","b"],"limit":"chat"}`, "wrong_type", "/key_base64/1"},
		{"take", `{"key_base64":"","limit":"chat"}`, "invalid_key", ""},
		{"take", `{"key_base64":[],"limit":"chat"}`, "invalid_key", "/key_base64"},

		// Limits.
		{"take", `{"key":"xyzzy","limit":""}`, "unknown_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"chats"}`, "unknown_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"Chat"}`, "unknown_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":" chat"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":null}`, "wrong_type", "/limit"},
		{"take", `{"key":"xyzzy","limit":{"burst":1}}`, "wrong_type", "/limit"},
		{"take", `{"key":"xyzzy","limit":"chat","name":"chat"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"chat","name":""}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"fixed 1/1m","name":"Chat"}`, "invalid_limit", ""},
		{"take", `{"key":"xyzzy","limit":"fixed 1/1m","name":"a b"}`, "invalid_limit", ""},
		{"take", `{"key":"xyzzy","limit":"fixed 1/1m","name":"` + strings.Repeat("x", 65) + `"}`, "invalid_limit", ""},
		{"take", `{"key":"xyzzy","limit":"fixed 1/1m","name":null}`, "wrong_type", "/name"},
		{"take", `{"key":"xyzzy","limit":"bucket 10/1m burst"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"bucket 0/1m burst 1"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"bucket 1/1m burst -1"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"bucket 1.5/1m burst 1"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"bucket 1/0s burst 1"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"sliding 1/60"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"sliding -1/1m"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"fixed 1/1us"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"fixed 1/-1m"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"budget 5/day Local"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"budget 5/fortnight"}`, "invalid_limit", "/limit"},
		{"take", `{"key":"xyzzy","limit":"budget 9007199254740992/day"}`, "invalid_limit", "/limit"},

		// Each verb's own.
		{"peek", `{"key":"xyzzy","limit":"chat","cost":1.5}`, "invalid_number", "/cost"},
		{"refund", `{"key":"xyzzy","limit":"chat"}`, "missing_field", ""},
		{"refund", `{"key":"xyzzy","limit":"chat","at_us":0}`, "invalid_time", "/at_us"},
		{"refund", `{"key":"xyzzy","limit":"chat","at_us":-1}`, "invalid_time", "/at_us"},
		{"refund", `{"key":"xyzzy","limit":"chat","at_us":"2026-01-01T00:00:00Z"}`, "wrong_type", "/at_us"},
		{"refund", `{"key":"xyzzy","limit":"chat","at":1}`, "unknown_field", ""},
		{"reset", `{"key":"xyzzy","limit":"chat","cost":1}`, "unknown_field", ""},
		{"reset", `{"key":"xyzzy"}`, "missing_field", ""},
		{"forget", `{}`, "missing_field", ""},
		{"forget", `{"key":"xyzzy","limit":"chat"}`, "unknown_field", ""},
		{"hit", `{"key":"xyzzy"}`, "missing_field", ""},
		{"hit", `{"key":"xyzzy","window_ms":0}`, "invalid_limit", ""},
		{"hit", `{"key":"xyzzy","window_ms":-60000}`, "invalid_limit", ""},
		{"hit", `{"key":"xyzzy","window_ms":9007199254740991}`, "invalid_limit", ""},
		{"hit", `{"key":"xyzzy","window_ms":-9007199254740991}`, "invalid_limit", ""},
		{"hit", `{"key":"xyzzy","window_ms":"1m"}`, "wrong_type", "/window_ms"},
		{"hit", `{"key":"xyzzy","window_ms":60000,"cost":1}`, "unknown_field", ""},
		{"hit", `{"key":"xyzzy","window_ms":60000,"n":1.0}`, "invalid_number", "/n"},

		// Lists.
		{"take-all", `{}`, "missing_field", ""},
		{"take-all", `{"charges":null}`, "wrong_type", "/charges"},
		{"take-all", `{"charges":{}}`, "wrong_type", "/charges"},
		{"take-all", `{"charges":[]}`, "invalid_limit", ""},
		{"take-all", `{"charges":[null]}`, "wrong_type", "/charges/0"},
		{"take-all", `{"key":"xyzzy","limit":"chat"}`, "unknown_field", ""},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"},{"key":"xyzzy","limit":"chat","cost":-1}]}`, "invalid_cost", ""},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"},{"key":"xyzzy","limit":"chats"}]}`, "unknown_limit", "/charges/1/limit"},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"},{"key":"xyzzy","limit":"fixed 1"}]}`, "invalid_limit", "/charges/1/limit"},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"},{"limit":"day"}]}`, "missing_field", "/charges/1"},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"},{"key":"xyzzy"}]}`, "missing_field", "/charges/1"},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"},{"key":"xyzzy","limit":"day","cost":1e3}]}`, "invalid_number", "/charges/1/cost"},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"},{"key":"xyzzy","limit":"bucket 1/1m burst 3","name":"chat"}]}`, "invalid_limit", ""},
		{"take-all", `{"charges":[` + strings.TrimSuffix(strings.Repeat(`{"key":"xyzzy","limit":"chat"},`, 65), ",") + `]}`, "invalid_limit", ""},

		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat","id":"1"}]}`, "unknown_field", "/charges/0"},

		// Ids and reservations.
		{"take", `{"key":"xyzzy","limit":"chat","id":""}`, "invalid_id", "/id"},
		{"take", `{"key":"xyzzy","limit":"chat","id":null}`, "wrong_type", "/id"},
		{"take", `{"key":"xyzzy","limit":"chat","id":1}`, "wrong_type", "/id"},
		{"take", `{"key":"xyzzy","limit":"chat","id":"\ud800"}`, "invalid_unicode", "/id"},
		{"take", `{"key":"xyzzy","limit":"chat","id":"` + strings.Repeat("x", 129) + `"}`, "invalid_id", "/id"},
		{"take", `{"key":"xyzzy","limit":"chat","id":"x","ttl_ms":60000}`, "unknown_field", ""},
		{"take", `{"key":"xyzzy","limit":"concurrent 5 lease 30s"}`, "invalid_limit", ""},
		{"take", `{"key":"xyzzy","limit":"concurrent 5 lease 30s","id":"x"}`, "invalid_limit", ""},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"concurrent 5 lease 30s"}]}`, "invalid_limit", ""},
		{"take-all", `{"charges":[{"key":"xyzzy","limit":"chat"}],"id":""}`, "invalid_id", "/id"},
		{"take-all", `{"charges":[],"id":"x"}`, "invalid_limit", ""},
		{"peek", `{"key":"xyzzy","limit":"chat","id":"x"}`, "unknown_field", ""},
		{"refund", `{"key":"xyzzy","limit":"chat","at_us":1,"id":"x"}`, "unknown_field", ""},
		{"reserve", `{}`, "missing_field", ""},
		{"reserve", `{"charges":[]}`, "invalid_limit", ""},
		{"reserve", `{"key":"xyzzy","limit":"chat"}`, "unknown_field", ""},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"},{"key":"xyzzy","limit":"chats"}]}`, "unknown_limit", "/charges/1/limit"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat","cost":-1}]}`, "invalid_cost", ""},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat","cost":1.5}]}`, "invalid_number", "/charges/0/cost"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"concurrent 4097 lease 30s"}]}`, "invalid_limit", "/charges/0/limit"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"id":""}`, "invalid_id", "/id"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"id":"` + strings.Repeat("é", 65) + `"}`, "invalid_id", "/id"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"ttl_ms":0}`, "invalid_time", "/ttl_ms"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"ttl_ms":999}`, "invalid_time", "/ttl_ms"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"ttl_ms":-60000}`, "invalid_time", "/ttl_ms"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"ttl_ms":2678400001}`, "invalid_time", "/ttl_ms"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"ttl_ms":9007199254740991}`, "invalid_time", "/ttl_ms"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"ttl_ms":"10m"}`, "wrong_type", "/ttl_ms"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"ttl_ms":null}`, "wrong_type", "/ttl_ms"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"refund_on_expiry":1}`, "wrong_type", "/refund_on_expiry"},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"wait":true}`, "unknown_field", ""},
		{"reserve", `{"charges":[{"key":"xyzzy","limit":"chat"}],"id":"x","id":"x"}`, "duplicate_field", ""},
		{"reservations/xyzzy/settle", ``, "invalid_json", ""},
		{"reservations/xyzzy/settle", `[]`, "wrong_type", ""},
		{"reservations/xyzzy/settle", `{"amount":1}`, "unknown_field", ""},
		{"reservations/xyzzy/settle", `{"amounts":1}`, "wrong_type", "/amounts"},
		{"reservations/xyzzy/settle", `{"amounts":null}`, "wrong_type", "/amounts"},
		{"reservations/xyzzy/settle", `{"amounts":[]}`, "invalid_amounts", "/amounts"},
		{"reservations/xyzzy/settle", `{"amounts":[1.0]}`, "invalid_number", "/amounts/0"},
		{"reservations/xyzzy/settle", `{"amounts":[1,-1]}`, "invalid_cost", "/amounts/1"},
		{"reservations/xyzzy/settle", `{"amounts":[9007199254740992]}`, "invalid_number", "/amounts/0"},
		{"reservations/xyzzy/settle", `{"amounts":[` + strings.Repeat("1,", 64) + `1]}`, "invalid_amounts", "/amounts"},
		{"reservations/xyzzy/cancel", ``, "invalid_json", ""},
		{"reservations/xyzzy/cancel", `{"amounts":[1]}`, "unknown_field", ""},
		{"reservations/xyzzy/renew", `{}`, "missing_field", ""},
		{"reservations/xyzzy/renew", `{"ttl_ms":0}`, "invalid_time", "/ttl_ms"},
		{"reservations/xyzzy/renew", `{"ttl_ms":1e4}`, "invalid_number", "/ttl_ms"},
		{"reservations/xyzzy/renew", `{"ttl_ms":2678400001}`, "invalid_time", "/ttl_ms"},
		{"reservations/xyzzy/progress", `{}`, "missing_field", ""},
		{"reservations/xyzzy/progress", `{"amounts":[]}`, "invalid_amounts", "/amounts"},
		{"reservations/xyzzy/progress", `{"amounts":[-1]}`, "invalid_cost", "/amounts/0"},
		{"reservations/xyzzy/progress", `{"amounts":["1"]}`, "wrong_type", "/amounts/0"},

		// What package client asks.
		{"holds", `{"after":1}`, "wrong_type", "/after"},
		{"holds", `{"after":"?"}`, "wrong_type", "/after"},
		{"holds", `{"max":-1}`, "invalid_number", "/max"},
		{"holds", `{"max":1001}`, "invalid_number", "/max"},
		{"holds", `{"namespace":""}`, "unknown_field", ""},
		{"sweep", `{}`, "missing_field", ""},
		{"sweep", `{"max":0}`, "invalid_number", "/max"},
		{"sweep", `{"max":100001}`, "invalid_number", "/max"},
		{"sweep", `{"max":1,"now_us":-1}`, "invalid_time", "/now_us"},
		{"sweep", `{"max":1,"now_us":9007199254740991}`, "invalid_time", "/now_us"},

		// Batches.
		{"apply", `{}`, "missing_field", ""},
		{"apply", `{"txns":[]}`, "wrong_type", "/txns"},
		{"apply", `{"txns":[{}]}`, "missing_field", "/txns/0"},
		{"apply", `{"txns":[{"verb":"steal","ops":[]}]}`, "wrong_type", "/txns/0/verb"},
		{"apply", `{"txns":[{"verb":1,"ops":[]}]}`, "wrong_type", "/txns/0/verb"},
		{"apply", `{"txns":[{"verb":"take","ops":[{"space":"s","id":"x","kind":"bucket"}]}]}`, "wrong_type", "/txns/0/ops/0/id"},
		{"apply", `{"txns":[{"verb":"take","ops":[{"space":"s","id":"eA==","kind":"lake"}]}]}`, "wrong_type", "/txns/0/ops/0/kind"},
		{"apply", `{"txns":[{"verb":"take","ops":[{"space":"s","id":"eA==","kind":"budget","bounds_us":[1,2,3]}]}]}`, "wrong_type", "/txns/0/ops/0/bounds_us"},
		{"apply", `{"txns":[{"verb":"take","ops":[{"space":"s","id":"eA==","gain":1}]}]}`, "unknown_field", "/txns/0/ops/0"},
		{"apply", `{"txns":[` + strings.TrimSuffix(strings.Repeat(`{"verb":"take"},`, 1025), ",") + `]}`, "wrong_type", "/txns"},
	}
	return list
}

// TestBadInputChargesNothing also looks for keys in the answers.
func TestBadInputChargesNothing(t *testing.T) {
	t.Parallel()
	e := holding(t)
	e.ok(t, "take", `{"key":"xyzzy","limit":"chat"}`)
	before := e.store.calls.Load()
	for _, c := range badInputs() {
		status, answer := e.post(t, c.verb, c.body)
		place, _ := answer["pointer"].(string)
		if status != http.StatusBadRequest || answer["code"] != c.code || place != c.pointer {
			t.Errorf("%s %.200s:\n%d %v\nwant %s %q", c.verb, c.body, status, answer, c.code, c.pointer)
		}
		if answer["charged"] != "no" || answer["detail"] == "" || answer["status"] != 400.0 || answer["title"] != "Bad Request" {
			t.Errorf("%s %.200s: %v", c.verb, c.body, answer)
		}
		if text := fmt.Sprint(answer); strings.Contains(text, "xyz") {
			t.Errorf("%s %.200s: the answer shows the key: %s", c.verb, c.body, text)
		}
		if calls := e.store.calls.Load(); calls != before {
			t.Fatalf("%s %.200s: the store was asked", c.verb, c.body)
		}
	}
	if d := e.ok(t, "peek", `{"key":"xyzzy","limit":"chat","cost":0}`); d["used"] != 1.0 {
		t.Errorf("used is %v, not 1", d["used"])
	}
}
