package memstore_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		runtime.Gosched() // for those that are about to end
	}
	if after := runtime.NumGoroutine(); code == 0 && after > before {
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}
