//go:build linux

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
)

func count(t testing.TB, pool *pgxpool.Pool, table string) (n int64) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits for a condition that the background brings about.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal(what + " did not happen within a minute")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestBackground: rows go and holds come back without anybody's doing, by the database's clock; rows of an injected clock
// stay.
func TestBackground(t *testing.T) {
	t.Parallel()
	pool := newPool(t, server(t, 15).URL, nil)
	schema := newSchema()
	s := open(t, pool, &pgstore.Options{Schema: schema, SweepEvery: 10 * time.Millisecond})
	brief := func(id string, now driver.Micros) *driver.Txn {
		op := takeOp(id, 10, 1)
		op.Span = 20e3
		return &driver.Txn{Verb: driver.Take, Now: now, Ops: []driver.Op{op}}
	}
	for i := range 100 {
		apply(t, s, brief(fmt.Sprint("k", i), 0))
	}
	apply(t, s, brief("old", 1_700_000_000e6), take("stays", 10, 1))
	hold := func(id string, now driver.Micros) *driver.Txn {
		return &driver.Txn{Verb: driver.Take, ID: id, Hold: true, Return: true, TTL: 50e3, Now: now, Ops: []driver.Op{takeOp("held", 10, 2)}}
	}
	apply(t, s, hold("a", 0), hold("b", driver.MicrosOf(time.Now())))
	until(t, "the sweep of 100 rows", func() bool { return count(t, pool, schema+".ration_states") == 3 })
	until(t, "the return of a hold", func() bool { return used(t, s, "held") == 2 })
	peek := brief("old", 1_700_000_000e6)
	peek.Verb = driver.Peek
	apply(t, s, peek)
	if n := peek.Ops[0].Result.Used; n != 1 {
		t.Errorf("the row of an injected clock was swept by the database's: %d used", n)
	}
	if n, err := s.Sweep(context.Background(), driver.MicrosOf(time.Now())+hour, 100); n != 2 || err != nil {
		t.Errorf("a sweep by the injected clock ends the old row and the other hold, but answered %d, %v", n, err)
	}
	if n := used(t, s, "held"); n != 0 {
		t.Errorf("%d are held, not 0", n)
	}
}

// TestHolds lists open holds over several pages.
func TestHolds(t *testing.T) {
	t.Parallel()
	pool := newPool(t, server(t, 15).URL, nil)
	s := open(t, pool, nil)
	const n = 2200
	for i := 0; i < n; i += 100 {
		var batch []*driver.Txn
		for j := range 100 {
			batch = append(batch, &driver.Txn{Verb: driver.Take, ID: fmt.Sprint("id-", i+j), Hold: true, TTL: hour, Ops: []driver.Op{takeOp("k", 1e6, 3), bucketOp("k", 1e6, 4)}})
		}
		apply(t, s, batch...)
	}
	apply(t, s, &driver.Txn{Verb: driver.Cancel, ID: "id-7"}, &driver.Txn{Verb: driver.Take, ID: "answer", TTL: hour, Ops: []driver.Op{takeOp("k", 1e6, 3)}})
	seen := map[string]bool{}
	for h, err := range s.Holds(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[h.ID] || len(h.Ops) != 2 || h.Ops[0].Cost != 3 || h.Ops[1].Key.ID != "k" || h.Ops[1].Cost != 4 || h.Expires < h.At+hour-1e6 {
			t.Fatalf("hold %+v, seen before: %v", h, seen[h.ID])
		}
		seen[h.ID] = true
	}
	if len(seen) != n-1 || seen["id-7"] {
		t.Errorf("%d holds are listed, not %d", len(seen), n-1)
	}
	for range s.Holds(context.Background()) {
		break
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range s.Holds(cancelled) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("listed under a cancelled context: %v", err)
		}
	}
}

// TestSweepUnderLoad removes very many rows while takes go on. With time it compares how long these take with and without, in
// turns, so that a noisy moment hits both.
func TestSweepUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rows, turn, settings := 20_000, 200*time.Millisecond, []string{"fsync=off"}
	if long() > 1 {
		rows, turn, settings = 1_000_000, 2*time.Second, []string{"fsync=on"}
	}
	pool := newPool(t, engines.Postgres(t, &engines.PostgresOptions{Settings: settings}).URL, nil)
	s := openIn(t, pool, "sweep")
	_, err := pool.Exec(ctx, "INSERT INTO sweep.ration_states SELECT 1, 0, 1, 1, 1, NULL, convert_to('old row number ' || i, 'UTF8') FROM generate_series(1, $1::int) i", rows)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	takes := func() (times []time.Duration) {
		for start := time.Now(); time.Since(start) < turn; n++ {
			began := time.Now()
			apply(t, s, take(fmt.Sprint("k", n%1000), 1e9, 1))
			times = append(times, time.Since(began))
		}
		return times
	}
	takes() // makes the rows
	// Who has this lock keeps sweepers from the table.
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	locked := func(function string) {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_"+function+"(1918989417, 'sweep.ration_states'::regclass::oid::integer)"); err != nil {
			t.Fatal(err)
		}
	}
	locked("lock")
	sweeper := open(t, pool, &pgstore.Options{Schema: "sweep", SweepEvery: 10 * time.Millisecond})
	var with, without []time.Duration
	began, left := time.Now(), true
	for left && time.Since(began) < 10*time.Minute {
		without = append(without, takes()...)
		locked("unlock")
		with = append(with, takes()...)
		locked("lock")
		if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM sweep.ration_states WHERE expires = 1)").Scan(&left); err != nil {
			t.Fatal(err)
		}
	}
	locked("unlock")
	if err := sweeper.Close(); err != nil {
		t.Error(err)
	}
	if left || n < 100 {
		t.Errorf("rows are left: %v; there were %d takes", left, n)
	}
	quantile := func(times []time.Duration, n int) time.Duration {
		slices.Sort(times)
		return times[len(times)*n/1000].Round(time.Microsecond)
	}
	median, medianWith := quantile(without, 500), quantile(with, 500)
	p99, p99With := quantile(without, 990), quantile(with, 990)
	t.Logf("%d rows were swept in %v, half of the time; takes meanwhile (%d): median %v, p99 %v; else (%d): median %v, p99 %v",
		rows, time.Since(began).Round(time.Millisecond), len(with), medianWith, p99With, len(without), median, p99)
	if long() > 1 && p99With > 2*p99 { // else the machine runs other tests too
		t.Errorf("sweeping has made the p99 of takes %v, from %v", p99With, p99)
	}
	if n, err := s.Sweep(ctx, 0, math.MaxInt); n != 0 || err != nil {
		t.Errorf("a sweep of what is swept answered %d, %v", n, err)
	}
}
