package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

var tried = []string{
	"bucket 10/1m burst 20", "bucket 7/1h burst 5", "bucket 1/1s burst 0", "sliding 30/10m", "sliding 270/3h", "fixed 25/1m",
	"budget 60/hour", "budget 200/day Europe/Berlin from 02:00",
}

// answers is what a Limiter says to the requests of a log, one after the other, at their times.
type answers struct {
	requests, refused, keys int64
	longest                 time.Duration
	first, last             time.Time
	each                    map[string]*KeyReport
}

func asked(t *testing.T, all []logged, rule ration.Rule, key func(*logged) string) answers {
	t.Helper()
	var now time.Time
	limiter := ration.New(memstore.New(nil), &ration.Options{Clock: func() time.Time { return now }})
	defer limiter.Close()
	a := answers{each: map[string]*KeyReport{}}
	for i := range all {
		if all[i].at.After(now) {
			now = all[i].at
		}
		name := key(&all[i])
		if name == "" {
			continue
		}
		d, err := limiter.Take(t.Context(), ration.KeyOf(name), rule, 1)
		if err != nil {
			t.Fatal(err)
		}
		a.requests++
		one := a.each[name]
		if one == nil {
			one = &KeyReport{Key: name}
			a.each[name] = one
		}
		one.Requests++
		if d.Allowed {
			continue
		}
		if a.refused++; a.first.IsZero() {
			a.first = now
		}
		a.last, a.longest = now, max(a.longest, d.RetryAfter)
		if one.Refused++; one.Refused == 1 {
			one.FirstRefusedUS = now.UnixMicro()
		}
		one.LastRefusedUS = now.UnixMicro()
		one.LongestWaitUS = max(one.LongestWaitUS, d.RetryAfter.Microseconds())
	}
	for _, one := range a.each {
		if one.Refused > 0 {
			a.keys++
		}
	}
	return a
}

func byAddress(l *logged) string {
	addr := netip.MustParseAddr(l.addr)
	if addr.Is4() {
		return l.addr
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// Every count of a report is what a Limiter on memstore would have said, for each key.
func TestExact(t *testing.T) {
	t.Parallel()
	all := generated(1, 12_000)
	log := joined(all, (*logged).combined)
	for _, limit := range tried {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			opts := &Options{Limits: limits(t, limit), Top: maxTop}
			report := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, opts))
			want := asked(t, all, opts.Limits[0].Rule, byAddress)
			got := report.Limits[0]
			if got.Requests != want.requests || got.Refused != want.refused || got.Keys != int64(len(want.each)) || got.RefusedKeys != want.keys {
				t.Errorf("%d requests, %d refused, %d keys, %d refused; want %d, %d, %d, %d", got.Requests, got.Refused, got.Keys, got.RefusedKeys,
					want.requests, want.refused, len(want.each), want.keys)
			}
			if want.refused == 0 {
				t.Fatal("nothing is refused, so nothing is tested")
			}
			if got.LongestWaitUS != want.longest.Microseconds() || got.FirstRefusedUS != want.first.UnixMicro() || got.LastRefusedUS != want.last.UnixMicro() {
				t.Errorf("%+v; want %+v", got, want)
			}
			if int64(len(got.Top)) != want.keys {
				t.Fatalf("%d keys listed", len(got.Top))
			}
			for _, one := range got.Top {
				if *want.each[one.Key] != one {
					t.Errorf("%+v; want %+v", one, *want.each[one.Key])
				}
			}
			var allowed, refused int64
			for i := range got.Timeline.Allowed {
				allowed += got.Timeline.Allowed[i]
				refused += got.Timeline.Refused[i]
			}
			if allowed+refused != want.requests || refused != want.refused {
				t.Errorf("the timeline has %d and %d", allowed, refused)
			}
		})
	}
}

