package main

import (
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A clock knows a time to 1.6 %.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{2 * time.Microsecond, 777 * time.Microsecond, 33 * time.Millisecond, 9 * time.Second} {
		clocks := newClocks(true, 2)
		for i := range 100 {
			clocks[i%2].add(d)
		}
		clocks[0].add(time.Minute)
		p50, p99 := percentiles(clocks)
		if math.Abs(p50/float64(d)-1) > 0.016 || math.Abs(p99/float64(d)-1) > 0.016 || clocks[0].longest != time.Minute {
			t.Errorf("of %v the median is %v, the 99th percentile %v", d, time.Duration(p50), time.Duration(p99))
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0.26: "0.3", 42.4: "42", 999: "999", 1727: "1 727", 9999: "9 999", 61_694: "61 690", 12_345_678: "12 350 000"} {
		if got := number(n); got != want {
			t.Errorf("number(%v) is %q, want %q", n, got, want)
		}
	}
}

// A ratio is the median of the ratios of rounds, and goals are checked against it.
func TestSection(t *testing.T) {
	t.Parallel()
	g := group{name: "g", timed: true, chart: true, candidates: []candidate{
		{name: "peer & <co>", goal: goal{least: 3, hoped: 5}},
		{name: "near", goal: goal{slower: 1.05}},
		{name: "ours", role: ours},
	}}
	turn := func(ns, p50 float64) measured { return measured{ns: ns, p50: p50} }
	s := g.section([][]measured{
		{turn(300, 1), turn(1000, 1), turn(90, 1)},
		{turn(100, 100), turn(100, 100), turn(100, 100)},
		{turn(100, 106), turn(200, 104), turn(10, 110)},
	})
	if len(s.checks) != 2 || s.checks[0].got != "5.00× (3.00–9.00)" || !s.checks[0].ok || s.checks[1].ok || s.checks[1].got != "1.06× (1.04–1.10)" {
		t.Errorf("%+v", s.checks)
	}
	picture := xml.NewDecoder(strings.NewReader(chart([]section{s})))
	bars := 0
	for {
		token, err := picture.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 1+3 {
		t.Errorf("the chart has %d rectangles", bars)
	}
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte("before\n"+beginResults+"\nold\n"+endResults+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time is like the first
		if err := writeReadme(file, "head", []section{s}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "\nafter\n") || strings.Contains(got, "old") || strings.Count(got, "| g | near |") != 1 {
		t.Error(got)
	}
}

// The marks are in the page.
func TestReadmeHasPlace(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), beginResults) || !strings.Contains(string(text), endResults) {
		t.Error("README.md has no place for results")
	}
}
