package sqlitetest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/sqlitestore"
)

// closing is a store that closes its database, too.
type closing struct {
	*sqlitestore.Store
	db *sql.DB
}

func (c closing) Close() error { return errors.Join(c.Store.Close(), c.db.Close()) }

// openShared opens a store at "driver path", that sweeps as it does by default.
func openShared(where string) (driver.Store, error) {
	engine, path, _ := strings.Cut(where, " ")
	db, err := sql.Open(engines[engine], path)
	if err != nil {
		return nil, err
	}
	s, err := sqlitestore.New(context.Background(), db, nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return closing{s, db}, nil
}

// TestCrowd: processes that reserve in one file are killed.
func TestCrowd(t *testing.T) {
	each(t, func(t *testing.T, engine string) { crowd.Run(t, engine+" "+file(t), openShared) })
}
