package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// schema is what makes a file of each version out of one of the version before; 0 is a file without our tables.
var schema = [...][]string{
	{
		`CREATE TABLE ration_meta (
			name  TEXT PRIMARY KEY,
			value INTEGER NOT NULL
		) STRICT, WITHOUT ROWID`,

		// id stands for the name in the keys of ration_states. It is at least 1, and no row is ever deleted or changed.
		`CREATE TABLE ration_spaces (
			id   INTEGER PRIMARY KEY,
			name TEXT NOT NULL UNIQUE
		) STRICT`,

		// expires is in µs on the time line of the clock that decided last; expires + lag is on the server's clock, and lag
		// is 0 if that was the clock. The expiry stands before the blob, so that a sweep need not read the pages of long
		// blobs. There is no index on it: each charge moves it, and would write twice as many pages; a sweep walks the
		// primary key instead.
		`CREATE TABLE ration_states (
			key     BLOB PRIMARY KEY,
			expires INTEGER NOT NULL,
			lag     INTEGER NOT NULL,
			state   BLOB NOT NULL
		) STRICT, WITHOUT ROWID`,

		`INSERT INTO ration_meta (name, value) VALUES ('schema', 1), ('sweep', 0)`,
	},
	{
		// expires and lag are as those of a state. due is when an open hold expires, on the same line, and 0 if there is none.
		// next is when a sweep has something to do, on the server's clock: lag after due, or after expires if there is none.
		`CREATE TABLE ration_holds (
			id      BLOB PRIMARY KEY,
			expires INTEGER NOT NULL,
			due     INTEGER NOT NULL,
			lag     INTEGER NOT NULL,
			next    INTEGER NOT NULL,
			record  BLOB NOT NULL
		) STRICT, WITHOUT ROWID`,

		`CREATE INDEX ration_holds_next ON ration_holds (next)`,
		`CREATE INDEX ration_holds_injected ON ration_holds (next - lag) WHERE lag <> 0`,

		`UPDATE ration_meta SET value = 2 WHERE name = 'schema'`,
	},
	{
		// expires is 0 for what never does. An empty value is the mark of a document that was removed.
		`CREATE TABLE ration_documents (
			space    TEXT NOT NULL,
			name     TEXT NOT NULL,
			revision INTEGER NOT NULL,
			expires  INTEGER NOT NULL,
			value    BLOB NOT NULL,
			PRIMARY KEY (space, name)
		) STRICT, WITHOUT ROWID`,

		`CREATE UNIQUE INDEX ration_documents_revision ON ration_documents (space, revision)`,
		`CREATE INDEX ration_documents_expires ON ration_documents (expires) WHERE expires > 0`,

		`UPDATE ration_meta SET value = 3 WHERE name = 'schema'`,
	},
}

// schemaVersion is the newest version that this package knows.
const schemaVersion = len(schema)

// prepareFile makes a new file ready and checks an old one. It fails if the file cannot be written.
func prepareFile(ctx context.Context, c *conn) error {
	var file string
	if err := c.sql.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file); err != nil {
		return err
	}
	if file == "" {
		return ErrNotShared
	}
	// A charge changes one leaf page, and the WAL takes whole pages: smaller pages, fewer bytes. Only a new file obeys.
	if err := c.exec(ctx, `PRAGMA page_size = 2048`); err != nil {
		return err
	}
	var mode string
	if err := c.sql.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w (its journal mode is %s)", ErrNotShared, mode)
	}
	if err := c.exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	if err := migrate(ctx, c); err != nil {
		return errors.Join(err, c.exec(ctx, `ROLLBACK`))
	}
	return c.exec(ctx, `COMMIT`)
}

func migrate(ctx context.Context, c *conn) error {
	version := 0
	var exists bool
	const find = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ration_meta'`
	if err := c.sql.QueryRowContext(ctx, find).Scan(&exists); err != nil {
		return err
	}
	if exists {
		err := c.sql.QueryRowContext(ctx, `SELECT value FROM ration_meta WHERE name = 'schema'`).Scan(&version)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return errors.New("the table ration_meta has no row for the version of the schema")
		case err != nil:
			return err
		case version < 1:
			return fmt.Errorf("the table ration_meta has %d as the version of the schema", version)
		case version > schemaVersion:
			return fmt.Errorf("%w (schema %d, this one knows %d)", ErrSchema, version, schemaVersion)
		}
	}
	for _, step := range schema[version:] {
		for _, statement := range step {
			if err := c.exec(ctx, statement); err != nil {
				return err
			}
		}
	}
	// BEGIN IMMEDIATE of a file that cannot be written succeeds; only a change tells.
	return c.exec(ctx, `UPDATE ration_meta SET value = value WHERE name = 'schema'`)
}
