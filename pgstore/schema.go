package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ration-go/ration/internal/arith"
)

//go:embed schema/*.sql
var files embed.FS

// version is that of the schema. Functions carry a version of their own in their names, so that programs of two versions
// can use one schema side by side.
const version = 2

// countsVersion is the one that decisions need. Later ones add what a store can do without.
const countsVersion = 1

// ErrSchema says that the tables and functions are not there, or are those of an older version. Run [Migrate], or what
// [SQL] prints, as a role that may create them.
var ErrSchema = errors.New("pgstore: the schema is absent or too old")

// room is what a limit o has left at the time at, by its row t: a bucket's level, or how much of a count is left. A row of
// another unit is turned into whole tokens.
var room = strings.ReplaceAll(`CASE WHEN coalesce(t.expires <= at, true) THEN o.brim
                WHEN o.gain = 0 THEN o.brim - CASE WHEN t.stamp <> 0 THEN t.level ELSE 0 END
                WHEN t.unit = 0 THEN o.brim
                ELSE least(o.brim, greatest(o.brim - @most@,
                        CASE WHEN t.unit = o.unit THEN t.level
                        ELSE greatest(least((t.level - CASE WHEN t.level < 0 THEN t.unit - 1 ELSE 0 END) / t.unit, o.brim / o.unit),
                            (o.brim - @most@) / o.unit - 1) * o.unit END)
                    + least(greatest(at / o.tick - (t.stamp + o.tick - 1) / o.tick, 0), @most@ / o.gain + 1) * o.gain) END`,
	"@most@", strconv.FormatInt(arith.Max, 10))

// SQL is the statements of [Migrate], for people who review them or run them by other means. They can be run again and
// again; a later version of the package adds to them.
func SQL(opts *Options) string {
	o := opts.resolved()
	schema := pgx.Identifier{o.Schema}.Sanitize()
	var b strings.Builder
	entries, err := files.ReadDir("schema")
	if err != nil {
		panic(err) // they are part of the program
	}
	values := strings.NewReplacer(
		"@room@", room,
		"@room of row@", strings.NewReplacer("o.", "", "t.", "r.").Replace(room),
		"@schema@", schema,
		"@literal@", "'"+strings.ReplaceAll(schema, "'", "''")+"'",
		"@version@", strconv.Itoa(version),
		"@most@", strconv.FormatInt(arith.Max, 10),
		"@century@", strconv.FormatInt(arith.Century, 10),
		"@raw@", strconv.Itoa(rawKey),
	)
	for _, e := range entries {
		text, err := files.ReadFile("schema/" + e.Name())
		if err != nil {
			panic(err)
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(values.Replace(string(text)))
	}
	return b.String()
}

// Conn is what [Migrate] needs: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Conn interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// migrating is a lock of PostgreSQL's that only migrations take, for the length of one transaction.
const migrating = 0x726174696f6e // "ration"

// Migrate creates the schema, its tables and its functions, or brings them up to date, in one transaction. Several
// processes may run it at once, beside programs that use the schema. An up-to-date schema is left as it is.
func Migrate(ctx context.Context, db Conn, opts *Options) error {
	if err := migrate(ctx, db, opts.resolved()); err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, db Conn, o Options) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it is committed, or another error is told
	run := func(sql string) error {
		// The statements are many in one text, which only the simple protocol takes.
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	if err := run("SELECT pg_advisory_xact_lock(" + strconv.Itoa(migrating) + ")"); err != nil {
		return err
	}
	if v, err := installed(ctx, tx, o.Schema); err != nil || v >= version {
		return err
	}
	if err := run(SQL(&o)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// querier is a pool or a connection.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// installed is the version of the schema; 0 if there is none.
func installed(ctx context.Context, db querier, schema string) (v int, err error) {
	table := pgx.Identifier{schema, "ration_meta"}.Sanitize()
	var there bool
	err = db.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.QueryExecModeSimpleProtocol, table).Scan(&there)
	if err == nil && there {
		err = db.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+table, pgx.QueryExecModeSimpleProtocol).Scan(&v)
	}
	return v, err
}
