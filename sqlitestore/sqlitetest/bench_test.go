package sqlitetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

// benchKeys is how many keys the file holds in the benchmarks.
const benchKeys = 100_000

var levels = []struct {
	name string
	sync sqlitestore.Synchronous
}{{"full", sqlitestore.Full}, {"normal", sqlitestore.Normal}}

// eachSetup runs f for each driver and level.
func eachSetup(b *testing.B, f func(b *testing.B, engine string, sync sqlitestore.Synchronous)) {
	for _, engine := range []string{"modernc", "ncruces"} {
		for _, level := range levels {
			b.Run(engine+"/"+level.name, func(b *testing.B) { f(b, engine, level.sync) })
		}
	}
}

func benchTake(i int) *driver.Txn {
	return take(fmt.Sprintf("user:%08x", uint32(i)*2654435761), 1<<40, 1)
}

// filled is a store with benchKeys keys.
func filled(b *testing.B, engine, path string, sync sqlitestore.Synchronous) *sqlitestore.Store {
	s := open(b, engine, path, &sqlitestore.Options{Synchronous: sync, SweepEvery: -1})
	for i := 0; i < benchKeys; i += 1000 {
		var batch []*driver.Txn
		for j := range 1000 {
			batch = append(batch, benchTake(i+j))
		}
		apply(b, s, batch...)
	}
	return s
}

// BenchmarkApply is one caller with batches of several sizes, of keys by chance.
func BenchmarkApply(b *testing.B) {
	eachSetup(b, func(b *testing.B, engine string, sync sqlitestore.Synchronous) {
		s := filled(b, engine, file(b), sync)
		for _, n := range []int{1, 10, 100, 256} {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				batch := make([]*driver.Txn, n)
				for b.Loop() {
					for i := range batch {
						batch[i] = benchTake(rand.IntN(benchKeys))
					}
					apply(b, s, batch...)
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	})
}

// BenchmarkHot is one caller with takes of one key.
func BenchmarkHot(b *testing.B) {
	eachSetup(b, func(b *testing.B, engine string, sync sqlitestore.Synchronous) {
		s := open(b, engine, file(b), &sqlitestore.Options{Synchronous: sync})
		for _, n := range []int{1, 256} {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				batch := make([]*driver.Txn, n)
				for b.Loop() {
					for i := range batch {
						batch[i] = take("hot", 1<<40, 1)
					}
					apply(b, s, batch...)
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	})
}

// BenchmarkRefusal is one caller who is refused, which commits nothing.
func BenchmarkRefusal(b *testing.B) {
	eachSetup(b, func(b *testing.B, engine string, sync sqlitestore.Synchronous) {
		s := open(b, engine, file(b), &sqlitestore.Options{Synchronous: sync})
		apply(b, s, take("hot", 1, 1))
		for b.Loop() {
			apply(b, s, take("hot", 1, 1))
		}
	})
}

// BenchmarkPeek is callers that only read.
func BenchmarkPeek(b *testing.B) {
	eachSetup(b, func(b *testing.B, engine string, sync sqlitestore.Synchronous) {
		s := filled(b, engine, file(b), sync)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				txn := benchTake(rand.IntN(benchKeys))
				txn.Verb = driver.Peek
				apply(b, s, txn)
			}
		})
	})
}

// BenchmarkReserve is one caller who reserves of keys by chance, and settles.
func BenchmarkReserve(b *testing.B) {
	eachSetup(b, func(b *testing.B, engine string, sync sqlitestore.Synchronous) {
		s := filled(b, engine, file(b), sync)
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				reserves, settles := make([]*driver.Txn, n), make([]*driver.Txn, n)
				for b.Loop() {
					for i := range reserves {
						id := fmt.Sprintf("%016x", rand.Uint64())
						reserves[i], settles[i] = reserve(id, 10, false, hour), settle(id, 7)
						reserves[i].Ops = benchTake(rand.IntN(benchKeys)).Ops
					}
					apply(b, s, reserves...)
					apply(b, s, settles...)
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "holds/s")
			})
		}
	})
}

// BenchmarkBareUpsert is what SQLite itself takes for a durable change of one row: no check, no clock, no decision.
func BenchmarkBareUpsert(b *testing.B) {
	eachSetup(b, func(b *testing.B, engine string, sync sqlitestore.Synchronous) {
		path := file(b)
		filled(b, engine, path, sync)
		ctx := context.Background()
		c, err := openDB(b, engine, path).Conn(ctx)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		level := "FULL"
		if sync == sqlitestore.Normal {
			level = "NORMAL"
		}
		for _, text := range []string{
			`PRAGMA synchronous = ` + level, `PRAGMA wal_autocheckpoint = 8192`,
			`CREATE TABLE bare (k BLOB PRIMARY KEY, n INTEGER) STRICT, WITHOUT ROWID`,
			`INSERT INTO bare SELECT key, 0 FROM ration_states`,
		} {
			if _, err := c.ExecContext(ctx, text); err != nil {
				b.Fatal(err)
			}
		}
		upsert, err := c.PrepareContext(ctx, `INSERT INTO bare VALUES (?, 1) ON CONFLICT (k) DO UPDATE SET n = n + 1`)
		if err != nil {
			b.Fatal(err)
		}
		defer upsert.Close()
		for b.Loop() {
			key := append([]byte{1, 0}, benchTake(rand.IntN(benchKeys)).Ops[0].Key.ID...)
			if _, err := upsert.ExecContext(ctx, key); err != nil {
				b.Fatal(err)
			}
		}
	})
}
