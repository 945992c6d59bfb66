//go:build linux

package engines

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Wanted reports whether servers may be started: RATION_ENGINES=1. Without it, in CI, it is an error, so that no test is
// left out there unseen.
func Wanted() (bool, error) {
	if on, _ := strconv.ParseBool(os.Getenv("RATION_ENGINES")); on {
		return true, nil
	}
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		return false, errors.New("engines: RATION_ENGINES=1 is not set, and nothing may be left out in CI; run ./test")
	}
	return false, nil
}

var sayOnce sync.Once

// Require lets t go on if servers may be started. Else t is left out, which is said once for a process; in CI it fails.
func Require(t testing.TB) {
	t.Helper()
	on, err := Wanted()
	if err != nil {
		t.Fatal(err)
	}
	if !on {
		const why = "tests with real servers are left out; ./test runs them, and so does RATION_ENGINES=1 after .ci/engines"
		sayOnce.Do(func() { fmt.Fprintln(os.Stderr, "engines: "+why) })
		t.Skip(why) // never in CI: see Wanted
	}
}

// started is for the variants that take a test.
func started[T interface{ Close() error }](t testing.TB, start func() (T, error)) T {
	t.Helper()
	Require(t)
	engine, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l, ok := any(engine).(interface{ logs() string }); ok && t.Failed() {
			t.Log(l.logs())
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// program finds an executable: what the variable names (if file is given: a folder that holds it), else the first place
// that has one.
func program(variable, file string, places ...string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		places = []string{filepath.Join(path, file)}
	}
	for _, place := range places {
		// Symbolic links stay as they are: valkey-server is one program under several names.
		if path, err := exec.LookPath(place); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("engines: no program at %q; .ci/engines installs it, or set %s", places, variable)
}

// cacheFolder is where .ci/engines unpacks what is not installed as a package.
func cacheFolder() string {
	if dir := os.Getenv("RATION_CACHE"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/cache/ration"
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "ration-cache")
	}
	return filepath.Join(dir, "ration")
}
