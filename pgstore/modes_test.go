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

// way is how a server is reached.
type way struct {
	through   string
	mode      pgx.QueryExecMode
	isolation string // of the connection; "" is that of the server
}

func (w way) String() string { return fmt.Sprintf("%s, %v, %s", w.through, w.mode, w.isolation) }

func (w way) change(cfg *pgxpool.Config) {
	cfg.ConnConfig.DefaultQueryExecMode = w.mode
	if w.isolation != "" {
		cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = w.isolation
	}
}

// ways are all of pgx's modes, directly and through PgBouncer, and isolation levels that have to be worked around. That is
// done in one way for all modes, so not every one is crossed with every mode unless there is time; for those of a role or a
// database, see TestIsolationOfTheRole.
func ways() (all []way) {
	for _, mode := range execModes {
		all = append(all, way{"directly", mode, ""}, way{"pgbouncer", mode, ""})
		for _, isolation := range []string{"repeatable read", "serializable"} {
			if long() > 1 || mode == execModes[0] || mode == pgx.QueryExecModeExec && isolation == "serializable" {
				all = append(all, way{"directly", mode, isolation})
			}
		}
	}
	return all
}

// TestWays decides the same, whichever way the server is reached: a case file of each kind, random histories, and callers
// side by side; the whole suite if there is time.
func TestWays(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			url := server(t, 15).URL
			if w.through == "pgbouncer" {
				url = bouncer(t).URL
			}
			h, all := harness(t, url, w.change)
			h.Trips = nil
			if long() == 1 {
				h.Only = []string{"bucket", "sliding", "counter", "budget", "slots"}
			}
			storetest.Run(t, h)
			for _, h := range []history{{ids: true}, {take: true}} {
				t.Run(h.String(), func(t *testing.T) { sameAsRun(t, all.open(t), h) })
			}
			t.Run("side by side", func(t *testing.T) {
				admitted := takeTogether(t, all.open(t), 4, 50, func() *driver.Txn { return take("hot", 100, 1) })
				if admitted != 100 {
					t.Errorf("4 callers took 100 by 1, 50 times each, and got %d", admitted)
				}
			})
		})
	}
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
