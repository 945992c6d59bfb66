package simulate

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// benchLines is the length of the log: RATION_BENCH_LINES, such as 5000000, or else 500000.
func benchLines(b *testing.B) int {
	if text := os.Getenv("RATION_BENCH_LINES"); text != "" {
		return must[int](b)(strconv.Atoi(text))
	}
	return 500_000
}

// BenchmarkLog replays a generated log, beside others that only read it: wc -l, and the loop that one would write first.
// The first run of wc has the file in the page cache, for all.
func BenchmarkLog(b *testing.B) {
	n := benchLines(b)
	dir := b.TempDir()
	forms := map[string]func(*logged) string{"combined": (*logged).combined, "json": (*logged).caddy, "csv": (*logged).csv}
	files := map[string]*bufio.Writer{}
	for name := range forms {
		f := must[*os.File](b)(os.Create(filepath.Join(dir, name)))
		defer f.Close()
		files[name] = bufio.NewWriterSize(f, 1<<20)
	}
	files["csv"].WriteString(csvHeader)
	f := must[*os.File](b)(os.Create(filepath.Join(dir, "combined.gz")))
	defer f.Close()
	gz := must[*gzip.Writer](b)(gzip.NewWriterLevel(f, gzip.BestSpeed))
	generate(11, n, func(one *logged) {
		for name, form := range forms {
			text := form(one)
			files[name].WriteString(text)
			if name == "combined" {
				io.WriteString(gz, text)
			}
		}
	})
	for _, w := range files {
		if err := w.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	if err := gz.Close(); err != nil {
		b.Fatal(err)
	}

	speed := func(name string, run func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run(b)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
	combined := filepath.Join(dir, "combined")
	speed("wc", func(b *testing.B) {
		if err := exec.Command("wc", "-l", combined).Run(); err != nil {
			b.Fatal(err)
		}
	})
	for _, c := range []struct {
		name, file string
		suggest    []float64
		limits     []string
	}{
		{"one limit", "combined", nil, []string{"bucket 10/1m burst 20"}},
		{"one limit with suggestions", "combined", []float64{95, 99, 99.9}, []string{"bucket 10/1m burst 20"}},
		{"four limits with suggestions", "combined", []float64{95, 99, 99.9}, []string{"bucket 10/1m burst 20", "sliding 100/1h", "fixed 25/1m", "budget 2000/day"}},
		{"gzip", "combined.gz", []float64{95, 99, 99.9}, []string{"bucket 10/1m burst 20"}},
		{"JSON", "json", []float64{95, 99, 99.9}, []string{"bucket 10/1m burst 20"}},
		{"CSV", "csv", []float64{95, 99, 99.9}, []string{"bucket 10/1m burst 20"}},
	} {
		speed(c.name, func(b *testing.B) {
			report := must[*Report](b)(Run(b.Context(), []Input{File(filepath.Join(dir, c.file))}, &Options{Limits: limits(b, c.limits...), Suggest: c.suggest}))
			if report.Requests != int64(n) || report.Limits[0].Refused == 0 {
				b.Fatalf("%+v", report)
			}
		})
	}
	speed("naive", func(b *testing.B) {
		if naive(b, combined, n) == 0 {
			b.Fatal("nothing is refused")
		}
	})
}

var naiveForm = regexp.MustCompile(`^(\S+) (\S+) (.+) \[([^\]]+)\] "(\S+) (\S+) (\S+)" (\d{3}) (\d+|-)`)

// naive counts in fixed windows of a minute, 25 each, with what the library has.
func naive(b *testing.B, file string, n int) (refused int) {
	f := must[*os.File](b)(os.Open(file))
	defer f.Close()
	type window struct {
		end   time.Time
		count int
	}
	windows := map[string]window{}
	lines := 0
	for in := bufio.NewScanner(f); in.Scan(); lines++ {
		m := naiveForm.FindStringSubmatch(in.Text())
		if m == nil {
			b.Fatal(in.Text())
		}
		at := must[time.Time](b)(time.Parse(commonTimeForm, m[4]))
		w := windows[m[1]]
		if !at.Before(w.end) {
			w = window{end: at.Add(time.Minute)}
		}
		if w.count++; w.count > 25 {
			refused++
			continue
		}
		windows[m[1]] = w
	}
	if lines != n {
		b.Fatal(lines)
	}
	return refused
}
