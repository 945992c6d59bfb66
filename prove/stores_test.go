package prove

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"
	_ "modernc.org/sqlite"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/sqlitestore"
)

// far is a memstore as if behind a network: calls take a moment, and are joined.
type far struct {
	driver.Store
	kept *memstore.Store
}

func (f far) Info() driver.Info {
	i := f.kept.Info()
	i.Instant, i.MaxBatch, i.InFlight = false, 64, 3
	return i
}

func (f far) Apply(ctx context.Context, batch []*driver.Txn) error {
	wait := time.NewTimer(time.Duration(rand.IntN(200)) * time.Microsecond)
	<-wait.C
	err := f.kept.Apply(ctx, batch)
	wait.Reset(time.Duration(rand.IntN(200)) * time.Microsecond)
	<-wait.C
	return err
}

func (far) Close() error { return nil }

// stores are ways to open one more process's Limiter on each store.
func stores(t *testing.T) map[string]func(t *testing.T) *ration.Limiter {
	limiter := func(t *testing.T, s driver.Store) *ration.Limiter {
		l := ration.New(s, &ration.Options{Timeout: time.Minute})
		t.Cleanup(func() { l.Close() })
		return l
	}
	kept := memstore.New(nil)
	t.Cleanup(func() { kept.Close() })
	file := filepath.Join(t.TempDir(), "ration.db")
	all := map[string]func(t *testing.T) *ration.Limiter{
		"memory": func(t *testing.T) *ration.Limiter { return limiter(t, far{kept: kept}) },
		"sqlite": func(t *testing.T) *ration.Limiter {
			db, err := sql.Open("sqlite", file)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			s, err := sqlitestore.New(t.Context(), db, nil)
			if err != nil {
				t.Fatal(err)
			}
			return limiter(t, s)
		},
	}
	if wanted, err := engines.Wanted(); err != nil {
		t.Fatal(err)
	} else if !wanted {
		fmt.Fprintln(os.Stderr, "left out: PostgreSQL and Redis; RATION_ENGINES=1 starts them")
		return all
	}
	pg, redis := engines.Postgres(t, nil), engines.Redis(t, nil)
	all["postgres"] = func(t *testing.T) *ration.Limiter {
		pool, err := pgxpool.New(t.Context(), pg.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s, err := pgstore.New(t.Context(), pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		return limiter(t, s)
	}
	all["redis"] = func(t *testing.T) *ration.Limiter {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr}, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		s, err := redisstore.New(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return limiter(t, s)
	}
	return all
}
