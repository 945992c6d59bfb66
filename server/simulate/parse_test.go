package simulate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	t.Parallel()
	at := func(us int64) string {
		return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.999999Z")
	}
	for text, want := range map[string]string{
		"10/Oct/2000:13:55:36 -0700":           "2000-10-10T20:55:36Z",
		"[10/Oct/2000:13:55:36 -0700]":         "2000-10-10T20:55:36Z",
		"29/Feb/2024:00:00:00 +0545":           "2024-02-28T18:15:00Z",
		"2026-03-29T01:02:03Z":                 "2026-03-29T01:02:03Z",
		"2026-03-29t01:02:03z":                 "2026-03-29T01:02:03Z",
		"2026-03-29T01:02:03.1234567+02:00":    "2026-03-28T23:02:03.123456Z",
		"2026-03-29 01:02:03,5":                "2026-03-29T01:02:03.5Z",
		"2026-03-29 01:02:03.000001 UTC":       "2026-03-29T01:02:03.000001Z",
		"2026-03-29 01:02:03 -0130":            "2026-03-29T02:32:03Z",
		"2016-12-31T23:59:60Z":                 "2017-01-01T00:00:00Z",
		"1774778400":                           "2026-03-29T10:00:00Z",
		"1774778400.25":                        "2026-03-29T10:00:00.25Z",
		"1774778400123":                        "2026-03-29T10:00:00.123Z",
		"1774778400123.9":                      "2026-03-29T10:00:00.1239Z",
		"1774778400123456":                     "2026-03-29T10:00:00.123456Z",
		"1774778400123456789":                  "2026-03-29T10:00:00.123456Z",
		"1774778400.1234567890123456789012345": "2026-03-29T10:00:00.123456Z",
	} {
		if got, ok := parseTime([]byte(text)); !ok || at(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, at(got), ok, want)
		}
	}
	for _, text := range []string{
		"", "-", "yesterday", "10/Oct/2000", "10/Oct/2000:13:55:36", "10/Okt/2000:13:55:36 -0700", "31/Apr/2000:13:55:36 -0700", "29/Feb/2023:00:00:00 +0000",
		"10/Oct/2000:24:55:36 -0700", "10/Oct/2000:13:55:36 x0700", "2026-13-29T01:02:03Z", "2026-03-29T01:02:03.Z", "2026-03-29T01:02:03+2", "2026-03-29",
		"1774778400x", "17747784001234567890", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "99999999999", "-1774778400", "0000000000",
	} {
		if got, ok := parseTime([]byte(text)); ok {
			t.Errorf("%q is read as %s", text, at(got))
		}
	}
}

