//go:build linux

package doctor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/doctor"
	"github.com/ration-go/ration/server/postgres"
)

func psql(t testing.TB, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// application is a schema as a server leaves it, and the URL of a role that has the rights of docs/postgres.md.
func application(t testing.TB, srv *engines.Server, name string, migrate bool) (url string, config func(*server.Config)) {
	t.Helper()
	config = func(c *server.Config) { c.Postgres.Schema = name }
	psql(t, srv.URL, "CREATE ROLE "+name+" LOGIN PASSWORD 'hunter2'")
	if migrate {
		cfg := server.Defaults()
		config(cfg)
		if err := postgres.Migrate(context.Background(), srv.URL, cfg, nil); err != nil {
			t.Fatal(err)
		}
		psql(t, srv.URL, "GRANT USAGE ON SCHEMA "+name+" TO "+name, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+name+" TO "+name)
	}
	return strings.Replace(srv.URL, "//postgres@", "//"+name+":hunter2@", 1), config
}

// TestPostgresHealthy: both versions, by a role with no more rights than it needs, and through PgBouncer.
func TestPostgresHealthy(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]*shared{"v15": pg15, "v18": pg18} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := at.get(t)
			url, config := application(t, srv, "healthy", true)
			for range 2 { // nothing is in the way of the next
				p := &patient{store: url, config: config, ask: doctor.Options{Stage: "production", Replicas: 3}}
				p.finds(t)
			}
			r := (&patient{store: url, config: config}).examine(t)
			if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool {
				return f.Code == "postgres.version" && strings.Contains(f.Text, "PostgreSQL "+name[1:])
			}) {
				t.Errorf("no version: %+v", r.Findings)
			}
		})
	}
}

// TestPgBouncer: it is seen, and its mode.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	srv := pg15.get(t)
	psql(t, srv.URL, "CREATE ROLE pooled LOGIN")
	for mode, c := range map[string]struct {
		options string
		want    []string
	}{
		"transaction":   {"&default_query_exec_mode=exec", nil},
		"transaction 2": {"", []string{"note postgres.prepared"}},
		"session":       {"", nil},
		"statement":     {"&default_query_exec_mode=exec", []string{"warning postgres.pooler"}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			kind, _, _ := strings.Cut(mode, " ")
			bouncer := engines.PgBouncer(t, srv, &engines.PgBouncerOptions{Settings: []string{"pool_mode = " + kind}})
			name := "pooled_" + strings.ReplaceAll(mode, " ", "_")
			_, config := application(t, srv, name, true)
			psql(t, srv.URL, "GRANT USAGE ON SCHEMA "+name+" TO PUBLIC", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+name+" TO PUBLIC")
			p := &patient{store: bouncer.URL + c.options, config: config}
			r := p.examine(t)
			var got []string
			seen := false
			for _, f := range r.Findings {
				if f.Severity > doctor.Fine && f.Code != "postgres.superuser" { // PgBouncer knows postgres only
					got = append(got, f.Severity.String()+" "+f.Code)
				}
				seen = seen || f.Code == "postgres.pooler" && strings.Contains(f.Text, "in "+kind+" mode")
			}
			if !slices.Equal(got, c.want) || !seen {
				t.Errorf("%q, not %q; the mode was seen: %v\n%+v", got, c.want, seen, r.Findings)
			}
		})
	}
}

