package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	poolerTries = 5
	poolerTime  = 3 * time.Second // for what may wait until the pooler has a connection free
)

// readPooler finds out what stands between conn and the database. A pooler gives its clients process ids of its own making.
// In transaction mode it gives the server's connection of one client, idle between transactions, to the next.
func (s *Setup) readPooler(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn) error {
	pid, err := backend(ctx, conn)
	if err != nil || pid == conn.PgConn().PID() {
		return err
	}
	s.Pooler = "session"
	ctx, cancel := context.WithTimeout(ctx, poolerTime)
	defer cancel()
	other, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return nil //nolint:nilerr // it has no second one; then there is nothing to find out
	}
	defer other.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what it does is rolled back
	uses := execMode(pool.Config().ConnConfig.DefaultQueryExecMode) == pgx.QueryExecModeCacheStatement
	for range poolerTries {
		name := "ration_" + strings.ToLower(rand.Text())
		if uses {
			if _, err := conn.PgConn().Prepare(ctx, name, "SELECT 1", nil); err != nil {
				return err
			}
		}
		if pid, err = backend(ctx, conn); err != nil {
			return err
		}
		tx, err := other.Begin(ctx)
		if err != nil {
			s.Pooler = "statement"
			return nil //nolint:nilerr // that is the finding
		}
		if same, err := backend(ctx, tx); err == nil && same == pid {
			s.Pooler = "transaction"
			s.LosesStatements = uses && lost(ctx, conn, name)
		}
		if uses {
			_, _ = tx.Exec(ctx, "DEALLOCATE "+name, pgx.QueryExecModeSimpleProtocol) // whoever has it now; unknown is as well
		}
		if err := tx.Rollback(ctx); err != nil || s.Pooler == "transaction" {
			return nil //nolint:nilerr // what was to be found is found
		}
	}
	return nil
}

// lost reports whether a statement that conn has prepared is unknown, now that another client has the connection on which it
// was.
func lost(ctx context.Context, conn *pgx.Conn, name string) bool {
	res := conn.PgConn().ExecPrepared(ctx, name, nil, nil, nil).Read()
	var refused *pgconn.PgError
	return errors.As(res.Err, &refused) && refused.Code == "26000"
}

func backend(ctx context.Context, db querier) (pid uint32, err error) {
	err = db.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}
