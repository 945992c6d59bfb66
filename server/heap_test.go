package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestCollectLess changes what all of the process shares, so it runs alone.
func TestCollectLess(t *testing.T) {
	t.Setenv("GOGC", "")
	goal := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	soon := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !is(); runtime.GC() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the goal is %d bytes", what, goal())
			}
		}
	}
	stop := collectLess()
	soon("little lives", func() bool { return goal() >= leastGarbage && goal() < 4*leastGarbage })
	keep := make([]byte, 4*leastGarbage)
	soon("much lives", func() bool { return goal() >= 8*leastGarbage && goal() < 10*leastGarbage })
	runtime.KeepAlive(keep)
	stop()
	if old := debug.SetGCPercent(100); old != 100 {
		t.Errorf("afterwards it is %d", old)
	}

	t.Setenv("GOGC", "50")
	collectLess()()
	if old := debug.SetGCPercent(100); old != 100 {
		t.Errorf("GOGC was set, and it is %d", old)
	}
}