// TestPostgres: what can be wrong with a role, its session, and the tables.
func TestPostgres(t *testing.T) {
	t.Parallel()
	srv := pg15.get(t)
	for name, c := range map[string]struct {
		options   string
		unmade    bool
		statement string // with its name as @
		config    func(*server.Config)
		replicas  int
		want      []string
	}{
		"async":       {options: "&synchronous_commit=off", want: []string{"warning postgres.synchronous_commit"}},
		"read_only":   {options: "&default_transaction_read_only=on", want: []string{"error postgres.read_only"}},
		"isolated":    {options: "&default_transaction_isolation=serializable", want: []string{"note postgres.isolation"}},
		"greedy":      {options: "&pool_max_conns=500", want: []string{"warning postgres.connections"}},
		"many":        {options: "&pool_max_conns=90", replicas: 3, want: []string{"warning postgres.connections"}},
		"few":         {options: "&pool_max_conns=8", replicas: 3},
		"no_tables":   {unmade: true, want: []string{"error postgres.schema"}},
		"its_tables":  {unmade: true, statement: "GRANT CREATE ON DATABASE postgres TO @", want: []string{"note postgres.schema"}},
		"not_to_make": {unmade: true, statement: "GRANT CREATE ON DATABASE postgres TO @", config: func(c *server.Config) { c.Postgres.Migrate = "off" }, want: []string{"error postgres.schema"}},
		"older":       {statement: "UPDATE @.ration_meta SET version = 0", want: []string{"error postgres.schema"}},
		"newer":       {statement: "UPDATE @.ration_meta SET version = 99", want: []string{"note postgres.schema"}},
		"no_update":   {statement: "REVOKE UPDATE ON @.ration_states FROM @", want: []string{"error postgres.rights"}},
		"no_usage":    {statement: "REVOKE USAGE ON SCHEMA @ FROM @", want: []string{"error postgres.rights"}},
		"unlogged":    {statement: "ALTER TABLE @.ration_states SET UNLOGGED", want: []string{"error postgres.unlogged"}},
		"unvacuumed":  {statement: "ALTER TABLE @.ration_states SET (autovacuum_enabled = false)", want: []string{"warning postgres.autovacuum"}},
		"superuser":   {statement: "ALTER ROLE @ SUPERUSER", want: []string{"note postgres.superuser"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, config := application(t, srv, name, !c.unmade)
			if c.statement != "" {
				psql(t, srv.URL, strings.ReplaceAll(c.statement, "@", name))
			}
			p := &patient{store: url + c.options, ask: doctor.Options{Replicas: c.replicas}, config: func(cfg *server.Config) {
				config(cfg)
				if c.config != nil {
					c.config(cfg)
				}
			}}
			p.finds(t, c.want...)
		})
	}
}

// TestPostgresReach: each step of a connection fails on its own.
func TestPostgresReach(t *testing.T) {
	t.Parallel()
	srv := pg15.get(t)
	url, config := application(t, srv, "reaching", true)
	for name, c := range map[string]struct{ url, want string }{
		"no role":     {strings.Replace(url, "//reaching", "//nobody", 1), "error reach.auth"},
		"no database": {strings.Replace(url, "/postgres?", "/none?", 1), "error postgres.database"},
		"no TLS":      {strings.Replace(url, "sslmode=disable", "sslmode=require", 1), "error reach.tls"},
		"no name":     {strings.Replace(url, "127.0.0.1", "a..b", 1), "error reach.dns"},
		"nobody":      {"postgres://app:hunter2@127.0.0.1:" + closedPort(t) + "/x?sslmode=disable", "error reach.connect"},
		"no URL":      {"postgres://app:hunter2@127.0.0.1:port/x", "error config.store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &patient{store: c.url, config: config}
			p.finds(t, c.want)
		})
	}
}

// TestPostgresTLS: a certificate that lasts, and one that ends soon.
func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	srv := pg18.get(t)
	url, config := application(t, srv, "secured", true)
	url = strings.Replace(url, "sslmode=disable", "sslmode=verify-full&sslrootcert="+os.Getenv("SSL_CERT_FILE"), 1)
	for _, c := range []struct {
		file string
		want []string
	}{{lasting, nil}, {ending, []string{"warning reach.certificate"}}} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(srv.Dir, "data")
		owner, err := os.Stat(data)
		if err != nil {
			t.Fatal(err)
		}
		file := write(t, filepath.Join(data, filepath.Base(c.file)), text)
		if err := os.Chown(file, int(owner.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
			t.Fatal(err)
		}
		psql(t, srv.URL, fmt.Sprintf("ALTER SYSTEM SET ssl_cert_file = '%s'", file), fmt.Sprintf("ALTER SYSTEM SET ssl_key_file = '%s'", file),
			"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
		// The server does it when it gets to it.
		p := &patient{store: url, config: config}
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			if r := p.examine(t); r.Worst() != doctor.Error && (len(c.want) == 0 || r.Worst() == doctor.Warning) {
				break
			}
		}
		p.finds(t, c.want...)
	}
}

// TestPostgresServer: settings of the whole server, and one that has become a standby.
func TestPostgresServer(t *testing.T) {
	t.Parallel()
	srv := engines.Postgres(t, &engines.PostgresOptions{Settings: []string{"full_page_writes=off", "autovacuum=off"}})
	url, config := application(t, srv, "app", true)
	p := &patient{store: url, config: config}
	worn := []string{"error postgres.fsync", "warning postgres.autovacuum", "warning postgres.full_page_writes"}
	p.finds(t, worn...)

	if err := srv.Stop(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(srv.Dir, "data", "standby.signal"), nil)
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	p.finds(t, append(worn, "error postgres.read_only")...)
}
