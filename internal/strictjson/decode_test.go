package strictjson_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ration-go/ration/internal/strictjson"
)

type inner struct {
	Text string  `json:"text" strict:"required"`
	List []int64 `json:"list"`
}

type shared struct {
	On bool `json:"on"`
}

type outer struct {
	shared
	Name    string   `json:"name"`
	Count   *int64   `json:"count"`
	Inner   inner    `json:"inner"`
	Pair    [2]int64 `json:"pair"`
	Many    []inner  `json:"many"`
	Ignored int
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var v outer
	input := " {\"name\" : \"a\\u00e9\\ud83d\\ude00\\n\\/\u00ff\",\"co\\u0075nt\":-9007199254740991,\"on\":true,\r\n\t" +
		`"inner":{"text":"","list":[]},"pair":[1,9007199254740991],"many":[{"text":"x"},{"list":[0,1,2],"text":"y"}]} `
	if err := strictjson.Decode([]byte(input), &v); err != nil {
		t.Fatal(err)
	}
	if v.Name != "aé😀\n/ÿ" || *v.Count != -9007199254740991 || !v.On || v.Pair != [2]int64{1, 9007199254740991} ||
		v.Inner.List == nil || len(v.Many) != 2 || v.Many[0].List != nil || v.Many[1].List[2] != 2 || v.Many[1].Text != "y" {
		t.Errorf("%+v", v)
	}
}

