package storetest

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
)

// TestMain fails if a goroutine of the suite is left over.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			os.Exit(code)
		}
		<-time.After(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	println("storetest: goroutines are left over:\n" + string(stacks[:runtime.Stack(stacks, true)]))
	os.Exit(1)
}

func TestCorrectStore(t *testing.T) {
	t.Parallel()
	Run(t, harness(mutation{}))
}

func TestModelIsCorrect(t *testing.T) {
	t.Parallel()
	Run(t, Harness{Open: func(testing.TB) driver.Store { return newModel() }})
}
