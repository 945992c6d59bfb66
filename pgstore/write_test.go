//go:build linux

package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
)

// effect is what a batch did to the database.
type effect struct {
	walRecords, walBytes int64
	xid, lax             bool
}

// effectOf decides batch in a transaction and looks at it.
func effectOf(t *testing.T, pool *pgxpool.Pool, text string) (e effect) {
	t.Helper()
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var plan []byte
		if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, WAL, FORMAT JSON) "+text).Scan(&plan); err != nil {
			return err
		}
		var top []struct {
			Plan struct {
				Records int64 `json:"WAL Records"`
				Bytes   int64 `json:"WAL Bytes"`
			}
		}
		if err := json.Unmarshal(plan, &top); err != nil {
			return err
		}
		e.walRecords, e.walBytes = top[0].Plan.Records, top[0].Plan.Bytes
		return tx.QueryRow(ctx, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL, current_setting('synchronous_commit') = 'off'").Scan(&e.xid, &e.lax)
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func windowOp(id string, size, n int64) driver.Op {
	op := takeOp(id, size, n)
	op.Key.Space, op.Kind = "w|takes|", driver.Window
	return op
}

func bucketOp(id string, size, n int64) driver.Op {
	op := takeOp(id, size, n)
	op.Key.Space, op.Kind = "b|takes|", driver.Bucket
	op.Rate = 1
	op.Gain, op.Unit, op.Tick, _ = driver.Units(size, op.Rate, op.Span)
	return op
}

func budgetOp(id string, size, n int64) driver.Op {
	op := takeOp(id, size, n)
	op.Key.Space, op.Kind, op.Span = "u|takes|", driver.Budget, 0
	op.Bounds = [4]driver.Micros{1, 2, 3, driver.MaxNow}
	return op
}

// TestWrites: what is refused or only asked writes nothing, locks nothing and takes no transaction id, whichever statement
// decides it.
func TestWrites(t *testing.T) {
	t.Parallel()
	pool := newPool(t, server(t, 15).URL, nil)
	s := open(t, pool, nil)
	ops := func(size, n int64) []driver.Op {
		return []driver.Op{takeOp("k", size, n), windowOp("k", size, n), bucketOp("k", size, n), budgetOp("k", size, n)}
	}
	for _, op := range ops(10, 7) {
		apply(t, s, &driver.Txn{Verb: driver.Take, Ops: []driver.Op{op}})
	}
	hold := func(n int64) *driver.Txn {
		return &driver.Txn{Verb: driver.Take, ID: "id", Hold: true, TTL: hour, Ops: ops(10, n)}
	}
	single := func(verb driver.Verb, n int64) (batch []*driver.Txn) {
		for _, op := range ops(10, n) {
			batch = append(batch, &driver.Txn{Verb: verb, Ops: []driver.Op{op}})
		}
		return batch
	}
	refused, asked := single(driver.Take, 5), single(driver.Peek, 1)
	nothing := map[string][]*driver.Txn{
		"a batch of refusals":        refused,
		"a batch without windows":    {refused[0], refused[2], refused[3]},
		"a batch of peeks":           asked,
		"a refused list":             {{Verb: driver.Take, Ops: ops(10, 5)}},
		"a refused hold":             {hold(5)},
		"a cost of nothing":          single(driver.Take, 0),
		"a hit of nothing":           {{Verb: driver.Hit, Ops: []driver.Op{takeOp("k", 0, 0)}}},
		"a refund of nothing":        {{Verb: driver.Refund, Ops: []driver.Op{takeOp("unknown", 10, 5)}}},
		"a reset of nothing":         {{Verb: driver.Reset, Ops: []driver.Op{takeOp("unknown", 10, 5)}}},
		"forgetting nothing":         {{Verb: driver.Forget, Ops: []driver.Op{{Key: driver.Key{Space: "x", ID: "k"}}}}},
		"the end of a hold unknown":  {{Verb: driver.Settle, ID: "unknown"}},
		"an unknown space, refused":  {{Verb: driver.Take, Ops: []driver.Op{{Key: driver.Key{Space: "new", ID: "k"}, Kind: driver.Counter, Span: hour, Cost: 1}}}},
		"two on one key, both in it": {refused[0], {Verb: driver.Take, Ops: refused[0].Ops}},
	}
	for i := range refused {
		nothing[fmt.Sprint("refusal of kind ", refused[i].Ops[0].Kind)] = refused[i : i+1]
		nothing[fmt.Sprint("peek of kind ", asked[i].Ops[0].Kind)] = asked[i : i+1]
	}
	for name, batch := range nothing {
		e := effectOf(t, pool, s.Text(batch...))
		if e.walBytes != 0 && !e.xid { // who reads a page may clear dead rows from it, once
			e = effectOf(t, pool, s.Text(batch...))
		}
		if e.walBytes != 0 || e.xid {
			t.Errorf("%s wrote %d bytes of WAL, took a transaction id: %v", name, e.walBytes, e.xid)
		}
	}
	if e := effectOf(t, pool, s.Text(single(driver.Take, 1)...)); e.walRecords == 0 || !e.xid || e.lax {
		t.Errorf("takes that pass write, and wait for the disk: %+v", e)
	}
	apply(t, s, hold(1))
	if e := effectOf(t, pool, s.Text(hold(1))); e.walBytes != 0 || e.xid {
		t.Errorf("a hold that is made again wrote %d bytes of WAL, took a transaction id: %v", e.walBytes, e.xid)
	}
}

// TestAsync: a batch is as hard as its hardest member, and what is remembered under an id always waits for the disk.
func TestAsync(t *testing.T) {
	t.Parallel()
	pool := newPool(t, server(t, 15).URL, nil)
	s := open(t, pool, nil)
	async := func(op driver.Op) *driver.Txn {
		return &driver.Txn{Verb: driver.Take, Async: true, Ops: []driver.Op{op}}
	}
	a, b, w := async(takeOp("a", 100, 1)), async(bucketOp("b", 100, 1)), async(windowOp("w", 100, 1))
	if e := effectOf(t, pool, s.Text(a)); e.lax {
		t.Error("the first of a space is found by Forget for ever: it waits for the disk")
	}
	apply(t, s, clone(a), clone(b), clone(w))
	hard := clone(a)
	hard.Async, hard.Ops[0].Key.ID = false, "c"
	id := clone(a)
	id.ID, id.TTL = "id", hour
	asked := clone(hard)
	asked.Verb = driver.Peek
	for _, c := range []struct {
		name  string
		batch []*driver.Txn
		lax   bool
	}{
		{"one", []*driver.Txn{a}, true},
		{"takes", []*driver.Txn{a, b}, true},
		{"all", []*driver.Txn{a, b, w}, true},
		{"one and a question", []*driver.Txn{a, asked}, true},
		{"one that waits", []*driver.Txn{a, hard}, false},
		{"among others", []*driver.Txn{a, hard, w}, false},
		{"with an id", []*driver.Txn{id}, false},
		{"beside an id", []*driver.Txn{a, id}, false},
	} {
		if e := effectOf(t, pool, s.Text(c.batch...)); e.lax != c.lax || !e.xid {
			t.Errorf("%s: need not wait for the disk: %v, want %v", c.name, e.lax, c.lax)
		}
	}
}

// TestHOT: rows are updated in place: no index is written, and what is left behind is cleared away on the way.
func TestHOT(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	// A server of its own: as long as another test has a transaction open, what it might still see is not cleared away, in
	// whichever database.
	pool := newPool(t, engines.Postgres(t, nil).URL, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	schema := newSchema()
	s := openIn(t, pool, schema)
	h := &history{}
	h.Rand = newRand(t)
	const keys = 2000
	for range 10_000 * long() / 100 {
		seen := map[int]bool{}
		var batch []*driver.Txn
		for range 100 {
			k := h.IntN(keys)
			if seen[k] {
				continue
			}
			seen[k] = true
			op := takeOp(fmt.Sprint("key-", k), 1e6, 1+h.Int64N(3))
			if k%2 == 0 {
				op = bucketOp(fmt.Sprint("key-", k), 1e6, 1+h.Int64N(3))
			}
			batch = append(batch, &driver.Txn{Verb: driver.Take, Async: true, Ops: []driver.Op{op}})
		}
		apply(t, s, batch...)
	}
	var updates, hot int64
	if _, err := pool.Exec(ctx, "SELECT pg_stat_force_next_flush()"); err != nil {
		t.Fatal(err)
	}
	err := pool.QueryRow(ctx, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'ration_states'", schema).Scan(&updates, &hot)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d updates were HOT", hot, updates)
	if updates < 5000 || hot*100 < updates*95 {
		t.Errorf("%d of %d updates were HOT, which is less than 95 %%", hot, updates)
	}
}