// What is suggested refuses at most the share that it says, and one less refuses more.
func TestSuggestionsAreLeast(t *testing.T) {
	t.Parallel()
	all := generated(2, 5_000)
	log := joined(all, (*logged).combined)
	for _, limit := range []string{"bucket 10/1m burst 20", "sliding 30/10m", "sliding 280/2h", "fixed 25/1m", "budget 60/hour"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			refusing := func(limit ration.Limit) LimitReport {
				return must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, &Options{Limits: []Limit{{Rule: ration.Rule{Limit: limit}}}})).Limits[0]
			}
			opts := &Options{Limits: limits(t, limit), Suggest: []float64{90, 99, 100}}
			report := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, opts)).Limits[0]
			if len(report.Suggestions) != 6 {
				t.Fatalf("%+v", report.Suggestions)
			}
			for _, s := range report.Suggestions {
				at := must[ration.Limit](t)(ration.ParseLimit(s.Limit))
				share := func(r LimitReport) (of, all int64) {
					if s.Of == "keys" {
						return r.RefusedKeys, r.Keys
					}
					return r.Refused, r.Requests
				}
				most := func(all int64) int64 { return int64(float64(all)*(100-s.Percent)/100 + 1e-9) }
				if n, all := share(refusing(at)); n > most(all) {
					t.Errorf("%+v refuses %d of %d", s, n, all)
				}
				if !s.Least || s.Size == 0 {
					continue
				}
				if n, all := share(refusing(withSize(at, s.Size-1))); n <= most(all) {
					t.Errorf("%+v is not the least: one less refuses %d of %d", s, n, all)
				}
			}
			if size, n := report.Needs[len(report.Needs)-1].Size, report.Needs[len(report.Needs)-1].Keys; n != report.Keys || refusing(withSize(opts.Limits[0].Rule.Limit, size)).Refused != 0 {
				t.Errorf("the curve ends at %d, %d of %d keys", size, n, report.Keys)
			}
		})
	}
}

// All forms of a log, packed or not, say the same.
func TestForms(t *testing.T) {
	t.Parallel()
	all := generated(3, 5_000)
	opts := &Options{
		Limits: []Limit{
			{Rule: ration.Rule{Name: "a", Limit: ration.FixedWindow{Limit: 10, Window: time.Minute}}},
			{Rule: ration.Rule{Name: "u", Limit: ration.SlidingWindow{Limit: 10, Window: time.Minute}}, Key: []string{"user", "method"}},
		},
		Paths: []string{"/api/*"}, Methods: []string{"GET"}, Top: 50, Suggest: []float64{99},
	}
	var first []LimitReport
	for _, form := range []struct {
		name string
		body string
	}{
		{"combined", joined(all, (*logged).combined)},
		{"json", strings.ReplaceAll(joined(all, (*logged).caddy), `"user_id":"-"`, `"user_id":null`)},
		{"csv", csvHeader + strings.ReplaceAll(joined(all, (*logged).csv), `"-"`, `""`)},
	} {
		for _, body := range []string{form.body, packed(t, form.body), strings.ReplaceAll(form.body, "\n", "\r\n"), strings.TrimSuffix(form.body, "\n")} {
			report := must[*Report](t)(Run(t.Context(), []Input{text(form.name, body)}, opts))
			if report.Malformed != 0 || report.Requests != int64(len(all)) || string(report.Inputs[0].Format) != form.name {
				t.Fatalf("%s: %+v", form.name, report)
			}
			if first == nil {
				first = report.Limits
			}
			if !reflect.DeepEqual(report.Limits, first) {
				t.Errorf("%s: %+v\nwant %+v", form.name, report.Limits, first)
			}
		}
	}
	if first[0].Refused == 0 || first[1].Refused == 0 || first[1].NoKey == 0 {
		t.Errorf("%+v: that tests nothing", first)
	}
}

