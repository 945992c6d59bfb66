package joincontract_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/joincontract"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/storetest"
)

// TestMain fails if a goroutine is left over.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			os.Exit(code)
		}
		<-time.After(10 * time.Millisecond)
	}
	println("joincontract: goroutines are left over")
	os.Exit(1)
}

func opened(t testing.TB) driver.Store {
	s := memstore.New(nil)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestJoined: a memstore passes the suite through joined calls, though it gains nothing by them.
func TestJoined(t *testing.T) {
	t.Parallel()
	storetest.Run(t, joincontract.Joined(storetest.Harness{Open: opened}))
}

// distant is a memstore as another process would see it: a Limiter leases from it, and closes nothing.
type distant struct{ driver.Store }

func (d distant) Info() driver.Info {
	info := d.Store.Info()
	info.Instant, info.Scope, info.MaxBatch, info.InFlight = false, driver.Network, 64, 2
	return info
}

func (d distant) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.Store.Apply(ctx, batch)
}

func (distant) Close() error { return nil }

func TestLeases(t *testing.T) {
	t.Parallel()
	s := opened(t)
	joincontract.Leases(t, func(*testing.T) driver.Store { return distant{s} })
}
