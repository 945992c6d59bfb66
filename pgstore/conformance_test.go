//go:build linux

package pgstore_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/storetest"
)

// opened is a store, where it is, and how many round trips it has made.
type opened struct {
	*pgstore.Store
	schema string
	trips  *trips
}

// trips counts what is written to a server after something was read from it.
type trips struct {
	n  atomic.Int64
	mu sync.Mutex
}

func (c *trips) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &counted{Conn: conn, trips: c}, err
}

type counted struct {
	net.Conn
	trips *trips
	wrote atomic.Bool
}

func (c *counted) Write(b []byte) (int, error) {
	if !c.wrote.Swap(true) {
		c.trips.n.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.wrote.Store(false)
	}
	return n, err
}

// harness is of stores on the server at url. change, if not nil, changes the settings of pools.
func harness(url string, change func(*pgxpool.Config)) storetest.Harness {
	open := func(t testing.TB, schema string) driver.Store {
		c := &trips{}
		pool := newPool(t, url, func(cfg *pgxpool.Config) {
			cfg.ConnConfig.DialFunc = c.dial
			if change != nil {
				change(cfg)
			}
		})
		return opened{open(t, pool, &pgstore.Options{Schema: schema, SweepEvery: -1}), schema, c}
	}
	return storetest.Harness{
		Open:  func(t testing.TB) driver.Store { return open(t, newSchema()) },
		Again: func(t testing.TB, s driver.Store) driver.Store { return open(t, s.(opened).schema) },
		Trips: func(s driver.Store) int64 { return s.(opened).trips.n.Load() },
	}
}

// TestConformance runs the suite on PostgreSQL 15, with kill -9 of the server.
func TestConformance(t *testing.T) {
	t.Parallel()
	engines.Require(t)
	server, err := engines.StartPostgres(&engines.PostgresOptions{Settings: []string{"fsync=on"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	h := harness(server.URL, nil)
	h.Durable = func(t testing.TB, _ driver.Store) {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
		if err := server.Restart(); err != nil {
			t.Error(err)
		}
	}
	storetest.Run(t, h)
}

// withoutCrash is h where the server is shared: that of TestConformance alone is killed.
func withoutCrash(h storetest.Harness) storetest.Harness {
	h.Durable = func(testing.TB, driver.Store) {}
	return h
}

// TestConformance18 runs the suite on PostgreSQL 18.
func TestConformance18(t *testing.T) {
	t.Parallel()
	storetest.Run(t, withoutCrash(harness(server(t, 18).URL, nil)))
}

// TestConformanceBehindPgBouncer runs the suite through PgBouncer in transaction mode. Debian's is of before 1.21, so that
// prepared statements get lost.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	h := withoutCrash(harness(bouncer(t).URL, nil))
	h.Trips = nil // the first calls find out that there are no prepared statements, whichever they are
	storetest.Run(t, h)
}