// Logs of several servers, and those of several days in any order, are one.
func TestSeveralLogs(t *testing.T) {
	t.Parallel()
	all := generated(4, 6_000)
	slices.SortStableFunc(all, func(a, b logged) int { return a.at.Compare(b.at) })
	opts := func() *Options { return &Options{Limits: limits(t, "bucket 10/1m burst 20", "fixed 25/1m"), Top: 1000} }
	want := must[*Report](t)(Run(t.Context(), []Input{text("log", joined(all, (*logged).combined))}, opts()))

	var servers [3][]logged
	for i, one := range all {
		servers[i*i%3] = append(servers[i*i%3], one)
	}
	early, late := all[:2_500], all[2_500:]
	for name, inputs := range map[string][]Input{
		"side by side": {text("a", joined(servers[0], (*logged).combined)), text("empty", "\n\n"), text("b", joined(servers[1], (*logged).caddy))},
		"rotated":      {text("log", joined(late, (*logged).combined)), text("log.1.gz", packed(t, joined(early, (*logged).combined)))},
		"piped":        {text("log", joined(late, (*logged).combined)), Stream("pipe", strings.NewReader(joined(early, (*logged).combined)))},
	} {
		got := must[*Report](t)(Run(t.Context(), inputs, opts()))
		if got.Behind != 0 || got.Malformed != 0 || !reflect.DeepEqual(got.Limits, want.Limits) {
			t.Errorf("%s: %+v\nwant %+v", name, got, want)
		}
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	t.Parallel()
	at := func(clock string) string {
		return `10.0.0.1 - - [29/Mar/2026:` + clock + ` +0200] "GET / HTTP/1.1" 200 1` + "\n"
	}
	log := at("10:00:00") + at("10:00:30") + at("09:59:00") + at("10:01:00") + at("10:01:01")
	got := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, &Options{Limits: limits(t, "fixed 2/1m")}))
	if got.Behind != 1 || got.MostBackUS != 90*second {
		t.Errorf("%+v", got)
	}
	// The third is decided at 10:00:30, in the window of the first two; at 10:01:00 that is over.
	if l := got.Limits[0]; l.Refused != 1 || l.LongestWaitUS != 30*second {
		t.Errorf("%+v", l)
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	good := `10.0.0.1 - bob smith [29/Mar/2026:10:00:00 +0200] "GET /a\"b c HTTP/1.1" 404 - "-" "agent \"x\""`
	lines := []string{
		good, "", "garbage", strings.Replace(good, "29/Mar", "31/Feb", 1), strings.Replace(good, "404", "4x4", 1), `10.0.0.1 - - [29/Mar/2026:10:00:00 +0200] "GET / HTTP`,
		strings.Repeat("x", 3*blockSize), "\x00\x1b[2J", strings.Repeat("y", blockSize-1), good,
	}
	got := must[*Report](t)(Run(t.Context(), []Input{text("log", strings.Join(lines, "\n"))}, &Options{Limits: limits(t, "fixed 1/1m"), Key: []string{"user", "user-agent"}}))
	if got.Requests != 2 || got.Malformed != 7 || got.Inputs[0].Lines != 10 || got.Limits[0].Refused != 1 {
		t.Errorf("%+v", got)
	}
	if k := got.Limits[0].Top[0].Key; k != `bob smith · agent \"x\"` {
		t.Errorf("%q", k)
	}
	want := []BadLine{
		{"log", 3, "not of the log's form", "garbage"},
		{"log", 4, "the time cannot be read", ""},
		{"log", 5, "the status is no number of three digits", ""},
		{"log", 6, "a quotation mark is missing", ""},
		{"log", 7, "the line is longer than 256 KiB", strings.Repeat("x", 80)},
	}
	for i, bad := range got.BadLines {
		if want[i].Text == "" {
			bad.Text = ""
		}
		if bad != want[i] {
			t.Errorf("%+v; want %+v", bad, want[i])
		}
	}
	var b strings.Builder
	if err := got.WriteText(&b); err != nil || !strings.Contains(b.String(), "7 lines not understood") || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%v %s", err, &b)
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	log := packed(t, joined(generated(5, 8_000), (*logged).combined))
	got := must[*Report](t)(Run(t.Context(), []Input{text("log.gz", log[:len(log)/2])}, &Options{Limits: limits(t, "fixed 1/1m")}))
	if in := got.Inputs[0]; in.Broken == "" || in.Lines < 1000 || in.Lines > 7_500 || got.Limits[0].Refused == 0 {
		t.Errorf("%+v", in)
	}
	_, err := Run(t.Context(), []Input{text("log.gz", log[:5])}, &Options{Limits: limits(t, "fixed 1/1m")})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		io.WriteString(w, joined(generated(6, 20_000), (*logged).combined))
		cancel() // and the pipe stays open
	}()
	got := must[*Report](t)(Run(ctx, []Input{Stream("pipe", r)}, &Options{Limits: limits(t, "fixed 1/1m")}))
	if got.Complete || got.Requests == 0 || got.Limits[0].Refused == 0 {
		t.Errorf("%+v", got)
	}
	r.Close()
}

// Memory stays within its bound, and the report says what that cost.
func TestMemory(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&b, "10.%d.%d.%d - - [29/Mar/2026:10:00:00 +0200] \"GET / HTTP/1.1\" 200 1\n", i>>16&255, i>>8&255, i&255)
	}
	log := b.String()
	got := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, &Options{Limits: limits(t, "sliding 5/1h"), MaxMemory: 4 << 20}))
	l := got.Limits[0]
	if l.NotFollowed == 0 || l.Keys+l.NotFollowed != 30_000 || l.Keys < 5_000 || l.Keys > 25_000 {
		t.Errorf("%d keys, %d not followed", l.Keys, l.NotFollowed)
	}
	if all := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, &Options{Limits: limits(t, "sliding 5/1h")})).Limits[0]; all.NotFollowed != 0 || all.Keys != 30_000 {
		t.Errorf("%+v", all)
	}
	// One key's window is not the memory of a thousand keys.
	many := joined(generated(7, 60_000), (*logged).combined)
	_, err := Run(t.Context(), []Input{text("log", many)}, &Options{Limits: limits(t, "sliding 100000/1000h"), MaxMemory: 2 << 20})
	if err == nil || !strings.Contains(err.Error(), "allow more memory") {
		t.Error(err)
	}
}

