//go:build linux

package pgstore_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/storetest"
)

// opened is a store of a place.
type opened struct {
	*pgstore.Store
	*place
}

// place is where a store is, and how many round trips were made to it.
type place struct {
	pool   *pgxpool.Pool
	schema string
	trips  trips
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

// places are those of one way to reach a server. An empty one is used again: to make tables, and connections that have
// the functions at hand, takes more time than most tests do in them.
type places struct {
	url    string
	change func(*pgxpool.Config)
	mu     sync.Mutex
	empty  []*place
}

func (p *places) make(t testing.TB, schema string) *place {
	t.Helper()
	at := &place{schema: schema}
	cfg, err := pgxpool.ParseConfig(p.url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.DialFunc = at.trips.dial
	if p.change != nil {
		p.change(cfg)
	}
	if at.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	return at
}

// open is an empty store.
func (p *places) open(t testing.TB) driver.Store {
	t.Helper()
	p.mu.Lock()
	var at *place
	if n := len(p.empty); n > 0 {
		at, p.empty = p.empty[n-1], p.empty[:n-1]
	}
	p.mu.Unlock()
	if at == nil {
		at = p.make(t, newSchema())
	}
	t.Cleanup(func() { p.putBack(at) })
	return opened{open(t, at.pool, &pgstore.Options{Schema: at.schema}), at}
}

func (p *places) putBack(at *place) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sql := ""
	for _, table := range []string{"states", "holds", "spaces"} {
		sql += "DELETE FROM " + at.schema + ".ration_" + table + ";"
	}
	if _, err := at.pool.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		at.pool.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.empty = append(p.empty, at)
}

// close ends all connections that no test uses.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.empty {
		at.pool.Close()
	}
	p.empty = nil
}

// harness is of stores on the server at url. change, if not nil, changes the settings of pools.
func harness(t testing.TB, url string, change func(*pgxpool.Config)) (storetest.Harness, *places) {
	p := &places{url: url, change: change}
	t.Cleanup(p.close)
	return storetest.Harness{
		Open: p.open,
		Again: func(t testing.TB, s driver.Store) driver.Store {
			at := p.make(t, s.(opened).schema)
			t.Cleanup(at.pool.Close)
			return opened{open(t, at.pool, &pgstore.Options{Schema: at.schema}), at}
		},
		Trips:   func(s driver.Store) int64 { return s.(opened).trips.n.Load() },
		Durable: func(testing.TB, driver.Store) {}, // that of TestConformance alone is killed
	}, p
}

// TestConformance runs the suite on PostgreSQL 15, with kill -9 of the server.
func TestConformance(t *testing.T) {
	t.Parallel()
	engines.Require(t)
	server, err := engines.StartPostgres(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	h, all := harness(t, server.URL, nil)
	h.Durable = func(t testing.TB, _ driver.Store) {
		all.close()
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
		if err := server.Restart(); err != nil {
			t.Error(err)
		}
	}
	storetest.Run(t, h)
}

// TestConformance18 runs the suite on PostgreSQL 18.
func TestConformance18(t *testing.T) {
	t.Parallel()
	h, _ := harness(t, server(t, 18).URL, nil)
	storetest.Run(t, h)
}

// TestConformanceBehindPgBouncer runs the suite through PgBouncer in transaction mode. Debian's is of before 1.21, so that
// prepared statements get lost.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	h, _ := harness(t, bouncer(t).URL, nil)
	h.Trips = nil // the first calls find out that there are no prepared statements, whichever they are
	storetest.Run(t, h)
}
