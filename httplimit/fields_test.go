package httplimit

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
)

func TestParseList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []string // each member's text; nil: malformed
	}{
		{"", []string{}},
		{"  ", []string{}},
		{`"a";r=1;t=2`, []string{`"a";r=1;t=2`}},
		{`"a";r=1 , "b";r=2`, []string{`"a";r=1`, `"b";r=2`}},
		{"\"a\"\t,\t\"b\"", []string{`"a"`, `"b"`}},
		{`"a"; r=1;  t=2`, []string{`"a"; r=1;  t=2`}},
		{`a;r=1, *b:c/d`, []string{"a;r=1", "*b:c/d"}},
		{`"a\"b\\c,;d";x`, []string{`"a\"b\\c,;d";x`}},
		{`1, -2, 3.5, ?1, :aGk=:, @1659578233, %"f%c3%bc"`, []string{"1", "-2", "3.5", "?1", ":aGk=:", "@1659578233", `%"f%c3%bc"`}},
		{`"a";*k.x-y_z="v"`, []string{`"a";*k.x-y_z="v"`}},
		{`999999999999999`, []string{"999999999999999"}},
		{`1000000000000000`, nil},
		{`123456789012.123`, []string{"123456789012.123"}},
		{`1234567890123.1`, nil},
		{`1.`, nil},
		{`1.2345`, nil},
		{`-`, nil},
		{`--1`, nil},
		{`"a",`, nil},
		{`,"a"`, nil},
		{`"a",,"b"`, nil},
		{`"a" "b"`, nil},
		{`"a";`, nil},
		{`"a";;r=1`, nil},
		{`"a" ;r=1`, nil},
		{`"a";r =1`, nil},
		{`"a";r= 1`, nil},
		{`"a";R=1`, nil},
		{`"a";1=1`, nil},
		{`"a`, nil},
		{`"a\x"`, nil},
		{`"a\`, nil},
		{"\"a\x00\"", nil},
		{`"ä"`, nil},
		{`(1 2)`, nil}, // inner lists have no place in these fields
		{`?2`, nil},
		{`:a`, nil},
		{`@1.5`, nil},
		{`%"%C3"`, nil},
		{`%"%c"`, nil},
		{`%x`, nil},
		{`%"x`, nil},
		{"\x00", nil},
		{"a\x00", nil},
	} {
		items, ok := parseList(c.text)
		if ok != (c.want != nil) {
			t.Errorf("%q: %v, ok %v", c.text, items, ok)
			continue
		}
		got := []string{}
		for _, it := range items {
			got = append(got, it.text)
		}
		if ok && !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestParseMembers(t *testing.T) {
	t.Parallel()
	items, ok := parseList(`"a\"b";r=5;x="y";r=7;flag, tok;r=-1;a=2.5`)
	if !ok || len(items) != 2 {
		t.Fatal(items, ok)
	}
	if n, ok := items[0].count("a", "r"); !ok || n != 7 {
		t.Error(n, ok) // the last one of a name counts
	}
	if v, ok := items[0].param("flag"); !ok || v.kind != aBoolean || items[0].value != (value{kind: aString, text: `a"b`}) {
		t.Error(v, items[0].value)
	}
	if _, ok := items[1].count("r", "a"); ok || items[1].value != (value{kind: aToken, text: "tok"}) {
		t.Error(items[1])
	}
	items, ok = parseDictionary(`limit=100, remaining=50;x, flag, reset="5"`)
	if !ok || len(items) != 4 || items[0].key != "limit" || items[0].value.n != 100 || items[2].value.kind != aBoolean || items[3].value.text != "5" {
		t.Error(items, ok)
	}
	for _, text := range []string{`A=1`, `a=`, `a==1`, `a=1;`, `"a"=1`} {
		if items, ok := parseDictionary(text); ok {
			t.Errorf("%q: %v", text, items)
		}
	}
}

// Members that were read are read again to the same, alone and put together.
func FuzzParseList(f *testing.F) {
	for _, s := range []string{"", `"a";r=1;t=2, "b";r=0`, `burst;a=50;w=30;c=1`, `"x";pk=:dHJpYWw=:`, `"a\"\\";q=1.5, ?0, @1, %"%c3%bc", -7`, `limit=1, remaining=0, reset=9`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, parse := range []func(string) ([]item, bool){parseList, parseDictionary} {
			items, ok := parse(s)
			if !ok {
				continue
			}
			var texts []string
			for _, it := range items {
				texts = append(texts, it.text)
				alone, ok := parse(it.text)
				if !ok || len(alone) != 1 || alone[0].value != it.value || alone[0].key != it.key || !slices.Equal(alone[0].params, it.params) {
					t.Fatalf("%q: %+v is read as %+v", s, it, alone)
				}
				if it.value.kind == anInteger && (it.value.n > maxInteger || it.value.n < -maxInteger) {
					t.Fatalf("%q: %d", s, it.value.n)
				}
			}
			together, ok := parse(strings.Join(texts, ", "))
			if !ok || len(together) != len(items) {
				t.Fatalf("%q: %q are %d together", s, texts, len(together))
			}
		}
	})
}

// Whatever a handler inside has put into the fields, ours come out well formed, once, and with all our limits.
func FuzzSet(f *testing.F) {
	f.Add(`"theirs";r=1;t=2`, `"theirs";q=5;w=10`, int64(3), int64(5), uint8(0))
	f.Add(`"a";r=9`, `nonsense;;`, int64(0), int64(0), uint8(1))
	f.Add(`tok;a=1, "a\"b";r=0;w=1`, `tok;q=0`, int64(1)<<53-1, int64(1)<<53-1, uint8(1))
	f.Add("7", "8", int64(1), int64(9), uint8(3))
	f.Fuzz(func(t *testing.T, limits, policies string, left, quota int64, dialect uint8) {
		h := Headers(dialect % uint8(None))
		left, quota = max(0, left)%(ration.MaxCount+1), max(0, quota)%(ration.MaxCount+1)
		header := http.Header{fieldLimits: {limits}, fieldPolicy: {policies}, "X-Ratelimit-Limit": {limits}, "X-Ratelimit-Remaining": {policies}, "X-Ratelimit-Reset": {"1"}}
		rule := ration.Rule{Name: "ours", Limit: ration.SlidingWindow{Limit: quota, Window: time.Minute}}
		us := []use{{policy: &policy{}, limit: rule, shown: show(rule), cost: 1}}
		es := h.entries(us, []ration.Decision{{Allowed: true, Name: "ours", Limit: quota, Remaining: min(left, quota), ResetAfter: time.Second, At: time.Unix(1, 0)}})
		h.set(header, es)
		h.set(header, es)
		for _, field := range h.fields() {
			if len(header[field]) != 1 {
				t.Fatalf("%s: %q", field, header[field])
			}
			if h != Draft11 && h != Draft12 {
				continue
			}
			items, ok := parseList(header[field][0])
			ours := 0
			for _, it := range items {
				if it.value == (value{kind: aString, text: "ours"}) {
					ours++
				}
			}
			if !ok || ours != 1 {
				t.Fatalf("%s: %q", field, header[field])
			}
		}
	})
}
