package main

import (
	"math/bits"
	"time"
)

// clock counts calls of one worker by how long they took, in steps of 1.6 %.
type clock struct {
	counts  []uint32
	longest time.Duration
}

const (
	clockFrom  = 10 // bits: what is below a microsecond is one step
	clockUpTo  = 38 // bits: four minutes
	clockSteps = 6  // bits: steps in each doubling
)

// newClocks are none if calls are not timed.
func newClocks(timed bool, workers int) []clock {
	if !timed {
		return nil
	}
	all := make([]clock, workers)
	for i := range all {
		all[i].counts = make([]uint32, (clockUpTo-clockFrom)<<clockSteps)
	}
	return all
}

func (c *clock) add(d time.Duration) {
	c.longest = max(c.longest, d)
	n := uint64(max(d, 1<<clockFrom))
	octave := bits.Len64(n) - 1
	step := (octave-clockFrom)<<clockSteps | int(n>>(octave-clockSteps)&(1<<clockSteps-1))
	c.counts[min(step, len(c.counts)-1)]++
}

// at is the middle of a step, in ns.
func (c *clock) at(step int) float64 {
	octave, part := step>>clockSteps+clockFrom, step&(1<<clockSteps-1)
	return (float64(uint64(1)<<octave) / (1 << clockSteps)) * (float64(part) + 1<<clockSteps + 0.5)
}

// percentiles are those of all clocks, in ns, which are set back.
func percentiles(clocks []clock) (p50, p99 float64) {
	if len(clocks) == 0 {
		return 0, 0
	}
	sum := clock{counts: make([]uint32, len(clocks[0].counts))}
	for _, c := range clocks {
		sum.merge(c)
		clear(c.counts)
	}
	return sum.percentile(0.5), sum.percentile(0.99)
}

func (c *clock) merge(other clock) {
	for i, n := range other.counts {
		c.counts[i] += n
	}
	c.longest = max(c.longest, other.longest)
}

func (c *clock) percentile(part float64) float64 {
	total := uint64(0)
	for _, n := range c.counts {
		total += uint64(n)
	}
	left := uint64(part * float64(total))
	for i, n := range c.counts {
		if uint64(n) > left {
			return c.at(i)
		}
		left -= uint64(n)
	}
	return float64(c.longest)
}
