// Command benchmarks measures ration beside its peers: the same work, on the same machine, in one run, in rounds that take
// turns. It prints a Markdown table.
//
//	go run . [-only memory] [-rounds 7] [-time 500ms] [-cpu 2] [-o FILE]
//
// Figures are medians over rounds. A ratio is the median of the ratios of each round, so that a noisy moment hits both
// sides; its spread is the lowest and the highest round. Look at ratios: absolute figures are this machine's.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if beServer() {
		return
	}
	only := flag.String("only", "", "a group, such as memory; default all")
	rounds := flag.Int("rounds", 7, "rounds, in each of which every candidate has a turn")
	turn := flag.Duration("time", 500*time.Millisecond, "length of a turn")
	out := flag.String("o", "", "write the table to this file as well")
	flag.Parse()
	if err := run(*only, *rounds, *turn, *out); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(only string, rounds int, turn time.Duration, out string) error {
	w := io.Writer(os.Stdout)
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			return err
		}
		defer f.Close()
		w = io.MultiWriter(os.Stdout, f)
	}
	fmt.Fprintf(w, "%s, %d CPUs, %s/%s, %s, %d rounds of %v\n", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		time.Now().UTC().Format("2006-01-02"), rounds, turn)
	done := false
	for _, g := range groups() {
		if only != "" && !strings.HasPrefix(g.name, only) {
			continue
		}
		done = true
		if err := g.measure(w, rounds, turn); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	if !done {
		return fmt.Errorf("there is no group %q", only)
	}
	return nil
}

// groups are all that is measured. Each package of rivals adds its own.
func groups() []group { return slices.Concat(memory(), sqlite(), postgres(), redisGroups(), rpcs()) }
