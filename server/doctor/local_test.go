//go:build linux

package doctor_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/doctor"
	"github.com/ration-go/ration/server/sqlite"
)

// TestScope: who shares the counts, and who runs how many servers where.
func TestScope(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	for _, c := range []struct {
		store, stage string
		replicas     int
		want         []string
	}{
		{"memory:", "development", 0, nil},
		{"memory:", "development", 1, nil},
		{"memory:", "", 0, []string{"warning scope.process"}},
		{"memory:", "production", 0, []string{"warning scope.process"}},
		{"memory:", "production", 1, []string{"warning scope.forgets"}},
		{"memory:", "", 2, []string{"error scope.process"}},
		{"memory:", "development", 3, []string{"error scope.process"}},
		{"sqlite:" + file, "", 0, nil},
		{"sqlite:" + file, "development", 0, nil},
		{"sqlite:" + file, "production", 1, nil},
		{"sqlite:" + file, "production", 0, []string{"note scope.machine"}},
		{"sqlite:" + file, "", 2, []string{"warning scope.machine"}},
	} {
		t.Run(fmt.Sprintf("%.6s %s %d", c.store, c.stage, c.replicas), func(t *testing.T) {
			t.Parallel()
			p := &patient{store: c.store, ask: doctor.Options{Stage: c.stage, Replicas: c.replicas}}
			p.finds(t, c.want...)
		})
	}
}

// newFile is a file as a server leaves it.
func newFile(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ration.db")
	s, err := sqlite.Open(context.Background(), "sqlite:"+path, server.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	l := ration.New(s, nil)
	if _, err := l.Take(context.Background(), ration.KeyOf("k"), ration.FixedWindow{Limit: 9, Window: time.Hour}, 4); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return path
}

func execute(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSQLite: what can be wrong with a file, and that nothing is left beside it.
func TestSQLite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		config func(*server.Config)
		want   []string
	}{
		"healthy": {},
		"new": {
			change: func(t *testing.T, path string) { remove(t, path) },
			want:   []string{"note sqlite.new"},
		},
		"empty": {
			change: func(t *testing.T, path string) { write(t, path, nil) },
			want:   []string{"note sqlite.new"},
		},
		"another program's": {
			change: func(t *testing.T, path string) {
				remove(t, path)
				execute(t, path, "CREATE TABLE theirs (a)")
			},
			want: []string{"note sqlite.schema"},
		},
		"older": {
			change: func(t *testing.T, path string) {
				execute(t, path, "DROP TABLE ration_holds", "UPDATE ration_meta SET value = 1 WHERE name = 'schema'")
			},
			want: []string{"note sqlite.schema"},
		},
		"newer": {
			change: func(t *testing.T, path string) {
				execute(t, path, "UPDATE ration_meta SET value = 99 WHERE name = 'schema'")
			},
			want: []string{"error sqlite.schema"},
		},
		"journal": {
			change: func(t *testing.T, path string) { execute(t, path, "PRAGMA journal_mode = DELETE") },
			want:   []string{"note sqlite.journal"},
		},
		"mode": {
			change: func(t *testing.T, path string) {
				if err := os.Chmod(path, 0o666); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"warning sqlite.mode"},
		},
		"no database": {
			change: func(t *testing.T, path string) {
				write(t, path, []byte("dear diary, this is no database at all, but some text"))
			},
			want: []string{"error sqlite.file"},
		},
		"a folder": {
			change: func(t *testing.T, path string) {
				remove(t, path)
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"error sqlite.file"},
		},
		"damage": {change: damage, want: []string{"error sqlite.damage"}},
		"normal": {
			config: func(c *server.Config) { c.SQLite.Synchronous = "normal" },
			want:   []string{"note sqlite.synchronous"},
		},
		"unused": {
			config: func(c *server.Config) { c.Redis.WaitReplicas = 1 },
			want:   []string{"note config.unused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			if c.change != nil {
				c.change(t, path)
			}
			before := listing(t, filepath.Dir(path))
			p := &patient{store: "sqlite:" + path, config: c.config}
			p.finds(t, c.want...)
			if after := listing(t, filepath.Dir(path)); after != before {
				t.Errorf("the folder holds %s, and held %s", after, before)
			}
		})
	}
}

