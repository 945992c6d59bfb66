//go:build linux

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/pgstore"
)

// TestRole: a role that may not create anything uses what another has migrated, with the rights that docs/postgres.md names.
func TestRole(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	admin := newPool(t, server(t, 15).URL, nil)
	schema, role := newSchema(), "role_"+newSchema()
	if _, err := admin.Exec(ctx, "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, server(t, 15).URL, func(cfg *pgxpool.Config) { cfg.ConnConfig.User = role })

	if _, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: schema, NoMigrate: true}); !errors.Is(err, pgstore.ErrSchema) {
		t.Errorf("a schema that is not there: %v", err)
	}
	if _, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: schema}); err == nil {
		t.Error("a role without rights has migrated")
	}
	if err := pgstore.Migrate(ctx, admin, &pgstore.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: schema}); err == nil {
		t.Error("a role without rights on the schema has opened it")
	}
	if _, err := admin.Exec(ctx, "GRANT USAGE ON SCHEMA "+schema+" TO "+role+
		"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+role); err != nil {
		t.Fatal(err)
	}
	s := openIn(t, pool, schema)
	sameAsRun(t, s, history{ids: true})
	if _, err := s.Sweep(ctx, driver.MaxNow, 1000); err != nil {
		t.Error(err)
	}
}

// TestMigrateAtOnce: programs that start together find or make the schema.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	pool := newPool(t, server(t, 15).URL, nil)
	schema := newSchema()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := pgstore.New(context.Background(), pool, &pgstore.Options{Schema: schema, SweepEvery: time.Millisecond})
			if err != nil {
				t.Error(err)
				return
			}
			if n := takeTogether(t, s, 2, 10, func() *driver.Txn { return take("k", 1000, 1) }); n != 20 {
				t.Errorf("%d of 20 passed", n)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := openIn(t, pool, schema)
	if n := used(t, s, "k"); n != 120 {
		t.Errorf("%d are used, not 120", n)
	}
	if err := pgstore.Migrate(context.Background(), pool, &pgstore.Options{Schema: schema}); err != nil {
		t.Error(err)
	}
	if n := used(t, s, "k"); n != 120 {
		t.Errorf("after another migration %d are used, not 120", n)
	}
}

// TestDeadline: a call whose row is locked by somebody returns within its deadline, and it is the database that gives up, so
// that surely nothing was charged.
func TestDeadline(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := newPool(t, server(t, 15).URL, nil)
	schema := newSchema()
	s := openIn(t, pool, schema)
	apply(t, s, take("k0", 100, 1), take("k1", 100, 1), take("k2", 100, 1), take("k3", 100, 1))
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT FROM "+schema+".ration_states FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for name, batch := range map[string][]*driver.Txn{
		"one":   {take("k0", 100, 1)},
		"takes": {take("k1", 100, 1), take("l", 100, 1)},
		"list":  {{Verb: driver.Take, Ops: []driver.Op{takeOp("k2", 100, 1), takeOp("m", 100, 1)}}},
		"hit":   {{Verb: driver.Hit, Ops: []driver.Op{takeOp("k3", 100, 1)}}},
	} {
		wg.Go(func() {
			short, cancel := context.WithTimeout(ctx, 8*time.Second) // an eighth of it is for a crowded machine
			defer cancel()
			began := time.Now()
			err := s.Apply(short, batch)
			if took := time.Since(began); !errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.DeadlineExceeded) || took > 20*time.Second {
				t.Errorf("%s: a locked row: %v after %v", name, err, took)
			}
		})
	}
	wg.Wait()
	peek := take("k0", 100, 1)
	peek.Verb = driver.Peek
	apply(t, s, peek, take("unlocked", 100, 1)) // neither waits
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if n := used(t, s, fmt.Sprint("k", i)); n != 1 {
			t.Errorf("%d are used, not 1", n)
		}
	}
}

// TestOtherLocks: somebody's transactions that lock rows of ours in any order cost a retry, not an error.
func TestOtherLocks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := newPool(t, server(t, 15).URL, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["deadlock_timeout"] = "20ms" })
	schema := newSchema()
	s := openIn(t, pool, schema)
	apply(t, s, take("a", 1000, 1), take("b", 1000, 1))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			tx, err := pool.Begin(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for _, key := range []string{"b", "a"} {
				// One of the two is chosen to fail, and the other goes on.
				if _, err = tx.Exec(ctx, "SELECT FROM "+schema+".ration_states WHERE key = $1 FOR UPDATE", driver.Key{Space: "c|takes|", ID: key}.AppendTo(nil)); err != nil {
					break
				}
			}
			_ = tx.Rollback(ctx)
		}
	}()
	n := takeTogether(t, s, 4, 50, func() *driver.Txn {
		return &driver.Txn{Verb: driver.Take, Ops: []driver.Op{takeOp("a", 1000, 1), takeOp("b", 1000, 1)}}
	})
	<-done
	if a, b := used(t, s, "a"), used(t, s, "b"); n != 200 || a != 201 || b != 201 {
		t.Errorf("%d passed of 200, and %d and %d are used", n, a, b)
	}
}

// TestClocks: two programs whose clocks are ten minutes off to both sides decide as the database's clock says.
func TestClocks(t *testing.T) {
	t.Parallel()
	const minute = driver.Micros(60 * 1e6)
	pool := newPool(t, server(t, 15).URL, nil)
	schema := newSchema()
	stores := []*pgstore.Store{openIn(t, pool, schema), openIn(t, pool, schema)}
	now := driver.MicrosOf(time.Now())
	period := now - now%(20*minute)
	// Each program sends the bounds around its own clock.
	budget := func(off driver.Micros) driver.Op {
		op := takeOp("u", 10, 3)
		op.Key.Space, op.Kind, op.Span = "u|u|", driver.Budget, 0
		start := (now + off) - (now+off)%(20*minute)
		op.Bounds = [4]driver.Micros{start - 20*minute, start, start + 20*minute, start + 40*minute}
		return op
	}
	ends := map[driver.Micros]int{}
	for i := range 4 {
		off := [...]driver.Micros{-10 * minute, 10 * minute}[i%2]
		for _, op := range []driver.Op{takeOp("c", 10, 3), bucketOp("b", 10, 3), windowOp("w", 10, 3), budget(off)} {
			txn := &driver.Txn{Verb: driver.Take, Ops: []driver.Op{op}}
			apply(t, stores[i%2], txn)
			if txn.Err != nil || txn.Allowed != (i < 3) {
				t.Errorf("take %d of kind %d, by a clock %d min off: %v, %v", i, op.Kind, off/minute, txn.Allowed, txn.Err)
			}
			if late := txn.At - driver.MicrosOf(time.Now()); late > minute || late < -minute {
				t.Errorf("decided at %v, which is not the database's clock", txn.At.Time())
			}
			if op.Kind == driver.Budget {
				ends[txn.Ops[0].Result.ResetAt]++
			}
		}
	}
	if len(ends) != 1 || ends[period+20*minute] != 4 {
		t.Errorf("periods ended at %v, not all at %d", ends, period+20*minute)
	}
	far := budget(100 * minute)
	txn := &driver.Txn{Verb: driver.Take, Ops: []driver.Op{far}}
	apply(t, stores[0], txn)
	if !errors.Is(txn.Err, driver.ErrClock) || txn.At == 0 {
		t.Errorf("bounds of another time: %v at %d", txn.Err, txn.At)
	}
}
