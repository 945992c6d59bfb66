//go:build linux

package engines

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// PostgresOptions says which PostgreSQL and how.
type PostgresOptions struct {
	Version int // 15 or 18; 0: 15

	// Settings are lines as of postgresql.conf: "max_connections=20". Without any, fsync is off: that is faster, and only
	// a crash of the machine, not one of the server, would show the difference.
	Settings []string
}

// Postgres starts a PostgreSQL server for the time of a test. Its user and database are postgres, without a password.
func Postgres(t testing.TB, opts *PostgresOptions) *Server {
	t.Helper()
	return started(t, func() (*Server, error) { return StartPostgres(opts) })
}

// StartPostgres is Postgres without a test: the caller calls Close.
func StartPostgres(opts *PostgresOptions) (*Server, error) {
	o := PostgresOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Version == 0 {
		o.Version = 15
	}
	folder := fmt.Sprintf("postgresql-%d", o.Version)
	postgres, err := program(fmt.Sprintf("RATION_PG%d_BIN", o.Version), "postgres",
		fmt.Sprintf("/usr/lib/postgresql/%d/bin/postgres", o.Version),
		filepath.Join(cacheFolder(), folder, "bin", "postgres"))
	if err != nil {
		return nil, err
	}
	return start(kind{
		name:    folder,
		program: postgres,
		other:   true,
		prepare: func(s *Server) error {
			s.URL = "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable"
			initdb := s.command(filepath.Join(filepath.Dir(postgres), "initdb"),
				"-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
			if text, err := initdb.CombinedOutput(); err != nil {
				return fmt.Errorf("initdb: %w\n%s", err, text)
			}
			return nil
		},
		args: func(s *Server) []string {
			args := []string{
				"-D", s.data(), "-p", fmt.Sprint(s.Port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
				"-c", "max_connections=200", "-c", "fsync=off",
				"-c", "dynamic_shared_memory_type=mmap", // files in the data folder, which go with it
			}
			for _, line := range o.Settings {
				args = append(args, "-c", line)
			}
			return args
		},
		ping: func(ctx context.Context, s *Server) error {
			_, err := pgQuery(ctx, s.Addr, "select 1")
			return err
		},
		tidy:   removeSegment,
		stop:   syscall.SIGINT,  // cuts off clients; SIGTERM would wait for them
		orphan: syscall.SIGQUIT, // ends its children too
	})
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// removeSegment removes the shared memory that a killed PostgreSQL leaves behind, and would have found at its restart.
func removeSegment(s *Server) {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return // it ended in good order
	}
	if lines := strings.Split(string(text), "\n"); len(lines) > 6 {
		if key := strings.Fields(lines[6]); len(key) == 2 {
			exec.Command("ipcrm", "-m", key[1]).Run() // fails if it is gone already
		}
	}
}

// PgBouncerOptions says how PgBouncer pools.
type PgBouncerOptions struct {
	Settings []string // lines of its section [pgbouncer]: "default_pool_size = 3"
}

// PgBouncer starts a PgBouncer in transaction mode before a PostgreSQL server, for the time of a test.
func PgBouncer(t testing.TB, backend *Server, opts *PgBouncerOptions) *Server {
	t.Helper()
	return started(t, func() (*Server, error) { return StartPgBouncer(backend, opts) })
}

// StartPgBouncer is PgBouncer without a test: the caller calls Close, before that of backend.
func StartPgBouncer(backend *Server, opts *PgBouncerOptions) (*Server, error) {
	bouncer, err := program("RATION_PGBOUNCER", "", "/usr/sbin/pgbouncer", "pgbouncer")
	if err != nil {
		return nil, err
	}
	return start(kind{
		name:    "pgbouncer",
		program: bouncer,
		other:   true,
		prepare: func(s *Server) error {
			s.URL = "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable"
			lines := []string{
				"[databases]",
				fmt.Sprintf("* = host=127.0.0.1 port=%d", backend.Port),
				"[pgbouncer]",
				"listen_addr = 127.0.0.1",
				fmt.Sprintf("listen_port = %d", s.Port),
				"unix_socket_dir =",
				"auth_type = trust",
				"auth_file = " + filepath.Join(s.Dir, "users.txt"),
				"admin_users = postgres",
				"pool_mode = transaction",
				"max_client_conn = 1000",
				"server_login_retry = 0.1", // how long clients are refused after a failure of the server
			}
			if opts != nil {
				lines = append(lines, opts.Settings...)
			}
			if err := os.WriteFile(filepath.Join(s.Dir, "users.txt"), []byte("\"postgres\" \"\"\n"), 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(s.Dir, "pgbouncer.ini"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
		},
		args: func(s *Server) []string { return []string{filepath.Join(s.Dir, "pgbouncer.ini")} },
		ping: func(ctx context.Context, s *Server) error {
			_, err := pgQuery(ctx, s.Addr, "select 1")
			return err
		},
		stop:   syscall.SIGTERM,
		orphan: syscall.SIGTERM,
	})
}