// Dates are those of package time.
func TestTimesAreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		want := time.Unix(1+r.Int64N(5_800_000_000), 0).In(time.FixedZone("", (r.IntN(26*60)-12*60)*60))
		for _, form := range []string{commonTimeForm, time.RFC3339, "2006-01-02 15:04:05-0700"} {
			if got, ok := parseTime([]byte(want.Format(form))); !ok || got != want.UnixMicro() {
				t.Fatalf("%s: %d, %v; want %d", want.Format(form), got, ok, want.UnixMicro())
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	k := &keying{parts: []keyPart{{0, true}}, prefix: prefixes{24, 48}}
	for text, want := range map[string]string{
		"203.0.113.9":               "203.0.113.0/24",
		"203.0.113.9:443":           "203.0.113.0/24",
		"::ffff:203.0.113.9":        "203.0.113.0/24",
		"[::ffff:203.0.113.9]:80":   "203.0.113.0/24",
		"203.0.113.9, 198.51.100.1": "203.0.113.0/24",
		"2001:db8:1:2::3":           "2001:db8:1::/48",
		"[2001:db8:1:2::3]:443":     "2001:db8:1::/48",
		"host.example.com":          "host.example.com",
		"fe80::1%eth0":              "fe80::1%eth0",
		"1.2.3":                     "1.2.3",
		"1.2.3.256":                 "1.2.3.256",
		"\x1b[1m":                   `"\x1b[1m"`,
	} {
		key, ok := k.append(nil, &record{values: [][]byte{[]byte(text)}})
		if got := k.text(key); !ok || got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, bits := range []prefixes{{32, 128}, {1, 1}, {9, 63}, {31, 65}, {17, 127}} {
		k.prefix = bits
		for _, text := range []string{"255.255.255.255", "170.85.170.85", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "aaaa:5555:aaaa:5555:aaaa:5555:aaaa:5555"} {
			addr := netip.MustParseAddr(text)
			n := bits.v6
			if addr.Is4() {
				n = bits.v4
			}
			want := netip.PrefixFrom(addr, n).Masked().String()
			if n == addr.BitLen() {
				want = text
			}
			key, _ := k.append(nil, &record{values: [][]byte{[]byte(text)}})
			if got := k.text(key); got != want {
				t.Errorf("%s/%d: %s, want %s", text, n, got, want)
			}
		}
	}
}

// Different lists of parts are different keys.
func TestKeysOfSeveralParts(t *testing.T) {
	t.Parallel()
	k := &keying{parts: []keyPart{{slot: 0}, {slot: 1}}}
	seen := map[string][]string{}
	for _, parts := range [][]string{{"a", "bc"}, {"ab", "c"}, {"a", "b"}, {"a\x00", "b"}, {"a", "\x00b"}, {"4", "t"}, {strings.Repeat("x", 300), "y"}} {
		key, ok := k.append(nil, &record{values: [][]byte{[]byte(parts[0]), []byte(parts[1])}})
		if !ok || seen[string(key)] != nil {
			t.Errorf("%q is the key of %q", parts, seen[string(key)])
		}
		seen[string(key)] = parts
		if want := printable([]byte(parts[0])) + " · " + printable([]byte(parts[1])); k.text(key) != want {
			t.Errorf("%q, want %q", k.text(key), want)
		}
	}
	for _, parts := range [][]string{{"", "b"}, {"a", ""}, {strings.Repeat("x", 1025), "b"}, {strings.Repeat("x", 600), strings.Repeat("y", 600)}} {
		if _, ok := k.append(nil, &record{values: [][]byte{[]byte(parts[0]), []byte(parts[1])}}); ok {
			t.Errorf("%.20q is a key", parts)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	tab := newTable()
	want := map[string]int{}
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		key := fmt.Sprintf("%0*d", 1+r.IntN(60), r.IntN(10_000))
		n, isNew := tab.find([]byte(key), true)
		if old, ok := want[key]; ok == isNew || ok && old != n || !ok && n != len(want) {
			t.Fatalf("%s is %d, new %v; want %d, %v", key, n, isNew, old, !ok)
		}
		want[key] = n
	}
	for key, n := range want {
		if string(tab.key(n)) != key {
			t.Fatalf("%d is %s, want %s", n, tab.key(n), key)
		}
	}
	if n, _ := tab.find([]byte("unknown"), false); n != -1 || tab.len() != len(want) {
		t.Error(n, tab.len())
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	const good = `{"ts":1774778400.5,"request":{"client_ip":"10.0.0.1","headers":{"X-Api-Key":["\u00e4\ud83d\ude00\n","b"]},"x":{"y":[{"z":"]}"}]}},"user":7,"ok":true,"no":null}`
	p, format, _ := must3(parserFor(Auto, []byte(good+"\n"), wanted{fieldAddress, "header:x-api-key", fieldUser, "ok", "no", "request.x.y"}, nil))
	if format != JSON {
		t.Fatal(format)
	}
	rec := &record{values: make([][]byte, 6)}
	for _, line := range []string{good, strings.NewReplacer(":", " : ", ",", " , ", "{", "{ ").Replace(good) + " "} {
		if why := p.parse([]byte(line), rec); why != understood {
			t.Fatal(line, why)
		}
		want := []string{"10.0.0.1", "ä😀\n", "7", "true", "", ""}
		for i, v := range rec.values {
			if string(v) != want[i] {
				t.Errorf("%q, want %q", v, want[i])
			}
		}
		if rec.at != 1774778400_500_000 {
			t.Error(rec.at)
		}
	}
	for line, want := range map[string]reason{
		`{}`:                     noTime,
		`{"ts":"x"}`:             badTime,
		`{"ts":null}`:            badTime,
		`[1]`:                    notItsForm,
		`{"ts":1774778400`:       notItsForm,
		`{"ts":1774778400} {}`:   notItsForm,
		`{"ts`:                   openQuote,
		`{"a":"\`:                notItsForm,
		`{"a" 1}`:                notItsForm,
		`{"a":1 "ts":1}`:         notItsForm,
		`{"ts":1774778400,"a":[`: notItsForm,
	} {
		if why := p.parse([]byte(line), rec); why != want {
			t.Errorf("%s: %v, want %v", line, why, want)
		}
	}
}

func must3[A, B, C any](a A, b B, c C, err error) (A, B, C) {
	if err != nil {
		panic(err)
	}
	return a, b, c
}

func TestCSV(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		log     string
		mapping map[string]string
	}{
		{"time;ip;path\n2026-03-29 10:00:00;10.0.0.1;\"/a;\"\"b\"\"\"\n", nil},
		{"\xef\xbb\xbfPath\tX\tTIME\tclient_ip\n/a;\"b\"\t\t1774778400\t10.0.0.1\t\tmore\n", nil},
		{"1774778400,\"10.0.0.1\",\"/a;\"\"b\"\"\"\n", map[string]string{fieldTime: "1", fieldAddress: "2", fieldPath: "3"}},
		{"when,who,what\n1774778400,10.0.0.1,\"/a;\"\"b\"\"\"\n", map[string]string{fieldTime: "when", fieldAddress: "who", fieldPath: "what"}},
	} {
		p, _, skip := must3(parserFor(CSV, []byte(c.log), wanted{fieldAddress, fieldPath}, c.mapping))
		lines := strings.Split(strings.TrimSuffix(c.log, "\n"), "\n")
		rec := &record{values: make([][]byte, 2)}
		if why := p.parse([]byte(lines[skip]), rec); why != understood || rec.at != 1774778400*second || string(rec.values[0]) != "10.0.0.1" || string(rec.values[1]) != `/a;"b"` {
			t.Errorf("%q: %v %q", c.log, why, rec.values)
		}
	}
	if f := detect(firstLines([]byte("time;ip\n"))); f != CSV {
		t.Error(f)
	}
}

// nginx logs method, path and protocol in one field.
func TestRequestOfNginx(t *testing.T) {
	t.Parallel()
	log := `{"time_local":"29/Mar/2026:10:00:00 +0000","remote_addr":"10.0.0.1","request":"GET /api/a?b HTTP/1.1"}
{"time_local":"29/Mar/2026:10:00:00 +0000","remote_addr":"10.0.0.1","request":"POST /api/a?b HTTP/1.1"}
{"time_local":"29/Mar/2026:10:00:00 +0000","remote_addr":"10.0.0.1","request":"GET /other HTTP/1.1"}
`
	got := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, &Options{Limits: limits(t, "fixed 0/1m"), Paths: []string{"/api/*", "!*b*"}, Methods: []string{"GET"}}))
	if got.LeftOut != 2 || got.Limits[0].Refused != 1 {
		t.Errorf("%+v", got)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/api/*", "/api/", true}, {"/api/*", "/api", false}, {"*", "", true}, {"/a", "/a", true}, {"/a", "/ab", false}, {"*.png", "/x/y.png", true},
		{"*.png", "/x.png/z", false}, {"/a*b*c", "/abbc", true}, {"/a*b*c", "/acb", false}, {"/a*a", "/a", false}, {"**", "/x", true}, {"/a*b*b", "/ab", false},
	} {
		if got := matches(c.pattern, []byte(c.path)); got != c.want {
			t.Errorf("%s %s: %v", c.pattern, c.path, got)
		}
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h histogram
	h.counts = make([]int64, histogramSize)
	r := rand.New(rand.NewPCG(5, 6))
	var all []int64
	for range 3_000 {
		n := r.Int64() >> (11 + r.IntN(52))
		all = append(all, n)
		h.add(n)
	}
	slices.Sort(all)
	for above := range int64(len(all)) {
		want := all[int64(len(all))-1-above]
		if got := h.atMost(above); got < want || want < exactBelow && got != want || got-want > want/128 {
			t.Fatalf("%d above: %d, want %d", above, got, want)
		}
	}
	h.add(beyond)
	if h.atMost(0) != beyond {
		t.Error(h.atMost(0))
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	var l timeline
	now, n := int64(1_774_778_417*second), int64(0)
	for step := int64(second / 4); step < 400*86400*second; step += step / 50 {
		now += r.Int64N(step)
		l.add(now, r.IntN(3) > 0)
		n++
		got, sum := l.report(), int64(0)
		for i := range got.Allowed {
			sum += got.Allowed[i] + got.Refused[i]
		}
		if end := got.StartUS + int64(len(got.Allowed))*got.WidthUS; sum != n || got.StartUS%got.WidthUS != 0 || now < end-got.WidthUS || now >= end {
			t.Fatalf("%d of %d; %d is not in the last of %+v", sum, n, now, got)
		}
	}
	if l.width != 28*86400*second && l.width != 364*86400*second {
		t.Error(l.width)
	}
}

// No line makes a parser fail, read what is not there, or keep anything.
func FuzzParsers(f *testing.F) {
	for _, one := range generated(10, 3) {
		f.Add([]byte(one.combined()))
		f.Add([]byte(one.caddy()))
		f.Add([]byte(csvHeader + one.csv()))
	}
	f.Add([]byte("{\"ts\":[\"\\u12\",{\"a\":]}"))
	f.Add([]byte("a - - [10/Oct/2000:13:55:36 -0700] \"\\\" 200 "))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := wanted{fieldAddress, fieldUser, fieldMethod, fieldPath}
		k := &keying{parts: []keyPart{{0, true}, {1, false}}, prefix: prefixes{24, 64}}
		rec := &record{values: make([][]byte, len(want))}
		for _, format := range append(Formats(), Auto) {
			before := bytes.Clone(data)
			p, _, _, err := parserFor(format, data, want, map[string]string{fieldTime: "ts", fieldAddress: "timestamp", fieldUser: "ts.a", fieldMethod: "user", fieldPath: "method"})
			if err != nil {
				continue
			}
			for line := range bytes.Lines(data) {
				if p.parse(line, rec) != understood {
					continue
				}
				if rec.at <= 0 || rec.at > latest {
					t.Fatalf("%q is at %d", line, rec.at)
				}
				if key, ok := k.append(nil, rec); ok {
					k.text(key)
				}
			}
			if !bytes.Equal(data, before) {
				t.Fatal("the line was changed")
			}
		}
		if report, err := Run(t.Context(), []Input{text("x", string(data))}, &Options{Limits: limits(t, "fixed 1/1m"), Paths: []string{"*a*"}}); err == nil {
			if err := report.WriteText(&bytes.Buffer{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
