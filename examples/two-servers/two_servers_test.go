//go:build linux

// Package twoservers holds the test of the script run.
package twoservers

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-go/ration/internal/engines"
)

// What the README says is what happens: the script checks each step, and leaves nothing behind.
func TestRun(t *testing.T) {
	t.Parallel()
	engines.Require(t)
	dir, err := os.MkdirTemp("", "two") // sockets want a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL's user passes through
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // it compiles the program
	defer cancel()
	cmd := exec.CommandContext(ctx, "./run")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"6 were allowed and 2 refused, by two servers", "nothing was lost with server a"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q\n%s", want, &out)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "two.") {
			t.Errorf("%s is left", filepath.Join(dir, entry.Name()))
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); err == nil {
		t.Error("processes are left")
	}
}
