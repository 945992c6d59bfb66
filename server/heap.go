package server

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// leastGarbage is how much garbage there is, in bytes, before it is collected. Go collects when as much has come as lives; of a server
// that keeps its counts elsewhere next to nothing lives, so each few hundred calls would pay for a collection.
const leastGarbage = 32 << 20

// collectLess has garbage collected only when there is leastGarbage of it, or as much as lives if that is more. Whoever has set
// GOGC or GOMEMLIMIT knows better, and keeps it. stop ends it.
func collectLess() (stop func()) {
	if os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	const usual = 100
	c := &collecting{percent: usual}
	c.adjust()
	return func() {
		c.ended.Store(true)
		debug.SetGCPercent(usual)
	}
}

type collecting struct {
	ended   atomic.Bool
	percent int
}

// adjust sets the share of what lives for the next collection, and is called again after it.
func (c *collecting) adjust() {
	if c.ended.Load() {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	live := max(sample[0].Value.Uint64(), 1<<20)
	percent := int(max(100, 100*leastGarbage/live))
	if d := percent - c.percent; d > c.percent/8 || -d > c.percent/8 { // setting it stops all goroutines for a moment
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	// Found to be garbage by the next collection.
	runtime.AddCleanup(new(*int), func(c *collecting) { c.adjust() }, c)
}
