package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// section is what was found out about one group.
type section struct {
	title, note string
	head        []string
	rows        [][]string
	checks      []check
	bars        []bar // none: it is not in the chart
}

// check is one goal, and what came of it.
type check struct {
	what, against, asked, got string
	ok                        bool
}

func (s section) print(w io.Writer) {
	fmt.Fprintf(w, "\n### %s\n\n", s.title)
	if s.note != "" {
		fmt.Fprintf(w, "%s\n\n", s.note)
	}
	printTable(w, s.head, s.rows)
}

func printTable(w io.Writer, head []string, rows [][]string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
}

func printChecks(w io.Writer, all []section) {
	var rows [][]string
	for _, s := range all {
		for _, c := range s.checks {
			reached := "yes"
			if !c.ok {
				reached = "**no**"
			}
			rows = append(rows, []string{c.what, c.against, c.asked, c.got, reached})
		}
	}
	printTable(w, []string{"what", "against", "asked, at least (hoped)", "measured (spread)", "reached"}, rows)
}

// number is n in thin groups of three digits, as far as it is worth it.
func number(n float64) string {
	switch {
	case n < 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	case n >= 1000: // three or four digits say enough
		unit := 1.0
		for n/unit >= 10_000 {
			unit *= 10
		}
		n = float64(int64(n/unit+0.5)) * unit
	}
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}

// duration is ns for people.
func duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.0f µs", ns/1e3)
}

// about is where and how a run was made.
func about(s settings, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d CPUs", time.Now().UTC().Format(time.DateOnly), processor(), runtime.NumCPU())
	fmt.Fprintf(&b, "; %s on %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, s := range servers.list() {
		b.WriteString("; " + s)
	}
	b.WriteString(".\n")
	fmt.Fprintf(&b, "%d rounds of %v, %v in all: `go run . -rounds %d -time %v -keys %d -fair %v", s.rounds, s.turn, took.Round(time.Second), s.rounds, s.turn, s.keys, s.fair)
	if s.only != "" {
		fmt.Fprintf(&b, " -only '%s'", s.only)
	}
	b.WriteString(" -write`\n\nPeers: ")
	b.WriteString(strings.Join(peers(), ", ") + ".")
	return b.String()
}

// processor is the name that Linux has for it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "a processor without a name"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "a processor without a name"
}

// servers are the names and versions of those that were asked.
var servers versions

type versions struct {
	mu  sync.Mutex
	all []string
}

func (v *versions) note(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Contains(v.all, name) {
		v.all = append(v.all, name)
	}
}

func (v *versions) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(slices.Values(v.all))
}

// peers are the modules that this program compares with, and their versions.
func peers() (all []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return []string{"of unknown versions"}
	}
	for _, m := range info.Deps {
		if slices.Contains([]string{
			"github.com/go-chi/httprate", "github.com/go-redis/redis_rate/v10", "github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
			"github.com/sethvargo/go-limiter", "github.com/throttled/throttled/v2", "github.com/ulule/limiter/v3", "golang.org/x/time", "google.golang.org/grpc", "modernc.org/sqlite",
		}, m.Path) {
			all = append(all, m.Path+" "+m.Version)
		}
	}
	return all
}

// What lies between these lines of a README is ours.
const (
	beginResults = "<!-- results: written by go run . -write -->"
	endResults   = "<!-- end of results -->"
)

// writeReadme replaces the results in a file.
func writeReadme(name, head string, all []section) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok1 := bytes.Cut(text, []byte(beginResults))
	_, after, ok2 := bytes.Cut(rest, []byte(endResults))
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q to write between", name, beginResults, endResults)
	}
	var b bytes.Buffer
	b.Write(before)
	fmt.Fprintf(&b, "%s\n\n%s\n\n![decisions a second](chart.svg)\n\n### Goals\n\n", beginResults, head)
	printChecks(&b, all)
	for _, s := range all {
		s.print(&b)
	}
	fmt.Fprintf(&b, "\n%s", endResults)
	b.Write(after)
	return os.WriteFile(name, b.Bytes(), 0o644)
}
