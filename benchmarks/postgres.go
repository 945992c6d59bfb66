//go:build linux

package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
)

// postgres compares decisions of a durable PostgreSQL (fsync, synchronous commit) with the least that a program could send
// instead: an upsert that adds one to the row of a key, and decides nothing.
func postgres() []group {
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i)
	}
	hot := keys[:1]
	var all []group
	add := func(name string, callers int, candidates func(*database) []candidate) {
		all = append(all, group{name: "postgres, " + name, workers: callers, timed: true, chart: callers == 256, candidates: candidates(&database{keys: keys})})
	}
	const upsert, take = "pgx, an upsert a call", "ration pgstore, bucket"
	against := func(keys []string, g goal, opts *ration.Options) func(*database) []candidate {
		return func(db *database) []candidate {
			return []candidate{
				{name: upsert, goal: g, open: db.upsert(keys)},
				{name: take, role: ours, open: db.takes(keys, opts)},
			}
		}
	}
	alone := &ration.Options{NoJoin: true, Timeout: time.Minute}
	joined := &ration.Options{Timeout: time.Minute}
	latency := goal{slower: 1.05}
	add("one hot key, 1 caller", 1, against(hot, latency, joined))
	for callers, g := range inOrder(map[int]goal{16: {}, 64: {least: 60, hoped: 90}, 256: {least: 130, hoped: 250}}) {
		add(fmt.Sprintf("one hot key, %d callers", callers), callers, against(hot, g, joined))
	}
	add("100 k keys, 1 caller", 1, against(keys, latency, joined))
	for callers, g := range inOrder(map[int]goal{16: {}, 64: {least: 3.5, hoped: 5}, 256: {least: 7, hoped: 10}}) {
		add(fmt.Sprintf("100 k keys, %d callers", callers), callers, func(db *database) []candidate {
			ceiling := goal{}
			if callers == 256 {
				ceiling = goal{least: 0.6, hoped: 0.8}
			}
			return []candidate{
				{name: upsert, goal: g, open: db.upsert(keys)},
				{name: "pgx, upserts of 100 rows by unnest, on 4 connections", role: bound, bulk: true, goal: ceiling, open: db.unnest()},
				{name: take, role: ours, open: db.takes(keys, joined)},
			}
		})
	}
	add("100 k keys, 64 callers, without joining", 64, against(keys, goal{}, alone))
	add("one hot refused key, 64 callers, without joining", 64, func(db *database) []candidate {
		return []candidate{
			{name: upsert, open: db.upsert(hot)},
			{name: take, role: ours, open: db.refusals(hot[0], alone)},
		}
	})
	return all
}

