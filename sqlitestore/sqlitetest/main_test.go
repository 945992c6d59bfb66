package sqlitetest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"
	_ "modernc.org/sqlite"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/sqlitestore"
)

// engines are the names under which the drivers are registered, by what people call them.
var engines = map[string]string{"modernc": "sqlite", "ncruces": "sqlite3"}

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	if crowd.IsMember() {
		os.Exit(crowd.Member(openShared))
	}
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks fails if goroutines of the store or of database/sql outlive the tests.
func leaks() int {
	var stacks []byte
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if runtime.NumGoroutine() <= 1 {
			return 0
		}
	}
	stacks = make([]byte, 1<<20)
	fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
	return 1
}

// each runs f for each driver.
func each(t *testing.T, f func(t *testing.T, engine string)) {
	t.Parallel()
	for name := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, name)
		})
	}
}

func openDB(t testing.TB, engine, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open(engines[engine], path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// open is a store on the file at path; without other options it does not sweep by itself.
func open(t testing.TB, engine, path string, opts *sqlitestore.Options) *sqlitestore.Store {
	t.Helper()
	if opts == nil {
		opts = &sqlitestore.Options{SweepEvery: -1}
	}
	s, err := sqlitestore.New(t.Context(), openDB(t, engine, path), opts)
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

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "limits.db") }

// hit is a txn that adds n to the counter of id.
func hit(id string, n int64) *driver.Txn {
	return &driver.Txn{Verb: driver.Hit, Ops: []driver.Op{{
		Key: driver.Key{Space: "c|hits", ID: id}, Kind: driver.Counter, Span: hour, Cost: n,
	}}}
}

// take asks for n of a counter of size.
func take(id string, size, n int64) *driver.Txn {
	return &driver.Txn{Verb: driver.Take, Ops: []driver.Op{{
		Key: driver.Key{Space: "c|takes", ID: id}, Kind: driver.Counter, Size: size, Span: hour, Cost: n,
	}}}
}

const hour driver.Micros = 3600 * 1e6

func apply(t testing.TB, s driver.Store, batch ...*driver.Txn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
	for _, txn := range batch {
		if txn.Err != nil {
			t.Fatal(txn.Err)
		}
	}
}

func used(t testing.TB, s driver.Store, id string) int64 {
	t.Helper()
	txn := hit(id, 0)
	apply(t, s, txn)
	return txn.Ops[0].Result.Used
}
