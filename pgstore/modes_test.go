//go:build linux

package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/storetest"
)

var execModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// ways are all ways to reach a server: directly and through PgBouncer, with each of pgx's modes and each isolation level.
func ways(t *testing.T, f func(t *testing.T, url string, change func(*pgxpool.Config))) {
	t.Parallel()
	for _, through := range []string{"directly", "pgbouncer"} {
		for _, mode := range execModes {
			for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
				if through == "pgbouncer" && isolation != "read committed" {
					continue // see TestIsolationOfTheRole
				}
				t.Run(fmt.Sprintf("%s, %v, %s", through, mode, isolation), func(t *testing.T) {
					t.Parallel()
					url := server(t, 15).URL
					if through == "pgbouncer" {
						url = bouncer(t).URL
					}
					f(t, url, func(cfg *pgxpool.Config) {
						cfg.ConnConfig.DefaultQueryExecMode = mode
						if isolation != "read committed" {
							cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = isolation
						}
					})
				})
			}
		}
	}
}

// TestWays decides the same, whichever way the server is reached.
func TestWays(t *testing.T) {
	ways(t, func(t *testing.T, url string, change func(*pgxpool.Config)) {
		for _, h := range []history{{}, {ids: true}} {
			sameAsRun(t, open(t, newPool(t, url, change), nil), h)
		}
		if long() > 1 {
			h := withoutCrash(harness(url, change))
			h.Trips = nil
			storetest.Run(t, h)
		}
	})
}

// TestWaysSideBySide counts right when many callers meet, whichever way the server is reached.
func TestWaysSideBySide(t *testing.T) {
	ways(t, func(t *testing.T, url string, change func(*pgxpool.Config)) {
		s := open(t, newPool(t, url, change), nil)
		admitted := takeTogether(t, s, 8, 25, func() *driver.Txn { return take("hot", 100, 1) })
		if admitted != 100 {
			t.Errorf("8 callers took 100 by 1, 25 times each, and got %d", admitted)
		}
	})
}

// TestIsolationOfTheRole: the level may be set for the role or the database as well, which a pooler does not show.
func TestIsolationOfTheRole(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	admin := newPool(t, server(t, 15).URL, nil)
	db := newSchema()
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+db); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(ctx, "ALTER DATABASE "+db+" SET default_transaction_isolation = 'serializable'"); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, bouncer(t).URL, func(cfg *pgxpool.Config) { cfg.ConnConfig.Database = db })
	s := open(t, pool, nil)
	sameAsRun(t, s, history{})
	if n := takeTogether(t, s, 8, 25, func() *driver.Txn { return take("hot", 100, 1) }); n != 100 {
		t.Errorf("8 callers took 100 by 1, 25 times each, and got %d", n)
	}
}

// TestOddSchema keeps its tables in a schema whose name has to be quoted.
func TestOddSchema(t *testing.T) {
	t.Parallel()
	pool := newPool(t, server(t, 15).URL, nil)
	s := open(t, pool, &pgstore.Options{Schema: `It's "odd"; %s`})
	sameAsRun(t, s, history{ids: true})
	if _, err := s.Sweep(context.Background(), 1<<52, 1000); err != nil {
		t.Error(err)
	}
}