// inOrder are the entries of m by their keys.
func inOrder(m map[int]goal) iter.Seq2[int, goal] {
	return func(yield func(int, goal) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// database is a server of a group's own, which its candidates share. It starts with the first and ends with the last.
type database struct {
	keys   []string
	mu     sync.Mutex
	users  int
	server *engines.Server
}

// connect answers a pool of so many connections, and what gives it back.
func (db *database) connect(conns int) (*pgxpool.Pool, func(), error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.server == nil {
		if err := db.start(); err != nil {
			return nil, nil, err
		}
	}
	config, err := pgxpool.ParseConfig(db.server.URL)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = int32(conns)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, err
	}
	db.users++
	return pool, func() {
		pool.Close()
		db.mu.Lock()
		defer db.mu.Unlock()
		if db.users--; db.users == 0 {
			db.server.Close()
			db.server = nil
		}
	}, nil
}

// start makes the rows of all keys before anything is measured, on both sides, in one order.
func (db *database) start() error {
	ctx := context.Background()
	server, err := engines.StartPostgres(&engines.PostgresOptions{Settings: []string{"fsync=on", "shared_buffers=256MB",
		// After a checkpoint the first change of each page is a copy of it, for who has the larger pages more so; between two,
		// that is nothing.
		"checkpoint_timeout=1h", "max_wal_size=16GB"}})
	if err != nil {
		return err
	}
	err = func() error {
		pool, err := pgxpool.New(ctx, server.URL)
		if err != nil {
			return err
		}
		defer pool.Close()
		var version string
		if err := pool.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
			return err
		}
		servers.note("PostgreSQL " + version)
		store, err := pgstore.New(ctx, pool, nil)
		if err != nil {
			return err
		}
		l := ration.New(store, &ration.Options{Timeout: time.Minute})
		var wg sync.WaitGroup
		errs := make([]error, 256)
		for part := range errs {
			wg.Go(func() {
				for i := part; i < len(db.keys) && errs[part] == nil; i += len(errs) {
					_, errs[part] = l.Take(ctx, ration.KeyOf(db.keys[i]), rule, 1)
				}
			})
		}
		wg.Wait()
		for _, err := range append(errs, l.Close()) {
			if err != nil {
				return err
			}
		}
		for _, sql := range []string{
			"CREATE TABLE plain (k text PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 80)",
			"INSERT INTO plain SELECT 'user-' || i, 1 FROM generate_series(0, " + strconv.Itoa(len(db.keys)-1) + ") i",
			"VACUUM ANALYZE",
		} {
			if _, err := pool.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		server.Close()
		return err
	}
	db.server = server
	return nil
}

// conns is how many connections those have who send one row a call: more are slower here.
const conns = 64

func (db *database) upsert(keys []string) opener {
	return func() (func(int, uint64) error, func(), error) {
		pool, done, err := db.connect(conns)
		if err != nil {
			return nil, nil, err
		}
		return func(_ int, i uint64) error {
			var n int64
			return pool.QueryRow(context.Background(), "INSERT INTO plain AS p (k, n) VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET n = p.n + 1 RETURNING n",
				anyOf(keys, i)).Scan(&n)
		}, done, nil
	}
}

func anyOf(keys []string, i uint64) string { return keys[scatter(i)%uint64(len(keys))] }

var rule = ration.Rule{Name: "bench", Limit: ration.TokenBucket{Burst: burst, Refill: ration.PerMinute(perMinute)}}

func (db *database) limiter(opts *ration.Options) (*ration.Limiter, func(), error) {
	n := 8
	if opts.NoJoin {
		n = conns
	}
	pool, done, err := db.connect(n)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.New(context.Background(), pool, &pgstore.Options{NoMigrate: true})
	if err != nil {
		done()
		return nil, nil, err
	}
	l := ration.New(store, opts)
	return l, func() { l.Close(); done() }, nil
}

func (db *database) takes(keys []string, opts *ration.Options) opener {
	return func() (func(int, uint64) error, func(), error) {
		l, done, err := db.limiter(opts)
		if err != nil {
			return nil, nil, err
		}
		return func(_ int, i uint64) error {
			_, err := l.Take(context.Background(), ration.KeyOf(anyOf(keys, i)), rule, 1)
			return err
		}, done, nil
	}
}

// refusals asks for more than is left, which is less than all: a cost that can never pass would not need a row.
func (db *database) refusals(key string, opts *ration.Options) opener {
	return func() (func(int, uint64) error, func(), error) {
		l, done, err := db.limiter(opts)
		if err != nil {
			return nil, nil, err
		}
		if d, err := l.Take(context.Background(), ration.KeyOf(key), rule, 1<<20); err != nil || !d.Allowed { // not refilled in the time of a run
			return nil, done, fmt.Errorf("cannot use the bucket: %+v, %w", d, err)
		}
		full := func() error {
			d, err := l.Take(context.Background(), ration.KeyOf(key), rule, burst)
			if err == nil && d.Allowed {
				err = fmt.Errorf("%d of a used bucket passed", burst)
			}
			return err
		}
		return func(int, uint64) error { return full() }, done, nil
	}
}

// unnest is the most that PostgreSQL does: four connections that never wait for callers, each with a statement of a
// hundred rows. A decision is one of these rows.
func (db *database) unnest() opener {
	return func() (func(int, uint64) error, func(), error) {
		const connections, rows = 4, 100
		pool, done, err := db.connect(connections)
		if err != nil {
			return nil, nil, err
		}
		ctx, stop := context.WithCancel(context.Background())
		made, failed := make(chan struct{}, connections*rows), make(chan error, connections)
		var wg sync.WaitGroup
		for c := range uint64(connections) {
			wg.Go(func() {
				for i := c << 40; ctx.Err() == nil; {
					keys := make(map[string]bool, rows) // a statement changes a row once
					for ; len(keys) < rows; i++ {
						keys[anyOf(db.keys, i)] = true
					}
					if err := unnestUpsert(ctx, pool, keys); err != nil {
						failed <- err
						return
					}
					for range rows {
						select {
						case made <- struct{}{}:
						case <-ctx.Done():
							return
						}
					}
				}
			})
		}
		work := func(int, uint64) error {
			select {
			case <-made:
				return nil
			case err := <-failed:
				return err
			}
		}
		return work, func() { stop(); wg.Wait(); done() }, nil
	}
}

func unnestUpsert(ctx context.Context, pool *pgxpool.Pool, keys map[string]bool) error {
	sorted := make([]string, 0, len(keys))
	for k := range keys {
		sorted = append(sorted, k)
	}
	rows, err := pool.Query(ctx, "INSERT INTO plain AS p (k, n) SELECT k, 1 FROM unnest($1::text[]) k ORDER BY k COLLATE \"C\" "+
		"ON CONFLICT (k) DO UPDATE SET n = p.n + 1 RETURNING k, n", sorted)
	if err != nil {
		return err
	}
	var k string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&k, &n}, func() error { return nil })
	return err
}
