package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
)

// Setup is how a file is set up, as far as a store depends on it. See [Inspect].
type Setup struct {
	Version int    // of the tables; 0: there are none
	Known   int    // the newest version that this package knows
	Journal string // "wal" after the first New
	Damage  string // what SQLite finds broken in the file; "" if nothing
}

// Inspect looks how the file of db is set up, and changes nothing. To look for damage it reads the whole file, if that is asked
// for.
func Inspect(ctx context.Context, db *sql.DB, damage bool) (*Setup, error) {
	s := &Setup{Known: schemaVersion}
	err := s.read(ctx, db, damage)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", explain(err))
	}
	return s, nil
}

func (s *Setup) read(ctx context.Context, db *sql.DB, damage bool) error {
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&s.Journal); err != nil {
		return err
	}
	tables := 0
	const find = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ration_meta'`
	if err := db.QueryRowContext(ctx, find).Scan(&tables); err != nil {
		return err
	}
	if tables > 0 {
		const version = `SELECT coalesce(max(value), 0) FROM ration_meta WHERE name = 'schema'`
		if err := db.QueryRowContext(ctx, version).Scan(&s.Version); err != nil {
			return err
		}
	}
	if !damage {
		return nil
	}
	text := ""
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&text); err != nil {
		return err
	}
	if text != "ok" {
		s.Damage = text
	}
	return nil
}
