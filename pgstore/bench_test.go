//go:build linux

package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
)

const benchKeys = 100_000

var benchIDs = func() (ids [benchKeys]string) {
	for i := range ids {
		ids[i] = "user-" + strconv.Itoa(i)
	}
	return ids
}()

// benchmark makes a server that waits for the disk, a store, and a table with the plainest rows.
func benchmark(b *testing.B, conns int32) (*pgxpool.Pool, *pgstore.Store) {
	b.Helper()
	s := engines.Postgres(b, &engines.PostgresOptions{Settings: []string{"fsync=on", "shared_buffers=256MB", "max_wal_size=4GB"}})
	pool := newPool(b, s.URL, func(cfg *pgxpool.Config) { cfg.MaxConns = conns })
	if _, err := pool.Exec(b.Context(), "CREATE TABLE plain (k text PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 80)"); err != nil {
		b.Fatal(err)
	}
	store := open(b, pool, nil)
	// Every row is there before the clock runs, on both sides.
	if _, err := pool.Exec(b.Context(), "INSERT INTO plain SELECT 'user-' || i, 0 FROM generate_series(0, $1::int - 1) i", benchKeys); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < benchKeys; i += 1000 {
		var batch []*driver.Txn
		for j := range 1000 {
			batch = append(batch, benchTake(benchIDs[i+j]))
		}
		apply(b, store, batch...)
	}
	if _, err := pool.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
	return pool, store
}

func benchTake(id string) *driver.Txn {
	return &driver.Txn{Verb: driver.Take, Ops: []driver.Op{{
		Key: driver.Key{Space: "bench|b|rule|", ID: id}, Kind: driver.Bucket, Size: 1_000_000, Cost: 1,
		Rate: 1, Span: 1e6, Gain: 1, Unit: 1e6, Tick: 1,
	}}}
}

func benchUpsert(ctx context.Context, pool *pgxpool.Pool, id string) error {
	var n int64
	return pool.QueryRow(ctx, "INSERT INTO plain AS p (k, n) VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET n = p.n + 1 RETURNING n", id).Scan(&n)
}

// run has so many callers make b.N calls.
func run(b *testing.B, callers int, call func(rng *rand.Rand) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for left.Add(-1) >= 0 {
				if err := call(rng); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

// BenchmarkCalls compares a call with a bare upsert of one row through pgx, which decides nothing.
func BenchmarkCalls(b *testing.B) {
	pool, store := benchmark(b, 64)
	ctx := context.Background()
	any := func(rng *rand.Rand) string { return benchIDs[rng.IntN(benchKeys)] }
	hot := func(*rand.Rand) string { return benchIDs[0] }
	admit := func(key func(*rand.Rand) string) func(*rand.Rand) error {
		return func(rng *rand.Rand) error { return store.Apply(ctx, []*driver.Txn{benchTake(key(rng))}) }
	}
	refuse := func(*rand.Rand) error {
		t := benchTake("refused")
		t.Ops[0].Size, t.Ops[0].Cost = 10, 10
		return store.Apply(ctx, []*driver.Txn{t})
	}
	upsert := func(key func(*rand.Rand) string) func(*rand.Rand) error {
		return func(rng *rand.Rand) error { return benchUpsert(ctx, pool, key(rng)) }
	}
	if err := refuse(nil); err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 64} {
		for _, c := range []struct {
			name string
			call func(*rand.Rand) error
		}{{"upsert any key", upsert(any)}, {"take any key", admit(any)}, {"upsert hot key", upsert(hot)}, {"take hot key", admit(hot)}, {"refuse hot key", refuse}} {
			b.Run(fmt.Sprintf("%s/callers=%d", c.name, callers), func(b *testing.B) { run(b, callers, c.call) })
		}
	}
}

// BenchmarkBatches decides on many keys by one statement: an operation is one decision.
func BenchmarkBatches(b *testing.B) {
	_, store := benchmark(b, 8)
	for _, size := range []int{16, 64, 256} {
		for _, flight := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("size=%d/in flight=%d", size, flight), func(b *testing.B) {
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for i := range flight {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), 1))
						for left.Add(int64(-size)) > int64(-size) {
							seen := make(map[int]bool, size)
							batch := make([]*driver.Txn, 0, size)
							for len(batch) < size {
								if k := rng.IntN(benchKeys); !seen[k] {
									seen[k] = true
									batch = append(batch, benchTake(benchIDs[k]))
								}
							}
							if err := store.Apply(context.Background(), batch); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkLimiter takes through a Limiter, which joins the calls that come while others are under way.
func BenchmarkLimiter(b *testing.B) {
	_, store := benchmark(b, 8)
	l := ration.New(store, nil)
	rule := ration.Rule{Name: "rule", Limit: ration.TokenBucket{Burst: 1_000_000, Refill: ration.PerSecond(1)}}
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			run(b, callers, func(rng *rand.Rand) error {
				_, err := l.Take(context.Background(), ration.KeyOf(benchIDs[rng.IntN(benchKeys)]), rule, 1)
				return err
			})
		})
	}
}
