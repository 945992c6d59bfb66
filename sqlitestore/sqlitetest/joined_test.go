package sqlitetest

import (
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/joincontract"
	"github.com/ration-go/ration/sqlitestore"
	"github.com/ration-go/ration/storetest"
)

// TestJoined runs the suite through calls that are joined.
func TestJoined(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		again := func(t testing.TB, path string) driver.Store {
			return opened{open(t, engine, path, &sqlitestore.Options{Synchronous: sqlitestore.Normal, SweepEvery: 20 * time.Millisecond}), path}
		}
		storetest.Run(t, joincontract.Joined(storetest.Harness{
			Open:    func(t testing.TB) driver.Store { return again(t, file(t)) },
			Again:   func(t testing.TB, s driver.Store) driver.Store { return again(t, s.(opened).path) },
			Durable: func(testing.TB, driver.Store) {}, // processes are killed elsewhere
		}))
	})
}

// TestLeases has several handles of one file.
func TestLeases(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		joincontract.Leases(t, func(t *testing.T) driver.Store {
			return open(t, engine, path, &sqlitestore.Options{Synchronous: sqlitestore.Normal})
		})
	})
}
