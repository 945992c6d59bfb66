package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/sqlitestore"
)

// sqlite compares decisions on a SQLite file that waits for the disk (synchronous FULL) with one transaction a call by the
// same driver, and with what it can do at best: upserts of 256 rows in one transaction.
func sqlite() []group {
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i)
	}
	var all []group
	for _, of := range []struct {
		name  string
		keys  []string
		goals map[int]goal
	}{
		{"one hot key", keys[:1], map[int]goal{64: {least: 35}, 256: {least: 140}}},
		{"100 k keys", keys, map[int]goal{64: {least: 8, hoped: 15}, 256: {least: 10, hoped: 20}}},
	} {
		for _, callers := range []int{1, 16, 64, 256} {
			all = append(all, group{name: fmt.Sprintf("sqlite, %s, %s", of.name, callersText(callers)), workers: callers, timed: true, chart: callers == 256, candidates: []candidate{
				{name: "modernc, a transaction a call", goal: of.goals[callers], open: sqliteUpsert(of.keys, 1)},
				{name: "modernc, 256 upserts a transaction, by one caller", role: bound, bulk: true, open: sqliteUpsert(of.keys, 256)},
				{name: "ration sqlitestore, bucket", role: ours, open: sqliteTakes(of.keys)},
			}})
		}
	}
	return all
}

// aBucket never refuses, and refills nothing, in the time of a run.
var aBucket = ration.Rule{Name: "bench", Limit: ration.TokenBucket{Burst: burst, Refill: ration.PerMinute(perMinute)}}

func of(keys []string, i uint64) string { return keys[scatter(i)%uint64(len(keys))] }

// openSQLite is a file of its own in a folder of its own, and what removes both.
func openSQLite() (*sql.DB, func(), error) {
	dir, err := os.MkdirTemp("", "ration-benchmark")
	if err != nil {
		return nil, nil, err
	}
	pragmas := url.Values{"_pragma": {"journal_mode(wal)", "synchronous(full)", "busy_timeout(60000)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "ration.db")+"?"+pragmas.Encode())
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}, nil
}

// sqliteUpsert adds one to the rows of some keys in a transaction: the least that a program could do instead, and decides
// nothing. SQLite has one writer, so one connection under a lock is the fastest form of it.
func sqliteUpsert(keys []string, rows int) opener {
	return func() (func(int, uint64) error, func(), error) {
		db, closer, err := openSQLite()
		if err != nil {
			return nil, nil, err
		}
		ctx := context.Background()
		conn, err := db.Conn(ctx)
		if err != nil {
			closer()
			return nil, nil, err
		}
		if _, err := conn.ExecContext(ctx, "CREATE TABLE counts (id TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID"); err != nil {
			closer()
			return nil, nil, err
		}
		const text = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET n = n + 1"
		insert, err := conn.PrepareContext(ctx, text)
		if err != nil {
			closer()
			return nil, nil, err
		}
		var mu sync.Mutex
		var waiting int
		many := func(i uint64, n int) error {
			tx, err := conn.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			st := tx.StmtContext(ctx, insert)
			for k := range n {
				if _, err := st.ExecContext(ctx, of(keys, i+uint64(k)<<32)); err != nil {
					return err
				}
			}
			return tx.Commit()
		}
		if err := many(0, 1); err != nil {
			closer()
			return nil, nil, err
		}
		work := func(worker int, i uint64) error {
			if rows == 1 {
				mu.Lock()
				defer mu.Unlock()
				_, err := insert.ExecContext(ctx, of(keys, i))
				return err
			}
			// One caller in so many does the work of all of them.
			mu.Lock()
			defer mu.Unlock()
			if waiting++; waiting < rows {
				return nil
			}
			waiting = 0
			return many(i, rows)
		}
		return work, closer, fillSQLite(conn, keys)
	}
}

// fillSQLite makes the rows of all keys before anything is measured.
func fillSQLite(conn *sql.Conn, keys []string) error {
	if len(keys) == 1 {
		return nil
	}
	ctx := context.Background()
	var errs []error
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := tx.ExecContext(ctx, "INSERT INTO counts VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET n = n + 1", k); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(append(errs, tx.Commit())...)
}

func sqliteTakes(keys []string) opener {
	return func() (func(int, uint64) error, func(), error) {
		db, closer, err := openSQLite()
		if err != nil {
			return nil, nil, err
		}
		ctx := context.Background()
		store, err := sqlitestore.New(ctx, db, nil)
		if err != nil {
			closer()
			return nil, nil, err
		}
		l := ration.New(store, &ration.Options{Timeout: time.Minute})
		work := func(_ int, i uint64) error {
			_, err := l.Take(ctx, ration.KeyOf(of(keys, i)), aBucket, 1)
			return err
		}
		err = func() error {
			var wg sync.WaitGroup
			errs := make([]error, 256)
			for part := range errs {
				wg.Go(func() {
					for i := part; i < len(keys) && errs[part] == nil; i += len(errs) {
						_, errs[part] = l.Take(ctx, ration.KeyOf(keys[i]), aBucket, 1)
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}()
		return work, func() {
			l.Close()
			closer()
		}, err
	}
}