// A sweep of windows that are over changes no answer.
func TestSweepChangesNothing(t *testing.T) {
	t.Parallel()
	all := generated(8, 20_000)
	for i := range all {
		all[i].at = all[i].at.Add(time.Duration(i) * time.Second / 10)
	}
	log := joined(all, (*logged).combined)
	opts := func(memory int64) *Options {
		return &Options{Limits: limits(t, "sliding 3/10s"), MaxMemory: memory, Suggest: []float64{90, 99}}
	}
	want := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, opts(0))).Limits[0]
	for memory := int64(3 << 20); ; memory += 1 << 19 {
		got := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, opts(memory))).Limits[0]
		if got.NotFollowed > 0 {
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v; want %+v", got, want)
		}
		break
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	log := `{"time": 1774778400, "ip": "10.0.0.1", "tokens": 600}
{"time": 1774778401, "ip": "10.0.0.1", "tokens": 500}
{"time": 1774778402, "ip": "10.0.0.1", "tokens": 400}
{"time": 1774778403, "ip": "10.0.0.1", "tokens": 1001}
{"time": 1774778404, "ip": "10.0.0.1", "tokens": 1.5}
{"time": 1774778405, "ip": "::ffff:10.0.0.1", "tokens": 0}
`
	got := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, &Options{Limits: limits(t, "budget 1000/day"), Cost: "tokens", Suggest: []float64{100}}))
	l := got.Limits[0]
	if l.Requests != 5 || l.Refused != 2 || l.Never != 1 || got.Malformed != 1 || got.BadLines[0].Why != badCost.String() || l.Keys != 1 {
		t.Errorf("%+v", got)
	}
	if want := (Suggestion{Percent: 100, Of: "keys", Size: 2501, Limit: "budget 2501/day", Least: true}); len(l.Suggestions) != 1 || l.Suggestions[0] != want {
		t.Errorf("%+v", l.Suggestions)
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	log := text("log", joined(generated(9, 10), (*logged).combined))
	caddy := text("caddy", joined(generated(9, 10), (*logged).caddy))
	fixed := func() []Limit { return limits(t, "fixed 1/1m") }
	for _, c := range []struct {
		in   Input
		opts Options
		want string
	}{
		{log, Options{}, "no limits"},
		{log, Options{Limits: []Limit{{Rule: ration.Rule{Limit: ration.Concurrency{Limit: 1, Lease: time.Minute}}}}}, "how long a request ran"},
		{log, Options{Limits: []Limit{{Rule: ration.Rule{Limit: ration.FixedWindow{Limit: 1}}}}}, "window"},
		{log, Options{Limits: fixed(), Key: []string{"tenant"}}, `no field "tenant"`},
		{log, Options{Limits: fixed(), Key: []string{""}}, "has no name"},
		{log, Options{Limits: fixed(), Format: "xml"}, "json and csv"},
		{log, Options{Limits: fixed(), Format: JSON}, "JSON object"},
		{log, Options{Limits: fixed(), Suggest: []float64{0}}, "percentage"},
		{log, Options{Limits: fixed(), IPv4Prefix: 33}, "33"},
		{log, Options{Limits: fixed(), Top: -1}, "-1"},
		{log, Options{Limits: fixed(), MaxMemory: 1}, "1 MiB"},
		{log, Options{Limits: fixed(), Paths: []string{"!"}}, "pattern"},
		{caddy, Options{Limits: fixed(), Key: []string{"tenant"}}, "request.client_ip"},
		{text("x", "what is this\n"), Options{Limits: fixed()}, "say which it is"},
		{text("x", "a,b\n1,2\n"), Options{Limits: fixed(), Format: CSV}, `no field "time"`},
		{File("/nowhere/at/all"), Options{Limits: fixed()}, "/nowhere/at/all"},
	} {
		if _, err := Run(t.Context(), []Input{c.in}, &c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.opts, err, c.want)
		}
	}
	if _, err := Run(t.Context(), nil, &Options{Limits: fixed()}); err == nil {
		t.Error("no logs are no error")
	}
	got := must[*Report](t)(Run(t.Context(), []Input{text("empty", "")}, &Options{Limits: fixed(), Suggest: []float64{50}}))
	var b strings.Builder
	if err := errors.Join(got.WriteText(&b), got.WriteHTML(&b)); err != nil || got.Requests != 0 || !got.Complete {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}