// TestUserCounts: what others have counted is as before.
func TestUserCounts(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	(&patient{store: "sqlite:" + path}).finds(t)
	s, err := sqlite.Open(t.Context(), "sqlite:"+path, server.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	l := ration.New(s, nil)
	defer l.Close()
	d, err := l.Peek(t.Context(), ration.KeyOf("k"), ration.FixedWindow{Limit: 9, Window: time.Hour}, 1)
	if err != nil || d.Used != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// That of the race is empty, and gone in a minute: a wiped window is remembered for so long.
	var lasting int
	const count = "SELECT count(*) FROM ration_states WHERE expires > ?"
	if err := db.QueryRowContext(t.Context(), count, time.Now().Add(2*time.Minute).UnixMicro()).Scan(&lasting); err != nil || lasting != 1 {
		t.Errorf("%d states will be left, %v", lasting, err)
	}
}

// TestPlaces: folders that are no place for a file.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		filepath.Join(t.TempDir(), "none", "ration.db"): {"error sqlite.folder"},
		"/proc/ration.db":                    {"error sqlite.folder"},
		"/dev/null/ration.db":                {"error sqlite.folder"},
		"":                                   {"error config.store"},
		":memory:":                           {"error config.store"},
		"/dev/shm/ration-doctor-test-no.db":  {"note sqlite.new", "warning sqlite.memory"},
		"../doctor/ration-doctor-test-no.db": {"note sqlite.new", "note sqlite.relative"},
	} {
		p := &patient{store: "sqlite:" + path, ask: doctor.Options{Stage: "production", Replicas: 1}}
		if path != "" && path[0] != '.' {
			p.ask.Stage = ""
		}
		p.finds(t, want...)
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

func write(t testing.TB, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// damage spoils a page of a table.
func damage(t *testing.T, path string) {
	t.Helper()
	execute(t, path, "CREATE TABLE filler (a)", "INSERT INTO filler WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) SELECT randomblob(200) FROM n",
		"PRAGMA wal_checkpoint(TRUNCATE)")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(text) - 6*2048; i < len(text)-4*2048; i++ {
		text[i] = 0x5a
	}
	write(t, path, text)
}

func listing(t testing.TB, dir string) (names string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names += e.Name() + " "
	}
	return names
}

// TestConfig: what is valid, and probably not meant.
func TestConfig(t *testing.T) {
	t.Parallel()
	limit := func(text string, more func(*ration.Rule)) func(*server.Config) {
		return func(c *server.Config) {
			parsed, err := ration.ParseLimit(text)
			if err != nil {
				panic(err)
			}
			rule := ration.Rule{Name: "x", Limit: parsed}
			if more != nil {
				more(&rule)
			}
			c.Limits = append(c.Limits, rule)
		}
	}
	lease := func(n int64) func(*ration.Rule) { return func(r *ration.Rule) { r.Lease = n } }
	local := func(r *ration.Rule) { r.OnError = ration.LocalOnError }
	dir := t.TempDir()
	for name, c := range map[string]struct {
		config   func(*server.Config)
		replicas int
		disk     bool
		want     []string
	}{
		"sound limits": {config: func(c *server.Config) {
			for i, text := range []string{"bucket 10/1m burst 20", "sliding 3/24h", "fixed 100/1s", "budget 5000000/month Europe/Berlin", "concurrent 5 lease 30s"} {
				limit(text, func(r *ration.Rule) { r.Name = fmt.Sprintf("limit%d", i) })(c)
			}
		}},
		"sound leases":      {config: limit("bucket 1000/1s burst 1000", lease(50)), disk: true},
		"no size":           {config: limit("sliding 0/1m", nil), want: []string{"warning config.admits_nothing"}},
		"no burst":          {config: limit("bucket 10/1m burst 0", nil), want: []string{"warning config.admits_nothing"}},
		"a small burst":     {config: limit("bucket 1000000/1s burst 10", nil), want: []string{"warning config.burst"}},
		"a short window":    {config: limit("fixed 5/1ms", nil), want: []string{"note config.window"}},
		"a long hold":       {config: limit("concurrent 5 lease 48h", nil), want: []string{"note config.slots"}},
		"a great lease":     {config: limit("sliding 10/1m", lease(11)), disk: true, want: []string{"warning config.lease"}},
		"a short lease":     {config: limit("fixed 1000/100ms", lease(5)), disk: true, want: []string{"note config.lease"}},
		"a shorter lease":   {config: limit("sliding 1000/60ms", lease(5)), disk: true, want: []string{"note config.lease"}},
		"a quick bucket":    {config: limit("bucket 10000/1s burst 150", lease(5)), disk: true, want: []string{"note config.lease"}},
		"a lease in memory": {config: func(c *server.Config) { limit("sliding 10/1m", lease(2))(c) }, want: []string{"note config.lease"}},
		"many leases": {
			config: limit("sliding 10/1m", lease(4)), replicas: 3, want: []string{"warning config.lease", "warning scope.machine"},
		},
		"many servers": {
			config: limit("sliding 100/1m", local), replicas: 11, want: []string{"error config.parts", "warning scope.machine"},
		},
		"small parts":   {config: limit("sliding 9/1m", local), want: []string{"warning config.local"}},
		"local slots":   {config: limit("concurrent 50 lease 30s", local), want: []string{"note config.local"}},
		"a lost budget": {config: limit("budget 100/day", func(r *ration.Rule) { r.OnError = ration.AllowOnError }), want: []string{"note config.allow"}},
		"names":         {config: func(c *server.Config) { named(c, "api-key", "apikey", "apis") }, want: []string{"note config.names"}},
		"twice":         {config: func(c *server.Config) { named(c, "a", "a") }, want: []string{"error config.invalid"}},
		"an odd zone": {config: func(c *server.Config) {
			c.Limits = []ration.Rule{{Name: "x", Limit: ration.Budget{Limit: 1, Period: ration.Day, Zone: "Mars"}}}
		}, want: []string{"error config.invalid"}},
		"an odd store":   {config: func(c *server.Config) { c.Store = "oracle:x" }, want: []string{"error config.invalid"}},
		"no store":       {config: func(c *server.Config) { c.Store = "://" }, want: []string{"error config.invalid", "error config.invalid"}},
		"a hasty stop":   {config: func(c *server.Config) { c.ShutdownTimeout = time.Second }, want: []string{"warning config.shutdown"}},
		"much patience":  {config: func(c *server.Config) { c.Timeout, c.ShutdownTimeout = time.Minute, 2*time.Minute }, want: []string{"note config.timeout"}},
		"a sound secret": {config: secret(t, dir, "sound", "Vq3kZ0aVv1Yb9m4Qe7Rw", 0o400)},
		"a weak secret":  {config: secret(t, dir, "weak", "aaaaaaaaaaaaaaaabbbbbb", 0o600), want: []string{"warning secret.weak"}},
		"an open secret": {config: secret(t, dir, "open", "Vq3kZ0aVv1Yb9m4Qe7Rw", 0o640), want: []string{"warning secret.mode"}},
		"a short secret": {config: secret(t, dir, "short", "abc", 0o600), want: []string{"error secret.file"}},
		"a certificate":  {config: func(c *server.Config) { c.TLS.CertFile, c.TLS.KeyFile = lasting, lasting }},
		"one that ends":  {config: func(c *server.Config) { c.TLS.CertFile, c.TLS.KeyFile = ending, ending }, want: []string{"warning reach.certificate"}},
		"no certificate": {config: func(c *server.Config) { c.TLS.CertFile, c.TLS.KeyFile = "/none", ending }, want: []string{"error secret.file"}},
		"no secret":      {config: func(c *server.Config) { c.KeySecretFile = "/none" }, want: []string{"error secret.file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &patient{store: "memory:", config: c.config, ask: doctor.Options{Stage: "development", Replicas: c.replicas}}
			if c.disk || c.replicas > 0 {
				p.store = "sqlite:" + newFile(t)
			}
			p.finds(t, c.want...)
		})
	}
}

func named(c *server.Config, names ...string) {
	for _, name := range names {
		c.Limits = append(c.Limits, ration.Rule{Name: name, Limit: ration.SlidingWindow{Limit: 1, Window: time.Minute}})
	}
}

func secret(t *testing.T, dir, name, text string, mode os.FileMode) func(*server.Config) {
	t.Helper()
	path := write(t, filepath.Join(dir, name), []byte(text+"\n"))
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return func(c *server.Config) { c.KeySecretFile = path }
}
