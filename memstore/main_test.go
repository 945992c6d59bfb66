package memstore_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for range 10_000 {
		if runtime.NumGoroutine() <= before {
			break
		}
		runtime.Gosched() // those that are about to end
	}
	if after := runtime.NumGoroutine(); code == 0 && after > before {
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}
