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

// TestSweepUnderLoad removes very many rows while takes go on, and compares how long those take with and without.
func TestSweepUnderLoad(t *testing.T) {
	ctx := context.Background()
	pool := newPool(t, server(t, 15).URL, nil)
	schema := newSchema()
	s := openIn(t, pool, schema)
	rows := int64(50_000)
	if long() > 1 {
		rows = 1_000_000
	}
	_, err := pool.Exec(ctx, "INSERT INTO "+schema+".ration_states SELECT 1, 0, 1, 1, 1, NULL, convert_to('old row number ' || i, 'UTF8') FROM generate_series(1, $1::bigint) i", rows)
	if err != nil {
		t.Fatal(err)
	}
	takes := func(done func() bool) (times []time.Duration) {
		for i := 0; !done() || i < 300; i++ {
			began := time.Now()
			apply(t, s, take(fmt.Sprint("k", i%1000), 1e9, 1))
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		return times
	}
	p99 := func(times []time.Duration) time.Duration { return times[len(times)*99/100] }
	quiet := time.Now().Add(2 * time.Second)
	before := p99(takes(func() bool { return time.Now().After(quiet) }))

	sweeper := open(t, pool, &pgstore.Options{Schema: schema, SweepEvery: time.Second})
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for began := time.Now(); time.Since(began) < 10*time.Minute; <-time.After(100 * time.Millisecond) {
			var left int64
			if err := pool.QueryRow(ctx, "SELECT count(*) FROM "+schema+".ration_states WHERE expires = 1").Scan(&left); err != nil || left == 0 {
				return
			}
		}
	}()
	began := time.Now()
	times := takes(func() bool {
		select {
		case <-swept:
			return true
		default:
			return false
		}
	})
	t.Logf("%d rows were swept in %v; the p99 of takes was %v before and %v meanwhile (%d takes)", rows, time.Since(began).Round(time.Millisecond), before, p99(times), len(times))
	if n := count(t, pool, schema+".ration_states"); n > 1000 {
		t.Errorf("%d rows are left", n)
	}
	if after := p99(times); after > 2*before+20*time.Millisecond {
		t.Errorf("sweeping has made the p99 of takes %v, from %v", after, before)
	}
	if err := sweeper.Close(); err != nil {
		t.Error(err)
	}
	if n, err := s.Sweep(ctx, 0, math.MaxInt); n != 0 || err != nil {
		t.Errorf("a sweep of what is swept answered %d, %v", n, err)
	}
}
