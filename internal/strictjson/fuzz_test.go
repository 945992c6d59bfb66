package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/ration-go/ration/internal/strictjson"
)

// FuzzDecode holds Decode to encoding/json: what Decode reads, that reads too, to the same value; and an error has a code
// and an offset within the input.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"name":"x","count":1,"on":true,"inner":{"text":"","list":[1,2]},"pair":[1,2],"many":[{"text":"x"}]}`,
		`{"name":"\ud83d\ude00\u0000"}`, `{"count":-1.5e+7}`, `{"name":"x","name":"y"}`, "{\"name\":\"\xff\"}", `{"NAME":"x"}`, `{} {}`,
		`{"count":9007199254740993}`, `{"inner":null}`, "\ufeff{}", `{"na\u006de":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		before := bytes.Clone(input)
		var got, want outer
		err := strictjson.Decode(input, &got)
		if !bytes.Equal(before, input) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			var e *strictjson.Error
			if !errors.As(err, &e) || e.Code == "" || e.Detail == "" || e.Offset < 0 || e.Offset > len(input) || !utf8.ValidString(e.Detail) {
				t.Fatalf("%#v", err)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(input))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("encoding/json refuses what Decode reads: %v", err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\nencoding/json: %+v", got, want)
		}
		if got.Count != nil && (*got.Count > 1<<53-1 || *got.Count < -(1<<53-1)) || got.Pair[0] == math.MinInt64 {
			t.Fatalf("%d is out of range", *got.Count)
		}
		again, err := json.Marshal(plain(got))
		if err != nil {
			t.Fatal(err)
		}
		var second outer
		if err := strictjson.Decode(again, &second); err != nil {
			t.Fatalf("what encoding/json writes is not read: %v in %s", err, again)
		}
	})
}

// plain is v without what a stranger's JSON would not have.
func plain(v outer) map[string]any {
	m := map[string]any{"name": v.Name, "on": v.On, "pair": v.Pair, "inner": map[string]any{"text": v.Inner.Text}}
	if v.Count != nil {
		m["count"] = *v.Count
	}
	return m
}
