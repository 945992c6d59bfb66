package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
)

// attempts is how often a batch is sent that the database has rolled back.
const attempts = 50

// call runs a function of the schema in one round trip; An error
// that wraps driver.ErrNotApplied says that surely nothing was changed.
func (s *Store) call(ctx context.Context, sql string, args ...any) (*reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, notApplied(err)
	}
	for n := 0; ; n++ {
		p, err := s.attempt(ctx, sql, args)
		switch s.next(err) {
		case done:
			return p, nil
		case unknown:
			s.spaces.clear()
			return nil, err
		case failed:
			return nil, notApplied(err)
		}
		if n >= attempts || ctx.Err() != nil {
			return nil, notApplied(err)
		}
		if n > 2 {
			pause(ctx, time.Duration(rand.N(n))*time.Millisecond)
		}
	}
}

// errNoConnection is wrapped by what goes wrong before there is a connection.
var errNoConnection = errors.New("no connection")

func (s *Store) attempt(ctx context.Context, sql string, args []any) (*reply, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	defer conn.Release()
	return s.callOnce(ctx, conn, sql, args)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (s *Store) callOnce(ctx context.Context, conn *pgxpool.Conn, sql string, args []any) (*reply, error) {
	if n := len(args) - 1; args[n] == (lockTime{}) {
		args = append(args[:n:n], lockWait(ctx))
	}
	if s.isolate.Load() {
		return isolated(ctx, conn, sql, args)
	}
	mode := s.mode
	if s.plain.Load() && mode == pgx.QueryExecModeCacheStatement {
		mode = pgx.QueryExecModeExec
	}
	rows, err := conn.Query(ctx, sql, append([]any{mode}, args...)...)
	if err != nil {
		return nil, err
	}
	return readReply(rows)
}

// readReply reads to the end, which is after the commit.
func readReply(rows pgx.Rows) (*reply, error) {
	defer rows.Close()
	var p reply
	var unreadable error
	if rows.Next() {
		unreadable = p.readValues(rows.FieldDescriptions(), rows.RawValues())
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return &p, unreadable
}

// lockTime as the last argument is the time that a lock may take: it is known when there is a connection.
type lockTime struct{}

// lockWait is how long the database may wait for a lock, in ms: a bit less than the caller waits, so that it is the
// database that gives up, and the caller knows that nothing was changed. 0: for ever.
func lockWait(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	return max(1, (left - max(left/8, 20*time.Millisecond)).Milliseconds())
}

type outcome int

const (
	done    outcome = iota
	again           // rolled back; worth another attempt
	failed          // surely nothing was changed
	unknown         // it may have been
)

// next tells what to do after err.
func (s *Store) next(err error) outcome {
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		return done
	case errors.Is(err, errNoConnection):
		return failed
	case !errors.As(err, &pgErr) && pgconn.SafeToRetry(err):
		return again // the connection had been lost before
	case pgErr == nil:
		return unknown
	}
	// An error that ends the connection says nothing about a commit that may have come before it.
	if pgErr.SeverityUnlocalized != "ERROR" {
		return unknown
	}
	switch pgErr.Code {
	case "40001", "40P01": // serialization failure, deadlock
		return again
	case "RN001":
		s.isolate.Store(true)
		return again
	case "42P05", "26000": // a prepared statement of another client, or none
		if !s.plain.Swap(true) {
			s.log.Warn("pgstore: prepared statements get lost between this program and PostgreSQL, as behind PgBouncer before 1.21; going on without them",
				"sqlstate", pgErr.Code)
		}
		return again
	case "0A000": // a prepared statement is of the time before a migration; pgx has dropped it
		return again
	}
	return failed
}

// notApplied says of err that nothing was changed.
func notApplied(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "55P03" { // its lock_timeout is the caller's deadline
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
}
