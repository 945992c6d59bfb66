package main

import (
	"fmt"
	"runtime"
	"time"
)

// heaps measures what a million keys cost while nobody asks: bytes, and how long a garbage collection of all takes.
func heaps() []group {
	return []group{{name: "heap of 1 M keys in memory", special: heap}}
}

// Goals of the heap.
const (
	mostBytes  = 80 // a key, beside the key's own bytes
	leastPause = 8  // times shorter than x/time/rate in sync.Map
)

func heap(rounds int, _ time.Duration) (s section, err error) {
	keys := &users{n: million}
	var own uint64 // bytes of the keys themselves
	_ = keys.fill(func(name string) error {
		own += uint64(len(name))
		return nil
	})
	s.head = []string{"candidate", "bytes a key, beside its own", "a full collection", "ration's is so many times shorter (spread)"}
	s.note = fmt.Sprintf("A key is %.0f bytes long. A collection is `runtime.GC()` with nothing else alive.", float64(own)/float64(keys.n))
	candidates := []candidate{
		{name: "x/time/rate in a mutex map", open: mutexMap(keys)},
		{name: "x/time/rate in sync.Map", open: syncMap(keys)},
		{name: "sethvargo/go-limiter memorystore", open: sethvargo(keys)},
		{name: "ulule/limiter memory", open: ululeMemory(keys)},
		{name: "throttled memstore", open: throttledMemory(keys)},
		{name: "httprate", open: httprateMemory(keys)},
		{name: "ration memstore", role: ours, open: oursInMemory(keys)},
	}
	sizes, times := make([]float64, len(candidates)), make([][]measured, len(candidates))
	for i, c := range candidates {
		if sizes[i], times[i], err = heapOf(c, rounds, own/keys.n, keys.n); err != nil {
			return s, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	mine := len(candidates) - 1
	for i, c := range candidates {
		ratio := spreadOf(times[i], times[mine], func(theirs, mine measured) float64 { return theirs.ns / mine.ns })
		row := []string{c.name, fmt.Sprintf("%.0f", sizes[i]), duration(medianTurn(times[i]).ns), ratio.String()}
		if i == mine {
			row[0], row[3] = "**"+c.name+"**", ""
		}
		s.rows = append(s.rows, row)
		if c.name == "x/time/rate in sync.Map" {
			s.checks = append(s.checks, check{"a full collection with 1 M keys", c.name, fmt.Sprintf("≥ %d× shorter", leastPause), ratio.String(), ratio.mid >= leastPause})
		}
	}
	s.checks = append(s.checks, check{"bytes a key, beside its own, at 1 M keys", "", fmt.Sprintf("≤ %d", mostBytes), fmt.Sprintf("%.0f", sizes[mine]), sizes[mine] <= mostBytes})
	return s, nil
}

// heapOf fills one candidate, alone, and collects it some times.
func heapOf(c candidate, rounds int, own, keys uint64) (bytes float64, times []measured, err error) {
	before := live()
	work, closer, err := c.open()
	if closer != nil {
		defer closer()
	}
	if err != nil {
		return 0, nil, err
	}
	after := live()
	for range rounds {
		began := time.Now()
		runtime.GC()
		times = append(times, measured{ns: float64(time.Since(began))})
	}
	runtime.KeepAlive(work)
	return (float64(after)-float64(before))/float64(keys) - float64(own), times, nil
}

// live is what is reachable.
func live() uint64 {
	runtime.GC()
	runtime.GC() // what the first one freed, and finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
