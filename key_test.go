package ration_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ration-go/ration"
)

// parts cuts data into up to five parts.
func parts(data []byte) (list []string) {
	for len(data) > 2 && len(list) < 5 {
		n := min(int(binary.LittleEndian.Uint16(data))%40, len(data)-2)
		list = append(list, string(data[2:2+n]))
		data = data[2+n:]
	}
	return list
}

func FuzzKeyOf(f *testing.F) {
	f.Add([]byte("\x01\x00a\x01\x00b"), []byte("\x03\x00a:b"))
	f.Add([]byte("\x03\x00:a%"), []byte("\x01\x00:\x02\x00a%"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := parts(a), parts(b)
		if len(x) == 0 || len(y) == 0 || slices.Contains(x, "") || slices.Contains(y, "") {
			return
		}
		kx, ky := ration.KeyOf(x[0], x[1:]...), ration.KeyOf(y[0], y[1:]...)
		if (kx == ky) != slices.Equal(x, y) || kx == ration.Global {
			t.Fatalf("%q and %q: same key %v", x, y, kx == ky)
		}
		if group, back := kx.In("g:%").Parts(); group != "g:%" || !slices.Equal(back, x) {
			t.Fatalf("%q comes back as %q of %q", x, back, group)
		}
	})
}

func TestPartsOfKeys(t *testing.T) {
	t.Parallel()
	for _, want := range [][]string{{"a"}, {":"}, {"%3A"}, {"a:b", "%", "%25:"}, {":a"}, {"a", "a"}, {"\xff\x00"}} {
		key := ration.KeyOf(want[0], want[1:]...)
		if group, got := key.Parts(); group != "" || !slices.Equal(got, want) {
			t.Errorf("%q comes back as %q of %q", want, got, group)
		}
	}
	for _, none := range []ration.Key{ration.Global, ration.Global.In("g"), {}, ration.KeyOf(""), ration.KeyOf("a", "").In("g")} {
		if group, got := none.Parts(); got != nil || group != "" && group != "g" {
			t.Errorf("%q of %q", got, group)
		}
	}
}

func TestKeyIsHidden(t *testing.T) {
	t.Parallel()
	k := ration.KeyOf("needle").In("needle")
	for _, verb := range []string{"%v", "%+v", "%s", "%q", "%#v"} {
		if text := fmt.Sprintf(verb, k); strings.Contains(text, "needle") {
			t.Errorf("%s shows %s", verb, text)
		}
	}
}

func TestLongestKeys(t *testing.T) {
	t.Parallel()
	l, s := newLimiter(t, nil)
	many := make([]string, 1023)
	for i := range many {
		many[i] = ":"
	}
	for _, k := range []ration.Key{
		ration.KeyOf(strings.Repeat(":", 1024)), ration.KeyOf(strings.Repeat("%", 1000), strings.Repeat(":", 24)), ration.KeyOf(":", many...),
		ration.KeyOf("a").In(strings.Repeat("\x00", 1024)),
	} {
		if d, err := l.Take(ctx, k, chat, 1); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
	}
	if len(s.rows) != 5 {
		t.Error(len(s.rows))
	}
}
