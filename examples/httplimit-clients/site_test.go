//go:build linux

package clients

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// TestMain fails if goroutines outlive the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left over:\n\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked is the stacks of goroutines other than this one, after a while in which they may end.
func leaked() string {
	deadline := time.Now().Add(30 * time.Second)
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for i, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && !strings.Contains(stack, "created by testing.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}

// clock stands until it is told to move.
type clock struct {
	mu  sync.Mutex
	now time.Time
	ran time.Time // since when it runs, if it does
}

// In the middle of a second, a minute and a day.
func newClock() *clock { return &clock{now: time.Date(2030, 5, 17, 13, 7, 19, 345e6, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ran.IsZero() {
		return c.now
	}
	return c.now.Add(time.Since(c.ran))
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Run lets it go on with the machine's time.
func (c *clock) Run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ran.IsZero() {
		c.ran = time.Now()
	}
}

func newLimiter(t *testing.T, c *clock) *ration.Limiter {
	l := ration.New(memstore.New(nil), &ration.Options{Clock: c.Now})
	t.Cleanup(func() { l.Close() })
	return l
}

func guard(t *testing.T, l *ration.Limiter, ps ...httplimit.Policy) func(http.Handler) http.Handler {
	t.Helper()
	g, err := httplimit.New(l, ps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tally counts the answers of a server, and its connections.
type tally struct {
	mu          sync.Mutex
	status      map[int]int
	connections int
}

func (s *tally) connection(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.connections++
	}
}

// serve serves h on the loopback address, and counts what it answers. The counts are all there once the server is closed.
func serve(t *testing.T, h http.Handler) (s *httptest.Server, answers *tally) {
	answers = &tally{status: map[int]int{}}
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(seen, r)
		answers.mu.Lock()
		defer answers.mu.Unlock()
		answers.status[seen.status]++
	}))
	s.Config.ConnState = answers.connection
	s.Start()
	t.Cleanup(s.Close)
	return s, answers
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// run runs a program in a folder of its own, with nothing of this process's environment: no proxy, no settings.
func run(t *testing.T, program string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"LC_ALL=C", "HOME=" + cmd.Dir}
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", program, args, err, &out, &errs)
	}
	return out.String(), errs.String()
}