// TestErrors has, for each input, the code, the pointer and the offset of its error.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		input, code, pointer string
		offset               int
	}{
		{"", "invalid_json", "", 0},
		{" \n", "invalid_json", "", 2},
		{"{", "invalid_json", "", 1},
		{"}", "invalid_json", "", 0},
		{"\ufeff{}", "invalid_json", "", 0},
		{"null", "wrong_type", "", 0},
		{"[]", "wrong_type", "", 0},
		{"7", "wrong_type", "", 0},
		{"{}{}", "invalid_json", "", 2},
		{"{} x", "invalid_json", "", 3},
		{"{},", "invalid_json", "", 2},
		{`{"name":"x",}`, "invalid_json", "", 12},
		{`{,"name":"x"}`, "invalid_json", "", 1},
		{`{"name":"x" "on":true}`, "invalid_json", "", 12},
		{`{"name" "x"}`, "invalid_json", "", 8},
		{`{name:"x"}`, "invalid_json", "", 1},
		{`{'name':"x"}`, "invalid_json", "", 1},
		{`{"name":"x}`, "invalid_json", "/name", 11},
		{`{"name":'x'}`, "invalid_json", "/name", 8},
		{`{"name":}`, "invalid_json", "/name", 8},
		{"{\"name\":\"a\nb\"}", "invalid_json", "/name", 10},
		{"{\"name\":\"a\\\\\x00b\"}", "invalid_json", "/name", 12},
		{`{"name":"\x"}`, "invalid_json", "/name", 9},
		{`{"name":"\u12g4"}`, "invalid_json", "/name", 9},
		{`{"name":"\u123`, "invalid_json", "/name", 9},
		{`{"name":"\`, "invalid_json", "/name", 10},
		{`{"name":"\"`, "invalid_json", "/name", 11},
		{`{"name":"\ud800"}`, "invalid_unicode", "/name", 9},
		{`{"name":"\udc00"}`, "invalid_unicode", "/name", 9},
		{`{"name":"\ud800\ud800"}`, "invalid_unicode", "/name", 9},
		{`{"name":"\ud800x"}`, "invalid_unicode", "/name", 9},
		{"{\"name\":\"\xff\"}", "invalid_unicode", "", 9},
		{"{\"name\":\"\xed\xa0\x80\"}", "invalid_unicode", "", 9},
		{"{\"name\":\"\xc0\x80\"}", "invalid_unicode", "", 9},
		{`{"na\ud800me":"x"}`, "invalid_unicode", "", 4},
		{`{"name":1}`, "wrong_type", "/name", 8},
		{`{"name":null}`, "wrong_type", "/name", 8},
		{`{"name":["x"]}`, "wrong_type", "/name", 8},
		{`{"name":true}`, "wrong_type", "/name", 8},
		{`{"on":1}`, "wrong_type", "/on", 6},
		{`{"on":"true"}`, "wrong_type", "/on", 6},
		{`{"on":tru}`, "invalid_json", "/on", 6},
		{`{"on":truely}`, "invalid_json", "", 10},
		{`{"count":"1"}`, "wrong_type", "/count", 9},
		{`{"count":null}`, "wrong_type", "/count", 9},
		{`{"count":nul}`, "wrong_type", "/count", 9},
		{`{"count":1.0}`, "invalid_number", "/count", 9},
		{`{"count":1.5}`, "invalid_number", "/count", 9},
		{`{"count":1e3}`, "invalid_number", "/count", 9},
		{`{"count":1E3}`, "invalid_number", "/count", 9},
		{`{"count":-0}`, "invalid_number", "/count", 9},
		{`{"count":00}`, "invalid_json", "/count", 9},
		{`{"count":01}`, "invalid_json", "/count", 9},
		{`{"count":-01}`, "invalid_json", "/count", 9},
		{`{"count":-}`, "invalid_json", "/count", 10},
		{`{"count":--1}`, "invalid_json", "/count", 10},
		{`{"count":+1}`, "invalid_json", "/count", 9},
		{`{"count":.5}`, "invalid_json", "/count", 9},
		{`{"count":NaN}`, "invalid_json", "/count", 9},
		{`{"count":Infinity}`, "invalid_json", "/count", 9},
		{`{"count":-Infinity}`, "invalid_json", "/count", 10},
		{`{"count":0x10}`, "invalid_json", "", 10},
		{`{"count":1_000}`, "invalid_json", "", 10},
		{`{"count":9007199254740992}`, "invalid_number", "/count", 9},
		{`{"count":-9007199254740992}`, "invalid_number", "/count", 9},
		{`{"count":18446744073709551617}`, "invalid_number", "/count", 9},
		{`{"count":` + strings.Repeat("9", 1000) + `}`, "invalid_number", "/count", 9},
		{`{"Name":"x"}`, "unknown_field", "", 1},
		{`{"ignored":1}`, "unknown_field", "", 1},
		{`{"Ignored":1}`, "unknown_field", "", 1},
		{`{"shared":{}}`, "unknown_field", "", 1},
		{`{"":1}`, "unknown_field", "", 1},
		{`{"name":"x","name":"x"}`, "duplicate_field", "", 12},
		{`{"name":"x","n\u0061me":"x"}`, "duplicate_field", "", 12},
		{`{"on":true,"name":"x","on":true}`, "duplicate_field", "", 22},
		{`{"inner":{}}`, "missing_field", "/inner", 9},
		{`{"inner":{"list":[1,"2"]}}`, "wrong_type", "/inner/list/1", 20},
		{`{"inner":{"list":[1,]}}`, "invalid_json", "/inner/list/1", 20},
		{`{"inner":{"list":[1}`, "invalid_json", "/inner/list/0", 19},
		{`{"many":[{"text":"x"},{"text":"y","more":1}]}`, "unknown_field", "/many/1", 34},
		{`{"pair":[1]}`, "wrong_type", "/pair", 8},
		{`{"pair":[1,2,3]}`, "wrong_type", "/pair/2", 13},
	} {
		err := strictjson.Decode([]byte(c.input), new(outer))
		var e *strictjson.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v, want %s", c.input, err, c.code)
			continue
		}
		if string(e.Code) != c.code || e.Pointer != c.pointer || e.Offset != c.offset {
			t.Errorf("%q: %s %q %d (%s)\nwant %s %q %d", c.input, e.Code, e.Pointer, e.Offset, e.Detail, c.code, c.pointer, c.offset)
		}
	}
}

// TestErrorsShowNoValues: a key may stand anywhere, by mistake.
func TestErrorsShowNoValues(t *testing.T) {
	t.Parallel()
	for _, input := range []string{
		`{"name":secret}`, `{"count":"secret"}`, `{"on":["secret"]}`, `{"name":"secret\ud800"}`, `{"name":"secret`,
		`{"inner":{"text":"secret"},"inner":1}`, `{"name":"secret"}secret`, `"secret"`, `secret`, "{\"name\":\"secret\xff\"}",
	} {
		if err := strictjson.Decode([]byte(input), new(outer)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", input, err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	input := []byte(`{"name":"bucket 10/1m burst 20","count":1,"on":false,"inner":{"text":"alice"}}`)
	b.ReportAllocs()
	for b.Loop() {
		var v outer
		if err := strictjson.Decode(input, &v); err != nil {
			b.Fatal(err)
		}
	}
}
