//go:build linux

// Package chromium starts a browser for a test.
package chromium

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ration-go/ration/internal/engines"
)

// patience is how long the browser may take for all of a test.
const patience = 3 * time.Minute

// Start starts a browser for the time of a test. The context is for chromedp. It speaks to the browser through a pipe, and
// the browser finds nothing but the loopback address.
func Start(t *testing.T) context.Context {
	t.Helper()
	dir := t.TempDir()
	log := &output{}
	ctx, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(engines.Chromium(t)),
		chromedp.NoSandbox, // root has none, and some kernels neither; the pages are our own
		chromedp.DisableGPU,
		chromedp.IgnoreCertErrors,
		chromedp.UserDataDir(dir),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("disable-component-update", true),
		chromedp.NoInheritEnv,
		chromedp.Env("HOME="+dir, "TMPDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			cmd.Dir = dir
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		}),
		chromedp.CombinedOutput(log),
	)...)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		soon, giveUp := context.WithTimeout(ctx, patience)
		defer giveUp()
		if err := chromedp.Cancel(soon); err != nil {
			t.Error(err)
		}
		cancel()
		end()
		gone(t, dir)
		if t.Failed() {
			t.Log(log)
		}
	})
	// The first context takes the browser along when it ends, so the bound is set later.
	late := time.AfterFunc(patience, cancel)
	defer late.Stop()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err, log)
	}
	bounded, giveUp := context.WithTimeout(ctx, patience)
	t.Cleanup(giveUp)
	return bounded
}

// gone waits until no process works in dir or names it.
func gone(t *testing.T, dir string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		left := using(dir)
		if len(left) == 0 {
			return
		}
		if time.Since(begin) > patience {
			t.Errorf("the browser left processes: %q", left)
			return
		}
	}
}

func using(dir string) (commands []string) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return []string{err.Error()}
	}
	for _, process := range processes {
		cwd, _ := os.Readlink(process + "/cwd")         // it may have ended
		command, _ := os.ReadFile(process + "/cmdline") // likewise
		if len(command) > 0 && (strings.HasPrefix(cwd, dir) || bytes.Contains(command, []byte(dir))) {
			commands = append(commands, fmt.Sprintf("%s %s", process, bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	return commands
}

// output is what the browser prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
