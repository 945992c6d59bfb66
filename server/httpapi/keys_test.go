package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ration-go/ration"
)

// TestKeys has keys that are all different: each is counted alone, whichever way it is written.
func TestKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	base := func(s string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"` }
	for i, ways := range [][]string{
		{`"key":"alice"`, `"key":["alice"]`, `"key":"\u0061lice"`, `"key_base64":` + base("alice"), `"key_base64":[` + base("alice") + `]`, `"key":"alice","group":""`},
		{`"key":"alice","group":"acme"`, `"group":"acme","key":["alice"]`},
		{`"key":"Alice"`},
		{`"key":"alice "`},
		{`"key":"alice\u0000"`, `"key_base64":` + base("alice\x00")},
		{`"key":"\u0000"`},
		{`"key":null`},
		{`"key":null,"group":"acme"`},
		{`"key":":"`, `"key_base64":` + base(":")},
		{`"key":"null"`},
		{`"key":["award","123","456"]`, `"key_base64":[` + base("award") + `,` + base("123") + `,` + base("456") + `]`},
		{`"key":["award","123456"]`},
		{`"key":["award123","456"]`},
		{`"key":"award123456"`},
		{`"key":":award:123:456"`},
		{`"key":["award","123"]`},
		{`"key":["award"]`, `"key":"award"`},
		{`"key":["a:b","c"]`},
		{`"key":["a","b:c"]`},
		{`"key":["a%3Ab","c"]`},
		{`"key":"{\"a\":1}"`},
		{`"key":"{x}"`},
		{`"key":"line\nend"`},
		{`"key":"naïve"`, `"key":"na\u00efve"`, `"key":"na\u00EFve"`},
		{`"key":"nai\u0308ve"`},
		{`"key":"😀"`, `"key":"\ud83d\ude00"`, `"key_base64":` + base("😀")},
		{`"key":"\ufffd"`, `"key_base64":` + base("\xef\xbf\xbd")},
		{`"key_base64":` + base("\xff")},
		{`"key_base64":` + base("\xfe")},
		{`"key_base64":` + base("\xed\xa0\x80")},
		{`"key":"1"`},
		{`"key":"1.0"`},
		{`"key":"` + strings.Repeat("x", 1024) + `"`},
		{`"key":"` + strings.Repeat("x", 1023) + `"`},
		{`"key":["` + strings.Repeat("%", 1000) + `","` + strings.Repeat(":", 24) + `"]`},
	} {
		for j, way := range ways {
			answer := e.ok(t, "hit", `{`+way+`,"window_ms":60000}`)
			if answer["count"] != float64(j+1) {
				t.Errorf("key %d, written %.100s: count %v, not %d", i, way, answer["count"], j+1)
			}
		}
	}
}

// TestSameKeyAsInGo: a program in Go and one that speaks HTTP count together.
func TestSameKeyAsInGo(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	l := ration.New(e.store, nil)
	for body, key := range map[string]ration.Key{
		`"key":"a"`:                   ration.KeyOf("a"),
		`"key":["a","b"]`:             ration.KeyOf("a", "b"),
		`"key":["a","b"],"group":"g"`: ration.KeyOf("a", "b").In("g"),
		`"key":null`:                  ration.Global,
		`"key":":"`:                   ration.KeyOf(":"),
		`"key_base64":"/w=="`:         ration.KeyOf("\xff"),
	} {
		for limit, in := range map[string]ration.Limit{
			`"limit":"chat"`: configured[0],
			`"limit":"day"`:  configured[1],
			`"limit":"bucket 10/1m burst 20","name":"other"`: ration.Rule{Name: "other", Limit: configured[0].Limit},
			`"limit":"sliding 24h"`:                          ration.SlidingWindow{Limit: 1, Window: 24 * 3600e9},
		} {
			d := e.ok(t, "take", `{`+body+`,`+limit+`}`)
			got, err := l.Peek(t.Context(), key, in, 1)
			if err != nil || got.Used != 1 || d["used"] != 1.0 || d["name"] != got.Name || d["limit"] != float64(got.Limit) {
				t.Errorf("%s %s: %v; in Go %+v, %v", body, limit, d, got, err)
			}
		}
	}
}

