//go:build linux

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/postgres"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks fails if goroutines of a pool or of a store outlive the tests.
func leaks() int {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if runtime.NumGoroutine() <= 2 { // the second is that of os/signal or of the servers' keeper
			return 0
		}
	}
	stacks := make([]byte, 1<<20)
	fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
	return 1
}

// exec runs statements as the owner of the server.
func exec(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpen makes the tables, keeps counts in them, and finds them again.
func TestOpen(t *testing.T) {
	t.Parallel()
	url := engines.Postgres(t, nil).URL + "&pool_max_conns=3&statement_timeout=7s"
	limit := ration.TokenBucket{Burst: 10, Refill: ration.Every(time.Hour)}
	for i := range 2 {
		s, err := postgres.Open(t.Context(), url, &server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l := ration.New(s, nil)
		d, err := l.Take(t.Context(), ration.KeyOf("k"), limit, 4)
		if err != nil || d.Remaining != 6-4*int64(i) {
			t.Errorf("take %d: %+v, %v", i, d, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTablesOfAnother: a role that may not create says what to do until another has migrated, and works from then on.
func TestTablesOfAnother(t *testing.T) {
	t.Parallel()
	url := engines.Postgres(t, nil).URL
	exec(t, url, "CREATE ROLE app LOGIN")
	app := strings.Replace(url, "//postgres@", "//app@", 1)
	cfg := &server.Config{}
	cfg.Postgres.Schema = "limits"
	for _, migrate := range []string{"", "off"} {
		cfg.Postgres.Migrate = migrate
		_, err := postgres.Open(t.Context(), app, cfg)
		if err == nil || !strings.Contains(err.Error(), "ration migrate") || migrate == "off" && !errors.Is(err, pgstore.ErrSchema) {
			t.Errorf("without tables, migrate %q: %v", migrate, err)
		}
	}

	var printed bytes.Buffer
	if err := postgres.Migrate(t.Context(), "postgres://nobody@127.0.0.1:1/none", cfg, &printed); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := postgres.Migrate(t.Context(), url, cfg, nil); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, url, "GRANT USAGE ON SCHEMA limits TO app", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA limits TO app")
	s, err := postgres.Open(t.Context(), app, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	// What is printed does the same.
	exec(t, url, "DROP SCHEMA limits CASCADE", "CREATE DATABASE another")
	other := strings.Replace(url, "/postgres?", "/another?", 1)
	exec(t, other, printed.String())
	if s, err = postgres.Open(t.Context(), other, cfg); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSecrets: no error has the password.
func TestSecrets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		"postgres://app:hunter2@" + closed + "/db?sslmode=disable",
		"postgres://app:hunter2@" + closed + "/db?sslmode=verify-full&sslpassword=hunter2",
		"postgres://app:hunter2@127.0.0.1:port/db",
		"postgres://app:hunter2@127.0.0.1/db?pool_max_conns=many",
		"postgres://app:hunter2%@127.0.0.1/db",
		"postgres://127.0.0.1/db?password=hunter2&sslmode=wrong",
	} {
		for name, err := range map[string]error{
			"open":    open(t.Context(), url),
			"migrate": postgres.Migrate(t.Context(), url, &server.Config{}, nil),
		} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func open(ctx context.Context, url string) error {
	s, err := postgres.Open(ctx, url, &server.Config{})
	if err == nil {
		err = errors.Join(errors.New("opened"), s.Close())
	}
	return err
}
