package server_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	file := write(t, filepath.Join(t.TempDir(), "ration.yaml"), `
# everything there is
listen: 127.0.0.1:9
store: memory
namespace: shop
key_secret_file: secret
on_error: allow
outage: {failures: 3, probe: 2s, parts: 4, max_keys: 9}
remember_refusals: 500ms
timeout: 2s
shutdown_timeout: 1m
log: {level: debug, format: json}
sqlite:
  synchronous: normal
memory: {max_keys: 10, max_bytes: 1000000}
postgres: {schema: limits, migrate: off}
redis: {prefix: "limits:", wait_replicas: 1}
watch: true
overrides: {poll: 3s}
limits:
  chat: bucket 10/1m burst 20
  tokens:
    limit: budget 5000000/month Europe/Berlin
    on_error: deny
    lease: 50
    shadow: true
    candidate: fixed 3/1m
`)
	got := must[*server.Config](t)(server.Load(file, nil))
	want := server.Defaults() // of what the file does not say
	want.Listen, want.Store, want.Namespace, want.KeySecretFile, want.OnError = "127.0.0.1:9", "memory:", "shop", "secret", ration.AllowOnError
	want.Outage = ration.Outage{Failures: 3, Probe: 2 * time.Second, Parts: 4, MaxKeys: 9}
	want.RememberRefusals, want.Timeout, want.ShutdownTimeout = 500*time.Millisecond, 2*time.Second, time.Minute
	want.Log = server.LogConfig{Level: slog.LevelDebug, Format: "json"}
	want.SQLite = server.SQLiteConfig{Synchronous: "normal"}
	want.Memory = server.MemoryConfig{MaxKeys: 10, MaxBytes: 1000000}
	want.Postgres = server.PostgresConfig{Schema: "limits", Migrate: "off"}
	want.Redis = server.RedisConfig{Prefix: "limits:", WaitReplicas: 1}
	want.Watch, want.Overrides = true, server.OverridesConfig{Poll: 3 * time.Second}
	want.Trials = []server.TrialConfig{{Limit: "tokens", Shadow: true, Candidate: ration.FixedWindow{Limit: 3, Window: time.Minute}}}
	want.Limits = []ration.Rule{
		{Name: "chat", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}},
		{Name: "tokens", Limit: ration.Budget{Limit: 5000000, Period: ration.Month, Zone: "Europe/Berlin"}, OnError: ration.DenyOnError, Lease: 50},
	}
	equal(t, got, want)
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func equal(t *testing.T, got, want *server.Config) {
	t.Helper()
	g, w := *got, *want
	if len(g.Limits) != len(w.Limits) {
		t.Fatalf("got %d limits, not %d", len(g.Limits), len(w.Limits))
	}
	for i := range g.Limits {
		a, b := g.Limits[i], w.Limits[i]
		if a.Name != b.Name || a.OnError != b.OnError || a.String() != b.String() {
			t.Errorf("got %q %v %v\nnot %q %v %v", a.Name, a, a.OnError, b.Name, b, b.OnError)
		}
	}
	g.Limits, w.Limits = nil, nil
	if got, want := sprint(g), sprint(w); got != want {
		t.Errorf("got %s\nnot %s", got, want)
	}
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	if err := server.Defaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "{}", "limits: {}\n"} {
		got, err := server.Load(write(t, filepath.Join(t.TempDir(), "c"), text), nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		equal(t, got, server.Defaults())
	}
}

func TestLoadFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"lisen: x\n", "c:1: lisen: unknown key; did you mean listen?"},
		{"colour: x\n", "c:1: colour: unknown key; known are listen, "},
		{"\nlog:\n  levl: info\n", "c:3: log.levl: unknown key; did you mean level?"},
		{"log:\n  log: {level: info}\n", "c:2: log.log: unknown key; known are level, format"},
		{"log: debug\n", "c:1: log: not a map of keys and values"},
		{"log:\n", "c:1: log: not a map of keys and values"},
		{"- listen\n", "c:1: not a map of keys and values"},
		{"listen\n", "c:1: not a map of keys and values"},
		{"listen: [a]\n", "c:1: listen: one value is expected here, not a map or a list"},
		{"listen:\n", "c:1: listen: no value; give one, or leave the key out"},
		{"namespace: ~\n", "c:1: namespace: no value; give one, or leave the key out"},
		{"? [a]\n: b\n", "c:1: a key is not a word"},
		{"listen: :1\nstore: 'memory:'\nlisten: :2\n", "c:3: listen: set twice; it was set on line 1"},
		{"<<: {listen: ':1'}\n", "c:1: <<: unknown key; known are"},
		{"listen: localhost\n", `c:1: listen: "localhost" is not HOST:PORT, such as 127.0.0.1:7531, or :7531 for all addresses`},
		{"store: ration.db\n", `c:1: store: "ration.db" is not the URL of a store; it begins with a scheme and a colon, as in sqlite:ration.db or memory:`},
		{"namespace: " + strings.Repeat("n", 257) + "\n", "c:1: namespace: a namespace of 257 bytes is longer than 256"},
		{"on_error: perhaps\n", `c:1: on_error: "perhaps" is not deny, allow or local`},
		{"outage:\n  parts: 0\n", "c:2: outage.parts: 0 is too small; it is at least 1"},
		{"remember_refusals: 2s\n", "c:1: remember_refusals: 2s"},
		{"timeout: 5\n", `c:1: timeout: "5" is not a duration with a unit, such as 500ms or 5s`},
		{"timeout: 2m\n", "c:1: timeout: 2m0s is not between 1ms and 1m0s"},
		{"timeout: -1s\n", "c:1: timeout: -1s is not between 1ms and 1m0s"},
		{"log: {level: off}\n", `c:1: log.level: "off" is not debug or info or warn or error`},
		{"log: {format: xml}\n", `c:1: log.format: "xml" is not text or json`},
		{"sqlite: {synchronous: off}\n", `c:1: sqlite.synchronous: "off" is not full or normal`},
		{"memory: {max_keys: 1e3}\n", `c:1: memory.max_keys: "1e3" is not a whole number from 0 to 2147483647`},
		{"memory: {max_keys: -1}\n", `c:1: memory.max_keys: "-1" is not a whole number from 0 to 2147483647`},
		{"limits: chat\n", "c:1: limits: not a map of keys and values"},
		{"limits:\n  chat: bucket 10\n", `c:2: limits.chat: invalid limit: "10" is not a number, a slash and a duration, as in 10/1m (in "bucket 10")`},
		{"limits:\n  chat: bucket 10/1m burst -1\n", `c:2: limits.chat: invalid limit: "-1" is not a whole number, in digits only`},
		{"limits:\n  chat: 10\n", `c:2: limits.chat: invalid limit: a limit begins with bucket, sliding, fixed`},
		{"limits:\n  chat:\n", "c:2: limits.chat: no value; give one, or leave the key out"},
		{"limits:\n  chat: [a]\n", "c:2: limits.chat: one value is expected here, not a map or a list"},
		{"limits:\n  Chat: fixed 3/1m\n", `c:2: limits.Chat: invalid limit: a rule's name is a letter a–z`},
		{"limits:\n  '': fixed 3/1m\n", `c:2: limits.: a limit needs a name`},
		{"limits:\n  chat: fixed 3/1m\n  chat: fixed 4/1m\n", "c:3: limits.chat: set twice; it was set on line 2"},
		{"limits:\n  chat:\n    on_error: deny\n", "c:3: limits.chat: no limit; add one, as in limit: bucket 10/1m burst 20"},
		{"limits:\n  chat:\n    limit: fixed 3/1m\n    onerror: deny\n", "c:4: limits.chat.onerror: unknown key; did you mean on_error?"},
		{"limits:\n  chat:\n    limit: fixed 3/1m\n    on_error: maybe\n", `c:4: limits.chat.on_error: "maybe" is not deny, allow or local`},
		{"limits:\n  chat:\n    limit: fixed 3/1m\n    lease: many\n", "c:4: limits.chat.lease: "},
		{"limits:\n  chat:\n    limit: fixed 3/1m\n    shadow: maybe\n", `c:4: limits.chat.shadow: "maybe" is not true or false`},
		{"limits:\n  chat:\n    limit: fixed 3/1m\n    candidate: fixed 3\n", "c:4: limits.chat.candidate: the candidate is the text of a limit: "},
		{"limits:\n  chat:\n    limit: concurrent 3 lease 30s\n    shadow: true\n", "c:2: limits.chat: a limit of the kind concurrent holds slots"},
		{"limits:\n  chat:\n    limit: fixed 3/1m\n    candidate: concurrent 3 lease 30s\n", "c:2: limits.chat: a candidate cannot be of the kind concurrent"},
		{"limits:\n  chat:\n    limit: fixed 3/1m\n    candidate: fixed 2/1m\n  chat.candidate: fixed 3/1m\n", "c:2: limits.chat: its candidate would count under the name chat.candidate"},
		{"overrides: {poll: 1}\n", "c:1: overrides.poll: \"1\" is not a duration"},
		{"overrides: {poll: 1ms}\n", "c:1: overrides.poll: 1ms is less than 100ms; 0s is for no overrides"},
		{"watch: perhaps\n", "c:1: watch: \"perhaps\" is not true or false"},
		{"limits:\n  day: budget 3/day Local\n", "c:2: limits.day: invalid limit:"},
		{"listen: ':1'\n---\nlisten: ':2'\n", "c:2: a second document; a configuration is one"},
		{"store: memory:\n", "c:1: not YAML: mapping values are not allowed in this context"},
		{"listen: 'x\n", "c:2: not YAML: found unexpected end of stream"},
		{"listen: a\n b: c\n", "c:2: not YAML: mapping values are not allowed in this context"},
		{"\tlisten: a\n", "c:1: not YAML: found character that cannot start any token"},
		{"listen: *x\n", "c:1: not YAML: unknown anchor 'x' referenced"},
		{"listen: \xff\n", "c: not YAML: "},
		{strings.Repeat("#", 1<<20+1), "c: 1048577 bytes are more than a configuration may have"},
	} {
		dir := t.TempDir()
		_, err := server.Load(write(t, filepath.Join(dir, "c"), c.text), nil)
		if err == nil {
			t.Errorf("%.60q is accepted", c.text)
			continue
		}
		got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%.60q says\n%s\nnot\n%s", c.text, got, c.want)
		}
	}
}

func TestLoadSaysAllFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "c"), "limits:\n  a: x\n  b: fixed 0\nlog: {level: x}\nzzz: 1\n")
	_, err := server.Load(file, []string{"RATION_LISTEN=x", "RATION_ZZZ=1", "OTHER=1"})
	var starts []string
	for line := range strings.Lines(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")) {
		where, _, _ := strings.Cut(line, ": ")
		starts = append(starts, where)
	}
	if got := strings.Join(starts, " "); got != "c:2 c:3 c:4 c:5 RATION_LISTEN RATION_ZZZ" {
		t.Errorf("faults at %s:\n%v", got, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	got := must[*server.Config](t)(server.Load("", []string{
		"RATION_LISTEN=:9", "RATION_LOG_LEVEL=warn", "RATION_SQLITE_SYNCHRONOUS=normal", "RATION_MEMORY_MAX_KEYS=7",
		"RATION_KEY_SECRET_FILE=s", "RATION_TIMEOUT=", "RATION_ENV=production", "RATION_SERVER=http://x", "RATION_CONFIG=x", "RATIONAL=1",
	}))
	want := server.Defaults()
	want.Listen, want.Log.Level, want.SQLite.Synchronous, want.Memory.MaxKeys, want.KeySecretFile = ":9", slog.LevelWarn, "normal", 7, "s"
	equal(t, got, want)

	for name, want := range map[string]string{
		"RATION_LISEN=x":        "RATION_LISEN: unknown variable; did you mean RATION_LISTEN?",
		"RATION_LIMITS=x":       "RATION_LIMITS: unknown variable; known are",
		"RATION_LOG_FORMAT=xml": `RATION_LOG_FORMAT: "xml" is not text or json`,
		"RATION_=":              "RATION_: unknown variable; known are RATION_CONFIG, RATION_SERVER, RATION_TOKEN, RATION_ENV, RATION_LISTEN",
	} {
		if _, err := server.Load("", []string{name}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s says %v", name, err)
		}
	}
}

func TestFlagsGoFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), "store: 'memory:'\nnamespace: file\nlisten: ':1'\ntimeout: 1s\n")
	env := []string{"RATION_CONFIG=ration.yaml", "RATION_NAMESPACE=env", "RATION_LISTEN=:2"}
	stdout, stderr, code := run(t, dir, env, "config", "check", "--listen", ":3")
	if code != server.ExitOK {
		t.Fatal(stderr)
	}
	for name, want := range map[string]string{"listen": ":3", "namespace": "env", "timeout": "1s", "store": "memory:", "on_error": "deny"} {
		if got := row(stdout, name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	write(t, filepath.Join(dir, "other.yaml"), "namespace: other\n")
	stdout, _, _ = run(t, dir, env[:1], "config", "check", "--config", "other.yaml")
	if got := row(stdout, "namespace"); got != "other" {
		t.Errorf("--config does not go before RATION_CONFIG: namespace is %q", got)
	}
}

func row(table, name string) string {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			return fields[1]
		}
	}
	return ""
}

func TestValidateRules(t *testing.T) {
	t.Parallel()
	fixed := ration.FixedWindow{Limit: 3, Window: time.Minute}
	for _, c := range []struct {
		limits []ration.Rule
		want   string
	}{
		{[]ration.Rule{{Limit: fixed}}, "limits: a limit has no name"},
		{[]ration.Rule{{Name: "a", Limit: fixed}, {Name: "a", Limit: fixed}}, "limits.a: two limits have this name"},
		{[]ration.Rule{{Name: "a"}}, "limits.a: invalid limit: the limit is nil"},
		{[]ration.Rule{{Name: "a", Limit: &fixed}}, "limits.a: invalid limit: the limit is a *ration.FixedWindow"},
		{[]ration.Rule{{Name: "a", Limit: fixed, Lease: -1}}, "limits.a: "},
	} {
		cfg := server.Defaults()
		cfg.Limits = c.limits
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v", c.limits, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("limits:\n  chat: {limit: bucket 10/1m burst 20, on_error: allow}\nlog: &a {level: info}\n"))
	f.Add([]byte("a: &a [*a]\nlimits: &l {l: *l}\n"))
	path := filepath.Join(f.TempDir(), "c")
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := server.Load(write(t, path, string(text)), nil)
		if err == nil {
			err = c.Validate()
		}
		if err == nil {
			return
		}
		for line := range strings.Lines(err.Error()) {
			if line == "\n" {
				t.Errorf("a fault without a reason: %q", err)
			}
		}
	})
}
