//go:build linux

package pgstore_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/pgstore"
)

// closing is a store that closes its pool, too.
type closing struct {
	*pgstore.Store
	pool *pgxpool.Pool
}

func (c closing) Close() error {
	err := c.Store.Close()
	c.pool.Close()
	return err
}

// openShared opens a store at "schema url", that sweeps as it does by default.
func openShared(where string) (driver.Store, error) {
	schema, url, _ := strings.Cut(where, " ")
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	s, err := pgstore.New(context.Background(), pool, &pgstore.Options{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return closing{s, pool}, nil
}

// TestCrowd: processes that reserve are killed.
func TestCrowd(t *testing.T) {
	t.Parallel()
	crowd.Run(t, newSchema()+" "+server(t, 15).URL, openShared)
}

// TestCrowdBehindPgBouncer is the same through PgBouncer in transaction mode.
func TestCrowdBehindPgBouncer(t *testing.T) {
	t.Parallel()
	crowd.Run(t, newSchema()+" "+bouncer(t).URL, openShared)
}
