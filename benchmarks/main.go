// Command benchmarks measures ration beside its peers: the same work, on the same machine, in one run, in rounds that take
// turns. It prints Markdown tables, and with -write puts them into README.md, with a chart beside it.
//
//	go run . [-only 'memory|redis'] [-rounds 5] [-time 400ms] [-keys 1000000] [-fair 10s] [-write]
//
// Figures are medians over rounds. A ratio is the median of the ratios of each round, so that a noisy moment hits both
// sides; its spread is the lowest and the highest round. Look at ratios: absolute figures are this machine's.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// settings are those of a run.
type settings struct {
	only   string        // a regular expression for names of groups; "": all
	rounds int           // in each of which every candidate has a turn
	turn   time.Duration // length of a turn
	keys   int           // most keys of the growing stores
	fair   time.Duration // for how long callers are watched
	write  bool
}

func main() {
	if beServer() {
		return
	}
	var s settings
	flag.StringVar(&s.only, "only", "", "the groups whose names match this regular expression, such as '^memory|^redis, 100 k'; default all")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds, in each of which every candidate has a turn")
	flag.DurationVar(&s.turn, "time", 400*time.Millisecond, "length of a turn")
	flag.IntVar(&s.keys, "keys", 1_000_000, "most keys of stores that grow; 10000000 takes 5 GB of disk and half an hour")
	flag.DurationVar(&s.fair, "fair", 10*time.Second, "for how long 256 callers are watched for the longest wait")
	flag.BoolVar(&s.write, "write", false, "put the tables into README.md, and the chart into chart.svg, both in this folder")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	if s.rounds < 1 || s.turn <= 0 {
		return errors.New("there has to be at least one round, and a turn has to last")
	}
	only, err := regexp.Compile(s.only)
	if err != nil {
		return err
	}
	var done []section
	var failures []error
	began := time.Now()
	for _, g := range groups(s) {
		if !only.MatchString(g.name) {
			continue
		}
		one, err := g.measure(s.rounds, s.turn)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", g.name, err))
			fmt.Fprintln(os.Stderr, failures[len(failures)-1])
			continue
		}
		one.print(os.Stdout)
		done = append(done, one)
	}
	if len(done)+len(failures) == 0 {
		return fmt.Errorf("no group has a name like %q", s.only)
	}
	head := about(s, time.Since(began))
	fmt.Print("\n", head, "\n\n")
	printChecks(os.Stdout, done)
	if s.write && len(done) > 0 {
		if err := writeReadme("README.md", head, done); err != nil {
			failures = append(failures, err)
		}
		if err := os.WriteFile("chart.svg", []byte(chart(done)), 0o644); err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// groups are all that is measured. Each package of rivals adds its own.
func groups(s settings) []group {
	return slices.Concat(memory(), heaps(), sqlite(), postgres(), redisGroups(), rpcs(), https(), direct(), growth(s.keys), fairness(s.fair))
}
