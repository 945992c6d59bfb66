//go:build linux

package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	if crowd.IsMember() {
		os.Exit(crowd.Member(openShared))
	}
	code := m.Run()
	for _, s := range slices.Backward(shared.all) {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks fails if goroutines of a store or of pgx outlive the tests.
func leaks() int {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if runtime.NumGoroutine() <= 2 { // the second is that of os/signal or of the servers' keeper
			return 0
		}
	}
	stacks := make([]byte, 1<<20)
	fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
	return 1
}

// shared are the servers that the tests of the package share, each started when the first asks for it.
var shared struct {
	mu      sync.Mutex
	servers map[int]*engines.Server
	bouncer *engines.Server
	all     []*engines.Server
}

// server is the shared PostgreSQL of a version.
func server(t testing.TB, version int) *engines.Server {
	t.Helper()
	engines.Require(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.servers[version]; s != nil {
		return s
	}
	s, err := engines.StartPostgres(&engines.PostgresOptions{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	if shared.servers == nil {
		shared.servers = make(map[int]*engines.Server)
	}
	shared.servers[version] = s
	shared.all = append(shared.all, s)
	return s
}

// bouncer is the shared PgBouncer, in front of PostgreSQL 15.
func bouncer(t testing.TB) *engines.Server {
	t.Helper()
	backend := server(t, 15)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.bouncer != nil {
		return shared.bouncer
	}
	s, err := engines.StartPgBouncer(backend, &engines.PgBouncerOptions{Settings: []string{"default_pool_size = 10"}})
	if err != nil {
		t.Fatal(err)
	}
	shared.bouncer = s
	shared.all = append(shared.all, s)
	return s
}

var schemas atomic.Int64

// newSchema is a name that no other test uses.
func newSchema() string { return fmt.Sprintf("t%d", schemas.Add(1)) }

// newPool is a pool that ends with the test. change, if not nil, changes its settings.
func newPool(t testing.TB, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 8
	if change != nil {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// open is a store that ends with the test, in a schema of its own if opts name none. It does not sweep by itself.
func open(t testing.TB, pool *pgxpool.Pool, opts *pgstore.Options) *pgstore.Store {
	t.Helper()
	var o pgstore.Options
	if opts != nil {
		o = *opts
	}
	if o.Schema == "" {
		o.Schema = newSchema()
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = -1
	}
	s, err := pgstore.New(context.Background(), pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func apply(t testing.TB, s driver.Store, batch ...*driver.Txn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
}

func openIn(t testing.TB, pool *pgxpool.Pool, schema string) *pgstore.Store {
	return open(t, pool, &pgstore.Options{Schema: schema})
}
