package server_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-go/ration/internal/crowd"
)

// program is the path of the program, built once.
var program string

// rewrite has the answers in testdata and docs written anew.
var rewrite bool

// long has what takes minutes tested too.
var long bool

func TestMain(m *testing.M) {
	if crowd.IsMember() {
		os.Exit(crowd.Member(openClient))
	}
	os.Exit(testMain(m))
}

// forEngines are variables of package engines, which are none of the program's.
var forEngines = []string{"RATION_ENGINES", "RATION_CACHE", "RATION_REDIS_SERVER", "RATION_REDIS_CLI", "RATION_NGINX", "RATION_CADDY", "RATION_CURL"}

// environ is the environment of programs.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "RATION_") })
}

func testMain(m *testing.M) int {
	long = os.Getenv("RATION_LONG") != ""
	// What a developer has set is not to change what is tested here.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "RATION_") && name != "RATION_REWRITE" && !slices.Contains(forEngines, name) {
			os.Unsetenv(name)
		}
	}
	rewrite = os.Getenv("RATION_REWRITE") == "1"
	os.Unsetenv("RATION_REWRITE")

	dir, err := os.MkdirTemp("", "ration")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "ration")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/ration").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the program does not build: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	return code
}

// leaks fails if goroutines outlive the tests.
func leaks() int {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if runtime.NumGoroutine() <= 2 { // this one, and os/signal's
			return 0
		}
	}
	stacks := make([]byte, 1<<20)
	fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
	return 1
}

// output is what a process writes, to be waited for.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a running program.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *output
	stderr *output
	ended  chan struct{}
	url    string // of serve
}

// start runs the program in dir, with further variables.
func start(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state says all
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

var listening = regexp.MustCompile(`https?://[0-9.:\[\]a-f]+`)

// serve runs a server on a free port, and waits until it listens.
func serve(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	p := start(t, dir, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	p.url = listening.FindString(p.wait(p.stdout, "listens on"))
	return p
}

// wait waits until out holds want, and answers what it holds.
func (p *process) wait(out *output, want string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	for {
		out.mu.Lock()
		text, changed := out.text.String(), out.changed
		out.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-changed:
		case <-p.ended:
			if text := out.String(); strings.Contains(text, want) {
				return text
			}
			p.t.Fatalf("%v ended without saying %q\nstdout: %s\nstderr: %s", p.cmd.Args[1:], want, p.stdout, p.stderr)
		case <-ctx.Done():
			p.t.Fatalf("%v does not say %q\nstdout: %s\nstderr: %s", p.cmd.Args[1:], want, p.stdout, p.stderr)
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits for the end, and answers the exit code, or −1 and the signal.
func (p *process) end() (code int, by syscall.Signal) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("%v does not end\nstderr: %s", p.cmd.Args[1:], p.stderr)
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return -1, status.Signal()
	}
	return status.ExitStatus(), 0
}

// run runs the program to its end.
func run(t testing.TB, dir string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := start(t, dir, env, args...)
	code, _ = p.end()
	return p.stdout.String(), p.stderr.String(), code
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func sprint(v any) string { return fmt.Sprintf("%+v", v) }