// TestLimits has what limits are and are not the same count, and the defaults.
func TestLimits(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	for i, c := range []struct {
		fields    string
		used, max float64
		name      string
	}{
		{`"limit":"chat"`, 1, 20, "chat"},
		{`"limit":"chat","cost":2`, 3, 20, "chat"},
		{`"limit":"bucket 10/1m burst 20"`, 1, 20, ""},
		{`"limit":"bucket 10/1m burst 20","name":""`, 2, 20, ""},
		{`"limit":"bucket 5/1h","name":"chat"`, 1, 5, "chat"}, // the level stays, at most the new burst
		{`"limit":"chat"`, 17, 20, "chat"},
		{`"limit":"sliding 24h"`, 1, 1, ""},
		{`"limit":"sliding 3/24h","name":"daily"`, 1, 3, "daily"},
		{`"limit":"daily","cost":2`, 3, 3, "daily"},
		{`"limit":"fixed 9007199254740991/1m","cost":9007199254740990`, 9007199254740990, 9007199254740991, ""},
		{`"limit":"fixed 9007199254740991/1m"`, 9007199254740991, 9007199254740991, ""},
		{`"limit":"budget 5/day"`, 1, 5, ""},
		{`"limit":"budget 5/day Europe/Berlin"`, 1, 5, ""},
		{`"limit":"budget 5/month"`, 1, 5, ""},
		{`"limit":"day"`, 1, 100, "day"},
	} {
		d := e.ok(t, "take", `{"key":"x",`+c.fields+`}`)
		if d["allowed"] != true || d["used"] != c.used || d["limit"] != c.max || d["remaining"] != c.max-c.used || d["name"] != c.name {
			t.Errorf("%d: %s: %v", i, c.fields, d)
		}
	}
	d := e.ok(t, "take", `{"key":"x","limit":"fixed 9007199254740991/1m"}`)
	if d["allowed"] != false || d["retry_after_ms"] == 0.0 || d["never"] != false {
		t.Errorf("full: %v", d)
	}
	d = e.ok(t, "take", `{"key":"y","limit":"chat","cost":21}`)
	if d["allowed"] != false || d["never"] != true || d["used"] != 0.0 || d["retry_after_ms"] != 120000.0 {
		t.Errorf("more than ever: %v", d)
	}
}

// TestVerbs goes through all verbs once.
func TestVerbs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	const x = `"key":"x","limit":"day"`
	taken := e.ok(t, "take", `{`+x+`,"cost":5}`)
	if d := e.ok(t, "peek", `{`+x+`,"cost":96}`); d["allowed"] != false || d["used"] != 5.0 || d["remaining"] != 95.0 {
		t.Errorf("peek: %v", d)
	}
	if d := e.ok(t, "peek", `{`+x+`,"cost":95}`); d["allowed"] != true || d["used"] != 5.0 {
		t.Errorf("peek: %v", d)
	}
	at, err := json.Marshal(int64(taken["at_us"].(float64)))
	if err != nil {
		t.Fatal(err)
	}
	if a := e.ok(t, "refund", `{`+x+`,"cost":2,"at_us":`+string(at)+`}`); a["given"] != 2.0 {
		t.Errorf("refund: %v", a)
	}
	if a := e.ok(t, "refund", `{`+x+`,"at_us":`+string(at)+`}`); a["given"] != 1.0 {
		t.Errorf("refund of the default: %v", a)
	}
	if a := e.ok(t, "refund", `{`+x+`,"at_us":1}`); a["given"] != 0.0 {
		t.Errorf("refund into another time: %v", a)
	}
	if d := e.ok(t, "peek", `{`+x+`}`); d["used"] != 2.0 {
		t.Errorf("after refunds: %v", d)
	}
	if a := e.ok(t, "reset", `{`+x+`}`); a["done"] != true {
		t.Errorf("reset: %v", a)
	}
	if d := e.ok(t, "peek", `{`+x+`}`); d["used"] != 0.0 {
		t.Errorf("after reset: %v", d)
	}
	o := e.ok(t, "take-all", `{"charges":[{`+x+`},{`+x+`,"cost":2},{"key":null,"limit":"fixed 1/1m"},{"key":"x","limit":"sliding 4/1m","name":"s","cost":2}]}`)
	each := o["each"].([]any)
	if o["allowed"] != true || len(each) != 4 || o["index"] != 2.0 || o["limit"] != 1.0 || each[0].(object)["used"] != 3.0 || each[3].(object)["name"] != "s" {
		t.Errorf("take-all: %v", o)
	}
	o = e.ok(t, "take-all", `{"charges":[{`+x+`},{"key":null,"limit":"fixed 1/1m"}]}`)
	each = o["each"].([]any)
	if o["allowed"] != false || o["index"] != 1.0 || each[0].(object)["allowed"] != true || each[1].(object)["allowed"] != false || each[0].(object)["used"] != 3.0 {
		t.Errorf("refused take-all: %v", o)
	}
	for i, want := range []float64{1, 5, 5, 3} {
		n := []string{``, `,"n":4`, `,"n":0`, `,"n":-2`}[i]
		if a := e.ok(t, "hit", `{"key":"x","window_ms":60000`+n+`}`); a["count"] != want || a["left_ms"].(float64) <= 0 || a["left_ms"].(float64) > 60000 {
			t.Errorf("hit%s: %v", n, a)
		}
	}
	if a := e.ok(t, "forget", `{"key":"x"}`); a["done"] != true {
		t.Errorf("forget: %v", a)
	}
	for _, limit := range []string{"day", "fixed 9/1m", "sliding 4/1m"} {
		if d := e.ok(t, "peek", fmt.Sprintf(`{"key":"x","limit":%q}`, limit)); d["used"] != 0.0 {
			t.Errorf("%s after forget: %v", limit, d)
		}
	}
}
