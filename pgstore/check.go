package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
)

var _ driver.Checker = (*Store)(nil)

// Setup is how a database is set up, as far as a store depends on it. See [Inspect].
type Setup struct {
	Server  string // "15.14 (Debian …)"
	Number  int    // 150014
	Version int    // of the schema; 0: there is none
	Wanted  int    // by this package

	Role      string
	Superuser bool
	Creates   bool     // the role may make what the schema lacks
	Lacks     []string // rights that the role lacks on what is there: "INSERT on ration_states"
	ReadOnly  bool     // the default of this role's transactions
	Standby   bool     // the server follows another

	Settings   map[string]string // of the session; see the list in this file
	Unlogged   []string          // tables
	Unvacuumed []string          // tables that autovacuum leaves out
	Followers  int               // standbys that are connected
	Oldest     time.Duration     // of the transactions that this role can see

	Pooler          string // "", "session", "transaction", "statement": what stands between this program and the database
	LosesStatements bool   // behind it, prepared statements get lost, and this pool's mode uses them
	MostConnections int    // that the pool may open
}

// settings that Inspect reads.
var settings = []string{
	"synchronous_commit", "fsync", "full_page_writes", "autovacuum", "track_counts", "default_transaction_isolation",
	"max_connections", "superuser_reserved_connections", "synchronous_standby_names",
}

// Inspect looks how the database of pool is set up, and changes nothing. It works without a schema. nil opts are the
// defaults.
func Inspect(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Setup, error) {
	o := opts.resolved()
	// Connections of its own: a pool may have one only, and what is done here must not change those of others.
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read
	s := &Setup{Wanted: version, Settings: map[string]string{}, MostConnections: int(pool.Config().MaxConns)}
	if s.Version, err = installed(ctx, conn, o.Schema); err == nil {
		err = s.read(ctx, conn, o.Schema)
	}
	if err == nil {
		err = s.readPooler(ctx, pool, conn)
	}
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	return s, nil
}

func (s *Setup) read(ctx context.Context, conn *pgx.Conn, schema string) error {
	const simple = pgx.QueryExecModeSimpleProtocol // nothing that a pooler could lose
	const about = `SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_user::text,
		(SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
		coalesce(has_schema_privilege(to_regnamespace($1)::oid, 'CREATE'), has_database_privilege(current_database(), 'CREATE')),
		current_setting('default_transaction_read_only') = 'on', pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_replication),
		coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start)) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND datname = current_database()), 0)::bigint`
	quoted := pgx.Identifier{schema}.Sanitize()
	var oldest int64
	err := conn.QueryRow(ctx, about, simple, quoted).Scan(&s.Server, &s.Number, &s.Role, &s.Superuser, &s.Creates, &s.ReadOnly, &s.Standby,
		&s.Followers, &oldest)
	if err != nil {
		return err
	}
	s.Oldest = time.Duration(oldest) * time.Second
	rows, err := conn.Query(ctx, "SELECT name, setting FROM pg_settings WHERE name = ANY ($1)", simple, settings)
	if err != nil {
		return err
	}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		s.Settings[name] = value
		return nil
	})
	if err != nil || s.Version == 0 {
		return err
	}
	return s.readTables(ctx, conn, quoted)
}

func (s *Setup) readTables(ctx context.Context, conn *pgx.Conn, schema string) error {
	const tables = `SELECT c.relname::text, c.relpersistence = 'u', coalesce('autovacuum_enabled=false' = ANY (c.reloptions), false),
			array_to_string(ARRAY(SELECT p FROM unnest(CASE WHEN c.relname = 'ration_meta' THEN '{SELECT}'::text[]
					ELSE '{SELECT,INSERT,UPDATE,DELETE}'::text[] END) p
				WHERE NOT has_table_privilege(c.oid, p)), ', '), has_schema_privilege(c.relnamespace, 'USAGE')
		FROM pg_class c WHERE c.relnamespace = to_regnamespace($1)::oid AND c.relkind = 'r' AND c.relname LIKE 'ration\_%'
		ORDER BY c.relname`
	rows, err := conn.Query(ctx, tables, pgx.QueryExecModeSimpleProtocol, schema)
	if err != nil {
		return err
	}
	var table, lacks string
	var unlogged, unvacuumed, usage bool
	_, err = pgx.ForEachRow(rows, []any{&table, &unlogged, &unvacuumed, &lacks, &usage}, func() error {
		if unlogged {
			s.Unlogged = append(s.Unlogged, table)
		}
		if unvacuumed {
			s.Unvacuumed = append(s.Unvacuumed, table)
		}
		if lacks != "" {
			s.Lacks = append(s.Lacks, lacks+" on "+table)
		}
		if !usage && len(s.Lacks) == 0 {
			s.Lacks = append(s.Lacks, "USAGE on schema "+schema)
		}
		return nil
	})
	return err
}

// Check is of driver.Checker. It says what [Check] says.
func (s *Store) Check(ctx context.Context) []driver.Finding { return Check(ctx, s.pool, &s.opts) }

// Check says what an operator should know of the database of pool: what [Inspect] finds, in words. nil opts are the defaults.
func Check(ctx context.Context, pool *pgxpool.Pool, opts *Options) []driver.Finding {
	s, err := Inspect(ctx, pool, opts)
	if err != nil {
		return []driver.Finding{{Level: "error", Code: "postgres.unreachable", Text: err.Error(), Remedy: "see what the error says"}}
	}
	return s.Findings(opts)
}

// longAgo is the age of a transaction that keeps too many dead rows.
const longAgo = time.Hour

