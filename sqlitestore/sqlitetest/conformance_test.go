package sqlitetest

import (
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
	"github.com/ration-go/ration/storetest"
)

// opened is a store and where it is.
type opened struct {
	*sqlitestore.Store
	path string
}

// TestConformance runs the suite on stores in this process, which sweep often and do not wait for the disk.
func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		again := func(t testing.TB, path string) driver.Store {
			return opened{open(t, engine, path, &sqlitestore.Options{Synchronous: sqlitestore.Normal, SweepEvery: 20 * time.Millisecond}), path}
		}
		storetest.Run(t, storetest.Harness{
			Open:  func(t testing.TB) driver.Store { return again(t, file(t)) },
			Again: func(t testing.TB, s driver.Store) driver.Store { return again(t, s.(opened).path) },
		})
	})
}

// TestConformanceOfProcesses runs the suite on stores in other processes, with kill -9.
func TestConformanceOfProcesses(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		storetest.Run(t, storetest.Harness{
			Open:    func(t testing.TB) driver.Store { return startRemote(t, engine, file(t)) },
			Again:   func(t testing.TB, s driver.Store) driver.Store { return startRemote(t, engine, s.(*remote).path) },
			Durable: func(t testing.TB, s driver.Store) { s.(*remote).kill(t) },
		})
	})
}
