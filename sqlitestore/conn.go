package sqlitestore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
)

// checkpointPages is how many pages the WAL grows by before a commit copies them into the file. SQLite's own 1000 copy a page
// that is charged often again and again; docs/decisions/0003-sqlite-driver.md has what it costs.
const checkpointPages = "16384"

// mostRows is the greatest number of rows in one statement.
const mostRows = 128

// conn is one connection, taken out of the pool for good and used by one goroutine.
type conn struct {
	sql   *sql.Conn
	stmts map[stmtKey]*sql.Stmt

	// broken says that a statement failed, other than for a lock: nobody knows in what state the connection is.
	broken bool
}

// A stmtKey names a prepared statement: its text has a part that is repeated for each of rows.
type stmtKey struct {
	form *form
	rows int
}

// form is the text of a statement, and what is repeated in it.
type form struct{ before, each, after string }

func (f *form) text(rows int) string {
	return f.before + strings.TrimSuffix(strings.Repeat(f.each+",", rows), ",") + f.after
}

func openConn(ctx context.Context, db *sql.DB, writer bool, sync Synchronous) (*conn, error) {
	sc, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{sql: sc, stmts: make(map[stmtKey]*sql.Stmt)}
	pragmas := []string{
		// SQLite's own waiting favours whoever came last, and does not end with a context.
		`PRAGMA busy_timeout = 0`,
		`PRAGMA query_only = ON`,
		// A statement that saves many rows keeps what it would undo; in a file that costs a quarter of all time.
		`PRAGMA temp_store = MEMORY`,
	}
	if writer {
		pragmas[1] = `PRAGMA query_only = OFF`
		level := `PRAGMA synchronous = FULL`
		if sync == Normal {
			level = `PRAGMA synchronous = NORMAL`
		}
		pragmas = append(pragmas, level,
			`PRAGMA fullfsync = ON`,      // of macOS: its fsync alone does not reach the disk
			`PRAGMA cache_size = -16384`, // KiB at most; SQLite's own 2 MiB hold the leaves of 25 000 keys
			`PRAGMA wal_autocheckpoint = `+checkpointPages)
	}
	for _, p := range pragmas {
		if err := c.exec(ctx, p); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// close gives the connection up; what was not committed is rolled back. It does not go back to the pool, where its settings
// would surprise others.
func (c *conn) close() {
	// database/sql leaves these to us, and SQLite keeps a connection that has some, with its locks.
	for _, s := range c.stmts {
		_ = s.Close()
	}
	_ = c.sql.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = c.sql.Close()
}

func (c *conn) exec(ctx context.Context, text string) error {
	_, err := c.sql.ExecContext(ctx, text)
	return err
}

// stmt is form for so many rows, prepared once.
func (c *conn) stmt(f *form, rows int) (*sql.Stmt, error) {
	key := stmtKey{f, rows}
	if s := c.stmts[key]; s != nil {
		return s, nil
	}
	s, err := c.sql.PrepareContext(context.Background(), f.text(rows))
	if err != nil {
		return nil, c.failed(err)
	}
	c.stmts[key] = s
	return s, nil
}

func (c *conn) failed(err error) error {
	if err != nil && !busy(err) {
		c.broken = true
	}
	return err
}

// run executes form with args, for so many rows. Statements are not bound to the context of their job: they are short, and
// to watch a context costs more than most of them; see job.leave.
func (c *conn) run(f *form, rows int, args ...any) (changed int64, err error) {
	s, err := c.stmt(f, rows)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, c.failed(err)
	}
	return res.RowsAffected()
}

// each calls scan for each row of form with args, for so many rows of arguments.
func (c *conn) each(f *form, rows int, args []any, scan func(*sql.Rows) error) error {
	s, err := c.stmt(f, rows)
	if err != nil {
		return err
	}
	found, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return c.failed(err)
	}
	for found.Next() {
		if err := scan(found); err != nil {
			_ = found.Close()
			return c.failed(err)
		}
	}
	err = found.Err()
	if closeErr := found.Close(); err == nil {
		err = closeErr
	}
	return c.failed(err)
}

// undo ends a transaction that shall change nothing.
func (c *conn) undo() {
	if _, err := c.run(rollback, 0); err != nil {
		c.broken = true
	}
}

var (
	begin    = &form{before: `BEGIN IMMEDIATE`}
	snapshot = &form{before: `BEGIN`}
	commit   = &form{before: `COMMIT`}
	rollback = &form{before: `ROLLBACK`}
)

// chunks calls do with pieces of n rows, of few different sizes, so that few statements need to be prepared.
func chunks(n int, do func(from, to int) error) error {
	size := mostRows
	for from := 0; from < n; {
		for size > n-from {
			size /= 2
		}
		if err := do(from, from+size); err != nil {
			return err
		}
		from += size
	}
	return nil
}

// The waits for a lock that another connection holds: a transaction lasts about a millisecond.
const (
	firstWait = 200 * time.Microsecond
	mostWait  = 2 * time.Millisecond
)

// retry calls do until it does not fail for a lock of another connection, or ctx is done, or stop is closed.
func retry(ctx context.Context, stop <-chan struct{}, do func() error) error {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		err := do()
		if err == nil || !busy(err) {
			return err
		}
		// Waits of one length would keep two processes in step.
		t := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-t.C:
			continue
		case <-ctx.Done():
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-stop:
			err = driver.ErrClosed
		}
		t.Stop()
		return err
	}
}

// begin waits for the lock that only one connection of all processes has.
func (c *conn) begin(j *job) error {
	return retry(j.ctx, j.stop, func() error {
		_, err := c.run(begin, 0)
		return err
	})
}

// commit ends a transaction that changed something. Its errors say what became of it.
func (c *conn) commit() error {
	_, err := c.run(commit, 0)
	if err == nil {
		return nil
	}
	if undone(err) {
		c.broken = true
		return notApplied(err)
	}
	return unknown(explain(err))
}