// Findings is s in words. opts are those of Inspect.
func (s *Setup) Findings(opts *Options) (all []driver.Finding) {
	say := func(level, code, text, remedy string) {
		all = append(all, driver.Finding{Level: level, Code: code, Text: text, Remedy: remedy})
	}
	if say("ok", "postgres.version", "PostgreSQL "+s.Server, ""); s.Number < 140000 {
		all[0] = driver.Finding{Level: "error", Code: "postgres.version", Text: "PostgreSQL " + s.Server + " is too old", Remedy: "use 14 or later"}
	}
	s.schemaFindings(opts.resolved(), say)
	s.durabilityFindings(say)
	if s.Superuser {
		say("note", "postgres.superuser", fmt.Sprintf("role %q is a superuser, and needs to be none", s.Role),
			"give the servers a role with the rights of docs/postgres.md")
	}
	if level := s.Settings["default_transaction_isolation"]; level != "" && level != "read committed" {
		say("note", "postgres.isolation", "the default isolation level is "+level+", so each call carries a transaction of its own",
			"for some microseconds less: ALTER ROLE … SET default_transaction_isolation TO 'read committed'")
	}
	if s.Settings["autovacuum"] == "off" || s.Settings["track_counts"] == "off" || len(s.Unvacuumed) > 0 {
		say("warning", "postgres.autovacuum", "autovacuum is off"+of(s.Unvacuumed)+": dead rows stay, and every call gets slower",
			"set autovacuum and track_counts to on, and reset autovacuum_enabled of the tables")
	}
	if s.Oldest > longAgo {
		say("warning", "postgres.old_transaction", fmt.Sprintf("a transaction of this database is %v old: no row that died since can be cleared", s.Oldest),
			"find it in pg_stat_activity by xact_start, and end it; set idle_in_transaction_session_timeout")
	}
	s.connectionFindings(say)
	return all
}

type teller func(level, code, text, remedy string)

func (s *Setup) schemaFindings(o Options, say teller) {
	switch {
	case s.Standby || s.ReadOnly:
		say("error", "postgres.read_only", map[bool]string{
			true:  "the server is a standby, which only reads",
			false: "transactions of role " + s.Role + " are read only by default",
		}[s.Standby], "connect to the primary (target_session_attrs=read-write), or set default_transaction_read_only to off")
	case s.Version >= s.Wanted:
		if len(s.Lacks) > 0 {
			say("error", "postgres.rights", fmt.Sprintf("role %q lacks %s", s.Role, strings.Join(s.Lacks, "; ")),
				"as the owner: GRANT USAGE ON SCHEMA and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA, as docs/postgres.md has it")
		}
		if s.Version > s.Wanted {
			say("note", "postgres.schema", fmt.Sprintf("schema %q has version %d, and this program knows %d; it works, by the older functions", o.Schema, s.Version, s.Wanted),
				"renew this program when all others are")
		}
	default:
		text := fmt.Sprintf("there is no schema %q with the store's tables", o.Schema)
		if s.Version > 0 {
			text = fmt.Sprintf("schema %q has version %d, and version %d is needed", o.Schema, s.Version, s.Wanted)
		}
		switch {
		case o.NoMigrate:
			say("error", "postgres.schema", text, "run \"ration migrate\" with the URL of a role that may create it")
		case !s.Creates:
			say("error", "postgres.schema", text+", and role "+s.Role+" may not create it",
				"run \"ration migrate\" with the URL of a role that may, and grant this one the use of it")
		default:
			say("note", "postgres.schema", text, "nothing: a server makes it at its start; or run \"ration migrate\" now")
		}
	}
}

func (s *Setup) durabilityFindings(say teller) {
	if s.Settings["synchronous_commit"] == "off" {
		say("warning", "postgres.synchronous_commit", "synchronous_commit is off: a crash of the server forgets the charges of the last moments",
			"set it to on, for the role or in the URL: ?synchronous_commit=on")
	}
	if s.Settings["fsync"] == "off" {
		say("error", "postgres.fsync", "fsync is off: a crash of the machine can forget everything and spoil the database", "set it to on")
	}
	if s.Settings["full_page_writes"] == "off" {
		say("warning", "postgres.full_page_writes", "full_page_writes is off: a crash of the machine can leave torn pages",
			"set it to on, unless the file system writes pages whole")
	}
	if len(s.Unlogged) > 0 {
		say("error", "postgres.unlogged", "a crash empties what is UNLOGGED"+of(s.Unlogged), "ALTER TABLE … SET LOGGED")
	}
	if s.Followers > 0 && s.Settings["synchronous_standby_names"] == "" {
		say("note", "postgres.failover", fmt.Sprintf("%d standby(s) follow later than charges are answered: a fail-over can forget the last", s.Followers),
			"set synchronous_standby_names, if that matters")
	}
}

func (s *Setup) connectionFindings(say teller) {
	switch s.Pooler {
	case "":
	case "statement":
		say("warning", "postgres.pooler", "a pooler in statement mode stands before the database: migrations and other isolation levels do not work through it",
			"use transaction mode: pool_mode = transaction")
	default:
		say("ok", "postgres.pooler", "a pooler in "+s.Pooler+" mode stands before the database", "")
	}
	if s.LosesStatements {
		say("note", "postgres.prepared", "prepared statements get lost behind the pooler; the store finds out at its first call and goes on without",
			"add default_query_exec_mode=exec to the URL, or set max_prepared_statements of PgBouncer 1.21 or later")
	}
	var most, reserved int
	if _, err := fmt.Sscan(s.Settings["max_connections"]+" "+s.Settings["superuser_reserved_connections"], &most, &reserved); err == nil &&
		s.Pooler == "" && s.MostConnections > most-reserved {
		say("warning", "postgres.connections", fmt.Sprintf("the pool may open %d connections, and the database has %d for all", s.MostConnections, most-reserved),
			"set pool_max_conns in the URL; a store needs few")
	}
}

// of is " (a, b)".
func of(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}
