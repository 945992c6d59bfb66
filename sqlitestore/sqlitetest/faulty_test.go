package sqlitetest

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"testing"
)

// before is called with the text of each prepared statement before it is executed; an error is answered instead.
type before func(text string) error

// openFaulty is a pool of the engine's connections with a hook in them.
func openFaulty(t testing.TB, engine, path string, hook before) *sql.DB {
	t.Helper()
	db := sql.OpenDB(&faulty{openDB(t, engine, "").Driver(), path, hook})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

type faulty struct {
	driver sqldriver.Driver
	path   string
	hook   before
}

func (f *faulty) Driver() sqldriver.Driver { return f.driver }

func (f *faulty) Connect(context.Context) (sqldriver.Conn, error) {
	c, err := f.driver.Open(f.path)
	if err != nil {
		return nil, err
	}
	return &faultyConn{c, f.hook}, nil
}

type faultyConn struct {
	sqldriver.Conn
	hook before
}

func (c *faultyConn) ExecContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, text, args)
}

func (c *faultyConn) PrepareContext(ctx context.Context, text string) (sqldriver.Stmt, error) {
	s, err := c.Conn.(sqldriver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return &faultyStmt{s, text, c.hook}, nil
}

type faultyStmt struct {
	sqldriver.Stmt
	text string
	hook before
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := s.hook(s.text); err != nil {
		return nil, err
	}
	return s.Stmt.(sqldriver.StmtExecContext).ExecContext(ctx, args)
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := s.hook(s.text); err != nil {
		return nil, err
	}
	return s.Stmt.(sqldriver.StmtQueryContext).QueryContext(ctx, args)
}
