package server_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// doctorAnswer is what doctor --json prints.
type doctorAnswer struct {
	Healthy  bool   `json:"healthy"`
	Store    string `json:"store"`
	Checks   int    `json:"checks"`
	Errors   int    `json:"errors"`
	Warnings int    `json:"warnings"`
	Notes    int    `json:"notes"`
	Findings []struct {
		Severity string `json:"severity"`
		Code     string `json:"code"`
		Where    string `json:"where"`
		Text     string `json:"text"`
		Remedy   string `json:"remedy"`
	} `json:"findings"`
}

// patience: the machine may do much else.
var patience = []string{"doctor", "--max-round-trip", "1m", "--check-timeout", "1m"}

// TestDoctorExit: what the program ends with, and what it prints where.
func TestDoctorExit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := write(t, filepath.Join(dir, "broken.yaml"), "lisen: :80\nlimits:\n  chat: bucket ten/1m\n  day: budget 5/day Mars/Olympus\n")
	write(t, filepath.Join(dir, "tokens"), "web sha256:"+strings.Repeat("ab", 32)+" take 2020-01-01\nold sha256:"+strings.Repeat("cd", 32)+" take "+
		time.Now().Add(48*time.Hour).UTC().Format(time.DateOnly)+"\nops sha256:"+strings.Repeat("ef", 32)+" admin 2090-01-01\n")
	write(t, filepath.Join(dir, "bad"), "web\n")
	for name, c := range map[string]struct {
		env  []string
		args []string
		code int
		want string // in what is printed
		not  string // in any of it
	}{
		"healthy":        {[]string{"RATION_ENV=development"}, []string{"--store", "memory:"}, 0, "memory:: nothing to do (", "round_trip"},
		"verbose":        {[]string{"RATION_ENV=development"}, []string{"--store", "memory:", "--verbose"}, 0, "ok       race", ""},
		"a warning":      {nil, []string{"--store", "memory:"}, 0, "warning  scope.process", ""},
		"strict":         {nil, []string{"--store", "memory:", "--strict"}, 1, "1 warning (", ""},
		"an error":       {nil, []string{"--store", "memory:", "--replicas", "2"}, 1, "1 error (", ""},
		"environment":    {[]string{"RATION_STORE=memory:", "RATION_ENV=production"}, nil, 0, "warning  scope.process", ""},
		"configuration":  {nil, []string{"--config", broken}, 1, broken + ":1: lisen: unknown key; did you mean listen?", ""},
		"its zone":       {nil, []string{"--config", broken}, 1, "configuration: 3 errors (1 check", ""},
		"its remedy":     {nil, []string{"--config", broken}, 1, "\n         correct it", ""},
		"an odd setting": {nil, []string{"--timeout", "long"}, 1, "--timeout", ""},
		"an odd store":   {nil, []string{"--store", "oracle:x"}, 1, "config.invalid", ""},
		"an odd flag":    {nil, []string{"--replica", "2"}, 2, "unknown flag", ""},
		"an odd number":  {nil, []string{"--replicas", "-2"}, 2, "--replicas", ""},
		"an argument":    {nil, []string{"memory:"}, 2, "no arguments", ""},
		"a password":     {nil, []string{"--store", "postgres://app:hunter2@127.0.0.1:1/x"}, 1, "error    reach.connect", "hunter2"},
		"tokens":         {[]string{"RATION_ENV=development"}, []string{"--store", "memory:", "--access-tokens-file", "tokens"}, 0, ": 1 warning, 1 note (", "ops"},
		"no tokens":      {nil, []string{"--store", "memory:", "--access-tokens-file", "bad"}, 1, "error    secret.file", ""},
		"another":        {nil, []string{"--store", "redis://app:hunter2@127.0.0.1:1"}, 1, "redis://app:xxxxx@127.0.0.1:1: 1 error (", "hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := run(t, dir, c.env, append(append([]string{}, patience...), c.args...)...)
			if all := stdout + stderr; code != c.code || !strings.Contains(all, c.want) || c.not != "" && strings.Contains(all, c.not) {
				t.Errorf("exit %d, not %d; prints\n%s\n%s", code, c.code, stdout, stderr)
			}
		})
	}
}

// TestDoctorJSON: one form for all, and a file that is not there is not made.
func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args    []string
		healthy bool
		code    string
	}{
		{[]string{"--store", "memory:"}, true, "scope.process"},
		{[]string{"--store", "memory:", "--strict"}, false, "scope.process"},
		{nil, true, "sqlite.new"},
		{[]string{"--store", "postgres://app:hunter2@127.0.0.1:1/x"}, false, "reach.connect"},
		{[]string{"--timeout", "long"}, false, "config.invalid"},
	} {
		stdout, stderr, code := run(t, dir, nil, append(append([]string{}, patience...), append(c.args, "--json")...)...)
		var a doctorAnswer
		if err := json.Unmarshal([]byte(stdout), &a); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		found := false
		n := map[string]int{}
		for _, f := range a.Findings {
			found = found || f.Code == c.code
			n[f.Severity]++
			if f.Text == "" || (f.Remedy == "") != (f.Severity == "ok") {
				t.Errorf("%+v", f)
			}
		}
		if a.Healthy != c.healthy || code == 0 != a.Healthy || !found || stderr != "" || a.Store == "" || a.Checks == 0 ||
			n["error"] != a.Errors || n["warning"] != a.Warnings || n["note"] != a.Notes || strings.Contains(stdout, "hunter2") {
			t.Errorf("%v: exit %d, %s%s", c.args, code, stdout, stderr)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("%q were made, %v", left, err)
	}
}

// TestDoctorBesideServer: it looks at a file that a server uses, which does not mind.
func TestDoctorBesideServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serve(t, dir)
	if _, stderr, code := run(t, dir, []string{"RATION_SERVER=" + p.url}, "take", "bob", "fixed 3/1h"); code != 0 {
		t.Fatal(stderr)
	}
	stdout, stderr, code := run(t, dir, nil, append(append([]string{}, patience...), "--strict")...)
	if code != 0 || !strings.HasPrefix(stdout, "sqlite:ration.db: nothing to do (") {
		t.Errorf("exit %d, prints\n%s%s", code, stdout, stderr)
	}
	stdout, _, _ = run(t, dir, []string{"RATION_SERVER=" + p.url}, "peek", "bob", "fixed 3/1h")
	if !strings.Contains(stdout, "2 of 3 left") {
		t.Errorf("afterwards: %s", stdout)
	}
}

// TestDoctorBounded: a store that never answers does not hold it up.
func TestDoctorBounded(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	begun := time.Now()
	stdout, _, code := run(t, t.TempDir(), nil, "doctor", "--store", "postgres://app@"+ln.Addr().String()+"/x?sslmode=disable", "--check-timeout", "300ms")
	if took := time.Since(begun); code != 1 || !strings.Contains(stdout, "reach.silent") || took > 30*time.Second {
		t.Errorf("exit %d after %v: %s", code, took, stdout)
	}
}
