package sqlitetest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

// childEnv makes the test binary a process that uses a store: what it does, the driver and the file, each on a line.
const childEnv = "RATION_SQLITETEST_CHILD"

func runChild(text string) int {
	args := strings.Split(text, "\n")
	if err := child(args[0], args[1], args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func child(what, engine, path string) error {
	db, err := sql.Open(engines[engine], path)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlitestore.New(context.Background(), db, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println("ready")
	// A byte at a time: what comes after the line is not ours.
	for b := make([]byte, 1); b[0] != '\n'; {
		if _, err := os.Stdin.Read(b); err != nil {
			return err
		}
	}
	switch what {
	case "takes":
		return childTakes(s)
	case "serve":
		return childServe(s)
	case "hits":
		return childHits(s)
	case "share":
		return childShare(s)
	case "reserve":
		return childReserve(s)
	case "settle":
		return childSettle(s)
	}
	return errors.New("no such child: " + what)
}

// childTakes asks a thousand times for one of 2500, from four goroutines, and prints how many it got.
func childTakes(s *sqlitestore.Store) error {
	var got atomic.Int64
	errs := make(chan error)
	for range 4 {
		go func() {
			errs <- func() error {
				for range 250 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					txn := take("shared", 2500, 1)
					err := s.Apply(ctx, []*driver.Txn{txn})
					cancel()
					if err = errors.Join(err, txn.Err); err != nil {
						return err
					}
					if txn.Allowed {
						got.Add(1)
					}
				}
				return nil
			}()
		}()
	}
	var err error
	for range 4 {
		err = errors.Join(err, <-errs)
	}
	fmt.Println(got.Load())
	return err
}

// childHits counts in batches until it is killed, and prints each acknowledged count.
func childHits(s *sqlitestore.Store) error {
	for {
		a, b := hit("a", 1), hit("b", 2)
		if err := s.Apply(context.Background(), []*driver.Txn{a, b}); err != nil {
			return err
		}
		fmt.Println(a.Ops[0].Result.Used)
	}
}

// childShare takes for two seconds, and prints how often it did and how long it waited at most.
func childShare(s *sqlitestore.Store) error {
	n, longest := 0, time.Duration(0)
	for start := time.Now(); time.Since(start) < 2*time.Second; n++ {
		at := time.Now()
		if err := s.Apply(context.Background(), []*driver.Txn{hit("x", 1)}); err != nil {
			return err
		}
		longest = max(longest, time.Since(at))
	}
	fmt.Println(n, longest.Round(time.Millisecond))
	return nil
}

// process is a child that has opened its store.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(t testing.TB, what, engine, path string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+what+"\n"+engine+"\n"+path)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	if line := p.line(t); line != "ready" {
		t.Fatalf("the child said %q", line)
	}
	return p
}

func (p *process) line(t testing.TB) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal("the child ended: ", err)
	}
	return strings.TrimSpace(line)
}

func (p *process) begin(t testing.TB) {
	t.Helper()
	if _, err := p.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
}

// TestFourProcesses: 1000 takes by each of four processes, of a limit of 2500: all alike, or two of each driver.
func TestFourProcesses(t *testing.T) {
	t.Parallel()
	for name, drivers := range map[string][4]string{
		"modernc": {"modernc", "modernc", "modernc", "modernc"},
		"ncruces": {"ncruces", "ncruces", "ncruces", "ncruces"},
		"mixed":   {"modernc", "ncruces", "modernc", "ncruces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fourProcesses(t, drivers)
		})
	}
}

func fourProcesses(t *testing.T, drivers [4]string) {
	path := file(t)
	var all []*process
	for _, engine := range drivers {
		all = append(all, startChild(t, "takes", engine, path))
	}
	for _, p := range all {
		p.begin(t)
	}
	sum := 0
	for _, p := range all {
		n, err := strconv.Atoi(p.line(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
		t.Log(n)
		sum += n
	}
	if sum != 2500 {
		t.Errorf("four processes took %d of 2500", sum)
	}
}

func TestKill(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		last := int64(0)
		for round := range 5 {
			p := startChild(t, "hits", engine, path)
			p.begin(t)
			for range 20 + 37*round {
				n, err := strconv.ParseInt(p.line(t), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				last = n
			}
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for { // what it said before it died is acknowledged too
				line, err := p.out.ReadString('\n')
				if err != nil {
					break
				}
				if last, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			_ = p.cmd.Wait()

			s := open(t, engine, path, nil)
			a, b := used(t, s, "a"), used(t, s, "b")
			if a < last || a > last+1 {
				t.Errorf("%d hits were acknowledged, and %d are in the file", last, a)
			}
			if b != 2*a {
				t.Errorf("half of a batch is in the file: %d and %d", a, b)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			last = a
		}
	})
}

// TestFairness runs four writers without a pause. None may starve, whatever the driver's own way of waiting is.
func TestFairness(t *testing.T) {
	for engine := range engines { // one after the other: they measure
		t.Run(engine, func(t *testing.T) {
			path := file(t)
			var all []*process
			for range 4 {
				all = append(all, startChild(t, "share", engine, path))
			}
			for _, p := range all {
				p.begin(t)
			}
			least, most := 1<<30, 0
			for _, p := range all {
				var n int
				var longest string
				if _, err := fmt.Sscan(p.line(t), &n, &longest); err != nil {
					t.Fatal(err)
				}
				t.Logf("%d calls, the longest lasted %s", n, longest)
				least, most = min(least, n), max(most, n)
				if err := p.cmd.Wait(); err != nil {
					t.Error(err)
				}
			}
			if least*20 < most {
				t.Errorf("one process wrote %d times while another wrote %d times", least, most)
			}
		})
	}
}
