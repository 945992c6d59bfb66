package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// group is one piece of work and who does it.
type group struct {
	name       string
	workers    int
	candidates []candidate // one of them is ours
	timed      bool        // each call is timed, which costs too much where calls are short
	chart      bool        // it is in the chart
	base       string      // what its ratios are: by default, how many times faster ration is
	note       string

	special func(rounds int, turn time.Duration) (section, error) // instead of all that
}

// role is whose a candidate is.
type role uint8

const (
	rival   role = iota
	bound        // no rival, but what the machine or the store can do at best: its calls are no decisions
	ours         // what the ratios compare with
	variant      // ration in another way
)

// candidate does the work. open is called once, before all rounds; close may be nil.
type candidate struct {
	name string
	role role
	goal goal // of ration, against this one
	bulk bool // its calls are not decisions, so their times say nothing
	open func() (work func(worker int, i uint64) error, close func(), err error)
}

// goal is what ration is to be beside a candidate. The zero goal is none.
type goal struct {
	least, hoped float64       // so many times faster
	slower       float64       // at most so many times its time: the median call's, where calls are timed
	over         time.Duration // at most so much longer
}

func (g group) measure(rounds int, turn time.Duration) (section, error) {
	if g.special != nil {
		s, err := g.special(rounds, turn)
		s.title = g.name
		return s, err
	}
	works := make([]func(int, uint64) error, len(g.candidates))
	for i, c := range g.candidates {
		work, closer, err := c.open()
		if closer != nil {
			defer closer()
		}
		if err != nil {
			return section{}, fmt.Errorf("%s: %w", c.name, err)
		}
		works[i] = work
	}
	turns := make([][]measured, len(works)) // by candidate and round
	clocks := newClocks(g.timed, g.workers)
	for r := range rounds + 1 {
		for i := range works {
			at := (i + r) % len(works) // nobody is always first
			m, err := oneTurn(works[at], g.workers, turn, clocks)
			if err != nil {
				return section{}, fmt.Errorf("%s: %w", g.candidates[at].name, err)
			}
			if r > 0 { // the first round warms up
				turns[at] = append(turns[at], m)
			}
		}
	}
	return g.section(turns), nil
}

// measured is one turn, or the median of some.
type measured struct {
	ns           float64 // wall time by decisions
	own, servers float64 // computing time by decisions, ns: of this program, and of servers that it started
	p50, p99     float64 // of calls, ns; 0: not timed
}

// oneTurn runs work from all workers for a while.
func oneTurn(work func(int, uint64) error, workers int, turn time.Duration, clocks []clock) (m measured, err error) {
	const most = 256 // calls between two looks at the clock
	var wg sync.WaitGroup
	counts := make([]uint64, workers)
	errs := make([]error, workers)
	ownBefore, serversBefore := cpuTimes()
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
				if clocks != nil { // and so slice is one
					clocks[id].add(now - began)
				} else if now-began < time.Millisecond { // who is slow looks often
					slice = min(2*slice, most)
				}
				began = now
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	own, servers := cpuTimes()
	var total uint64
	for id := range workers {
		if errs[id] != nil {
			return m, errs[id]
		}
		total += counts[id]
	}
	m.ns = float64(took.Nanoseconds()) / float64(total)
	m.own, m.servers = float64(own-ownBefore)/float64(total), float64(servers-serversBefore)/float64(total)
	m.p50, m.p99 = percentiles(clocks)
	return m, nil
}

// section makes a table of turns.
func (g group) section(turns [][]measured) section {
	s := section{title: g.name, note: g.note, head: []string{"candidate", "ns per decision", "decisions a second"}}
	if g.timed {
		s.head = append(s.head, "CPU of callers + servers", "p50", "p99")
	}
	base := g.base
	if base == "" {
		base = "ration is so many times faster (spread)"
	}
	s.head = append(s.head, base)
	mine := slices.IndexFunc(g.candidates, func(c candidate) bool { return c.role == ours })
	for i, c := range g.candidates {
		all := medianTurn(turns[i])
		row := []string{c.name, number(all.ns), number(1e9 / all.ns)}
		if c.role == ours || c.role == variant {
			row[0] = "**" + c.name + "**"
		}
		if g.timed {
			row = append(row, fmt.Sprintf("%.1f + %.1f µs", all.own/1e3, all.servers/1e3))
			if c.bulk {
				row = append(row, "", "")
			} else {
				row = append(row, duration(all.p50), duration(all.p99))
			}
		}
		ratio := spreadOf(turns[i], turns[mine], func(theirs, my measured) float64 { return theirs.ns / my.ns })
		if i == mine {
			row = append(row, "")
		} else {
			row = append(row, ratio.String())
		}
		s.rows = append(s.rows, row)
		if g.chart {
			s.bars = append(s.bars, bar{c.name, 1e9 / all.ns, c.role})
		}
		s.checks = append(s.checks, g.checks(c, turns[i], turns[mine], ratio)...)
	}
	return s
}

// checks say whether the goal against c is reached.
func (g group) checks(c candidate, theirs, mine []measured, ratio spread) (all []check) {
	one := check{what: g.name, against: c.name}
	switch {
	case c.goal.least > 0:
		one.asked = fmt.Sprintf("≥ %v×", c.goal.least)
		if c.goal.hoped > 0 {
			one.asked += fmt.Sprintf(" (%v×)", c.goal.hoped)
		}
		one.got, one.ok = ratio.String(), ratio.mid >= c.goal.least
	case c.goal.slower > 0:
		r := spreadOf(theirs, mine, func(theirs, my measured) float64 {
			if g.timed {
				return my.p50 / theirs.p50
			}
			return my.ns / theirs.ns
		})
		one.asked, one.got, one.ok = fmt.Sprintf("≤ %v× its time", c.goal.slower), r.String(), r.mid <= c.goal.slower
	case c.goal.over > 0:
		r := spreadOf(theirs, mine, func(theirs, my measured) float64 { return my.ns - theirs.ns })
		one.asked = fmt.Sprintf("≤ %v more", c.goal.over)
		one.got, one.ok = fmt.Sprintf("%.0f ns (%.0f–%.0f)", r.mid, r.low, r.high), r.mid <= float64(c.goal.over)
	default:
		return nil
	}
	return []check{one}
}

// spread is a figure of all rounds: the median, the lowest and the highest.
type spread struct{ mid, low, high float64 }

func (s spread) String() string { return fmt.Sprintf("%.2f× (%.2f–%.2f)", s.mid, s.low, s.high) }

// spreadOf compares two candidates by rounds.
func spreadOf(theirs, mine []measured, compare func(theirs, mine measured) float64) spread {
	all := make([]float64, len(mine))
	for r := range all {
		all[r] = compare(theirs[r], mine[r])
	}
	return spread{median(all), slices.Min(all), slices.Max(all)}
}

func medianTurn(turns []measured) measured {
	of := func(get func(measured) float64) float64 {
		all := make([]float64, len(turns))
		for i, t := range turns {
			all[i] = get(t)
		}
		return median(all)
	}
	return measured{
		ns:      of(func(m measured) float64 { return m.ns }),
		own:     of(func(m measured) float64 { return m.own }),
		servers: of(func(m measured) float64 { return m.servers }),
		p50:     of(func(m measured) float64 { return m.p50 }),
		p99:     of(func(m measured) float64 { return m.p99 }),
	}
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// scatter makes i a number that looks random, and differs for different i.
func scatter(i uint64) uint64 {
	i ^= i >> 31
	i *= 0x7fb5d329728ea185
	i ^= i >> 27
	i *= 0x81dadef4bc2dd44d
	return i ^ i>>33
}
