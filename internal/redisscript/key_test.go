package redisscript

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ration-go/ration/driver"
)

func TestNames(t *testing.T) {
	t.Parallel()
	n := newNames("ration:", 256)
	parts := []string{"", "a", "b", ":", "::", "a:", ":a", "%", "%3A", "{", "}", "{1}", "}{", "|", " ", "\x00", "\xff", "é", "hold:", "spaces", "due", "a%", "41", "%41"}
	seen := map[string]driver.Key{}
	for _, space := range parts {
		for _, group := range parts {
			for _, id := range parts[1:] {
				k := driver.Key{Space: space, Group: group, ID: id}
				name := string(n.state(nil, &k, n.tag(&k)))
				if other, ok := seen[name]; ok {
					t.Fatalf("%q and %q are both %q", k, other, name)
				}
				seen[name] = k
				if got, ok := n.key(name); !ok || got != k {
					t.Fatalf("%q is read back from %q as %q", k, name, got)
				}
				checkName(t, name, n.tag(&k))
			}
		}
	}
	for _, id := range parts {
		for _, own := range []string{n.hold(id, 7), n.spaces(7), n.due(7)[0], n.due(7)[1], n.own("sweep", 7)} {
			if k, ok := seen[own]; ok {
				t.Fatalf("%q is the name of %q too", own, k)
			}
			checkName(t, own, 7)
		}
	}
	if odd := newNames("a{b}c ", 1); odd.prefix != "a%7Bb%7Dc%20" {
		t.Fatal(odd.prefix)
	}
}

// checkName: all is printable, and the hash tag is ours.
func checkName(t *testing.T, name string, tag int) {
	t.Helper()
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7F }) {
		t.Fatalf("%q is not printable ASCII", name)
	}
	_, rest, _ := strings.Cut(name, "{")
	if got, _, _ := strings.Cut(rest, "}"); got != strconv.Itoa(tag) || strings.Count(name, "{") != 1 || strings.Count(name, "}") != 1 {
		t.Fatalf("the hash tag of %q is not %d", name, tag)
	}
}

// TestTags: the same group has one place, and keys are spread.
func TestTags(t *testing.T) {
	t.Parallel()
	n := newNames("", 256)
	counts := make([]int, 256)
	for i := range 256 * 100 {
		counts[n.tag(&driver.Key{Space: "s", ID: "user:" + strconv.Itoa(i)})]++
	}
	for tag, c := range counts {
		if c < 40 || c > 180 {
			t.Errorf("place %d has %d keys of 25600", tag, c)
		}
	}
	if n.tag(&driver.Key{Space: "a", Group: "g", ID: "1"}) != n.tag(&driver.Key{Space: "b", Group: "g", ID: "2"}) {
		t.Error("a group has two places")
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	n := newNames("", 256)
	for id, want := range map[string]int{
		"ns|7.x": 7, "|0.": 0, "|255.a.b|c": 255, "a%7Cb|31.x": 31,
		"ns|256.x": -1, "ns|07.x": -1, "ns|x": -1, "ns|.x": -1, "ns|-1.x": -1, "ns|99999999999.x": -1, "7.x": -1, "": -1, "ns|7": -1,
	} {
		if got, ok := n.route(id); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", id, got, ok)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a", "%", "%41", "{}", "\x00 é", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, also := range []byte{0, ':'} {
			e := string(escape(nil, s, also))
			if got, bad := unescape(e); bad || got != s {
				t.Fatalf("%q, escaped %q, is read back as %q", s, e, got)
			}
			if strings.ContainsFunc(e, func(r rune) bool {
				return r <= ' ' || r >= 0x7F || r == '{' || r == '}' || also != 0 && byte(r) == also
			}) {
				t.Fatalf("%q", e)
			}
		}
	})
}
