package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// group is one piece of work and who does it. The last candidate is ours; the ratios say how many times faster it is than
// the others.
type group struct {
	name       string
	workers    int
	candidates []candidate
}

// candidate does the work. open is called once, before all rounds; close may be nil.
type candidate struct {
	name string
	open func() (work func(worker int, i uint64) error, close func(), err error)
}

func (g group) measure(w io.Writer, rounds int, turn time.Duration) error {
	works := make([]func(int, uint64) error, len(g.candidates))
	for i, c := range g.candidates {
		work, closer, err := c.open()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if closer != nil {
			defer closer()
		}
		works[i] = work
	}
	perOp := make([][]float64, len(works)) // by candidate and round, ns
	for r := range rounds + 1 {
		for i := range works {
			at := (i + r) % len(works) // nobody is always first
			ns, err := oneTurn(works[at], g.workers, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", g.candidates[at].name, err)
			}
			if r > 0 { // the first round warms up
				perOp[at] = append(perOp[at], ns)
			}
		}
	}
	ours := perOp[len(perOp)-1]
	fmt.Fprintf(w, "\n%s\n\n| candidate | ns per decision | ration is so many times faster | spread |\n|---|---|---|---|\n", g.name)
	for i, c := range g.candidates {
		ratios := make([]float64, rounds)
		for r := range ratios {
			ratios[r] = perOp[i][r] / ours[r]
		}
		fmt.Fprintf(w, "| %s | %.0f | %.2f | %.2f–%.2f |\n", c.name, median(perOp[i]), median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
	return nil
}

// oneTurn runs work from all workers for a while and answers the wall time per decision.
func oneTurn(work func(int, uint64) error, workers int, turn time.Duration) (ns float64, err error) {
	const most = 256 // calls between two looks at the clock
	var wg sync.WaitGroup
	counts := make([]uint64, workers)
	errs := make([]error, workers)
	start := time.Now()
	for id := range workers {
		wg.Go(func() {
			i, slice := uint64(id)<<40, uint64(1)
			for began := time.Since(start); began < turn; {
				for range slice {
					if err := work(id, i); err != nil {
						errs[id] = err
						return
					}
					i++
				}
				counts[id] += slice
				now := time.Since(start)
				if now-began < time.Millisecond { // who is slow looks often
					slice = min(2*slice, most)
				}
				began = now
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	var total uint64
	for id := range workers {
		if errs[id] != nil {
			return 0, errs[id]
		}
		total += counts[id]
	}
	return float64(took.Nanoseconds()) / float64(total), nil
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// scatter makes i a number that looks random, and differs for different i.
func scatter(i uint64) uint64 {
	i ^= i >> 31
	i *= 0x7fb5d329728ea185
	i ^= i >> 27
	i *= 0x81dadef4bc2dd44d
	return i ^ i>>33
}
