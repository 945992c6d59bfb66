//go:build linux

package pgstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
)

// childEnv makes the test binary a process that uses a store: what it does, the server's URL and the schema, each on a line.
const childEnv = "RATION_PGSTORE_CHILD"

func runChild(text string) int {
	args := strings.Split(text, "\n")
	if err := child(args[0], args[1], args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func child(what, url, schema string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: schema, SweepEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println("ready")
	for b := make([]byte, 1); b[0] != '\n'; {
		if _, err := os.Stdin.Read(b); err != nil {
			return err
		}
	}
	switch what {
	case "takes":
		return childTakes(s)
	case "lists":
		return childLists(s)
	case "hits":
		return childHits(s)
	}
	return errors.New("no such child: " + what)
}

// ten is a limit of ten thousand, which eight processes share.
var ten = ration.Rule{Name: "ten", Limit: ration.FixedWindow{Limit: 10_000, Window: 24 * time.Hour}}

// childTakes asks five thousand times for one of ten thousand, a fifth of it alone and the rest from callers whose calls
// travel together, and prints how many it got.
func childTakes(s *pgstore.Store) error {
	var got atomic.Int64
	var wg sync.WaitGroup
	alone := ration.New(s, &ration.Options{Timeout: time.Minute, NoJoin: true})
	joined := ration.New(s, &ration.Options{Timeout: time.Minute})
	errs := make([]error, 44)
	for i := range errs {
		wg.Go(func() {
			l, calls := joined, 100
			if i < 4 {
				l, calls = alone, 250
			}
			for range calls {
				d, err := l.Take(context.Background(), ration.KeyOf("one"), ten, 1)
				if err != nil {
					errs[i] = err
					return
				}
				if d.Allowed {
					got.Add(1)
				}
			}
		})
	}
	wg.Wait()
	fmt.Println(got.Load())
	return errors.Join(errors.Join(errs...), joined.Close(), alone.Close())
}

const listKeys = 20

// childLists takes from random keys at once until its input ends, and prints what it got of each.
func childLists(s *pgstore.Store) error {
	var got [listKeys]atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that counts
	}()
	err := fourTimes(func(rng *rand.Rand) error {
		for {
			select {
			case <-done:
				return nil
			default:
			}
			batch := randomBatch(rng)
			if err := sent(s, batch...); err != nil {
				return err
			}
			for _, txn := range batch {
				for _, op := range txn.Ops {
					if txn.Allowed {
						k, _ := strconv.Atoi(op.Key.ID[1:])
						got[k].Add(op.Cost)
					}
				}
			}
		}
	})
	for i := range got {
		fmt.Println(got[i].Load())
	}
	return err
}

// randomBatch is of lists, or of single takes of different keys.
func randomBatch(rng *rand.Rand) []*driver.Txn {
	op := func(k int) driver.Op { return takeOp(fmt.Sprint("k", k), 20_000, 1+rng.Int64N(3)) }
	var batch []*driver.Txn
	if rng.IntN(2) == 0 {
		for _, k := range rng.Perm(listKeys)[:1+rng.IntN(10)] {
			batch = append(batch, &driver.Txn{Verb: driver.Take, Ops: []driver.Op{op(k)}})
		}
		return batch
	}
	for range 1 + rng.IntN(2)*rng.IntN(8) {
		txn := &driver.Txn{Verb: driver.Take}
		for _, k := range rng.Perm(listKeys)[:1+rng.IntN(6)] {
			txn.Ops = append(txn.Ops, op(k))
		}
		batch = append(batch, txn)
	}
	return batch
}

// childHits counts up by ones until it is killed, each time telling how often it was acknowledged, and how often the
// outcome was unknown.
func childHits(s *pgstore.Store) error {
	key := "hits-" + strconv.Itoa(os.Getpid())
	acked, unknown := 0, 0
	for {
		txn := take(key, driver.MaxNumber, 1)
		switch err := sent(s, txn); {
		case err == nil && txn.Allowed:
			acked++
		case err == nil:
			return errors.New("refused")
		case !errors.Is(err, driver.ErrNotApplied):
			unknown++
		default:
			<-time.After(50 * time.Millisecond) // as long as the server is down, others need the processor
		}
		fmt.Println(acked, unknown)
	}
}

func fourTimes(f func(*rand.Rand) error) error {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = f(rand.New(rand.NewPCG(rand.Uint64(), 0))) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func sent(s *pgstore.Store, batch ...*driver.Txn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := s.Apply(ctx, batch)
	for _, txn := range batch {
		err = errors.Join(err, txn.Err)
	}
	return err
}

// process is a child; it has opened its store when it is ready.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startChildren starts n children, and waits until all are ready.
func startChildren(t testing.TB, n int, what, url, schema string) (all []*process) {
	t.Helper()
	for range n {
		all = append(all, startChild(t, what, url, schema))
	}
	for _, p := range all {
		if line := p.line(t); line != "ready" {
			t.Fatalf("the child said %q", line)
		}
	}
	return all
}

func startChild(t testing.TB, what, url, schema string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+what+"\n"+url+"\n"+schema)
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

func (p *process) number(t testing.TB) int64 {
	t.Helper()
	n, err := strconv.ParseInt(p.line(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (p *process) begin(t testing.TB) {
	t.Helper()
	if _, err := p.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
}

func (p *process) end(t testing.TB) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestEightProcesses: eight times five thousand takes of a limit of ten thousand are admitted ten thousand times.
func TestEightProcesses(t *testing.T) {
	t.Parallel()
	url, schema := server(t, 15).URL, newSchema()
	s := open(t, newPool(t, url, nil), &pgstore.Options{Schema: schema})
	all := startChildren(t, 8, "takes", url, schema)
	for _, p := range all {
		p.begin(t)
	}
	sum := int64(0)
	for _, p := range all {
		sum += p.number(t)
		p.end(t)
	}
	d, err := ration.New(s, nil).Peek(context.Background(), ration.KeyOf("one"), ten, 1)
	if sum != 10_000 || err != nil || d.Used != 10_000 {
		t.Errorf("eight processes took %d of 10 000, and %d are used: %v", sum, d.Used, err)
	}
}

// TestLists: random decisions over several keys or one, alone and in batches, from four processes. There is no error, none is torn, and what
// was admitted is what is used.
func TestLists(t *testing.T) {
	t.Parallel()
	url, schema := server(t, 15).URL, newSchema()
	s := open(t, newPool(t, url, nil), &pgstore.Options{Schema: schema})
	all := startChildren(t, 4, "lists", url, schema)
	for _, p := range all {
		p.begin(t)
	}
	lasts := 3 * time.Second
	if long() > 1 {
		lasts = time.Duration(long()) * 6 * time.Second
	}
	<-time.After(lasts)
	for _, p := range all {
		if err := p.in.Close(); err != nil {
			t.Error(err)
		}
	}
	var sums [listKeys]int64
	for _, p := range all {
		for i := range sums {
			sums[i] += p.number(t)
		}
		p.end(t)
	}
	for i, sum := range sums {
		if n := used(t, s, fmt.Sprint("k", i)); n != sum {
			t.Errorf("%d of key %d were admitted, and %d are used", sum, i, n)
		}
	}
}

// TestKills kills clients, backends and the whole server at random. What was acknowledged is counted afterwards, and
// beyond that no more than what was under way.
func TestKills(t *testing.T) {
	t.Parallel()
	engines.Require(t)
	server, err := engines.StartPostgres(&engines.PostgresOptions{Settings: []string{"fsync=off", "restart_after_crash=on"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	schema := newSchema()
	pool := newPool(t, server.URL, nil)
	s := open(t, pool, &pgstore.Options{Schema: schema})
	rng := rand.New(rand.NewPCG(seed(t), 0))
	for round := range 4 * long() {
		all := startChildren(t, 4, "hits", server.URL, schema)
		for _, p := range all {
			p.begin(t)
		}
		var told sync.WaitGroup
		acked, unknown := make([]int64, len(all)), make([]int64, len(all))
		under := make(chan struct{}, len(all)) // a child is under way
		for i, p := range all {
			told.Go(func() {
				for said := false; ; {
					line, err := p.out.ReadString('\n')
					if err != nil {
						return
					}
					fmt.Sscan(line, &acked[i], &unknown[i]) //nolint:errcheck // a line that was cut off tells nothing
					if acked[i] >= 5 && !said {
						said = true
						under <- struct{}{}
					}
				}
			})
		}
		for range all {
			select {
			case <-under:
			case <-time.After(time.Minute):
				t.Fatal("no hits")
			}
		}
		<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond)
		what := [...]string{"clients", "backend", "terminate", "server"}[round%4]
		switch what {
		case "backend", "terminate":
			killBackends(t, server, pool, what == "backend")
		case "server":
			if err := errors.Join(server.Kill(), server.Restart()); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Duration(100+rng.IntN(300)) * time.Millisecond)
		for _, p := range all {
			_ = p.cmd.Process.Kill()
		}
		told.Wait()
		waitReady(t, server)
		sum := int64(0)
		for i, p := range all {
			_ = p.cmd.Wait()
			n := usedAtLast(t, s, fmt.Sprint("hits-", p.cmd.Process.Pid))
			if n < acked[i] || n > acked[i]+unknown[i]+1 {
				t.Errorf("%s killed: %d hits were acknowledged and %d unknown, and %d are counted", what, acked[i], unknown[i], n)
			}
			sum += acked[i]
		}
		t.Logf("%s killed after %d hits", what, sum)
	}
}

// killBackends ends a process of the server that works for a client, by SIGKILL or in the server's own way.
func killBackends(t *testing.T, server *engines.Server, pool *pgxpool.Pool, hard bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if !hard {
		if _, err := pool.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"); err != nil {
			t.Error(err)
		}
		return
	}
	var pid int
	err := pool.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query LIKE '%ration_one%' LIMIT 1").Scan(&pid)
	if err != nil {
		t.Error(err)
		return
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}

func waitReady(t *testing.T, server *engines.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for server.Ping(ctx) != nil {
		select {
		case <-ctx.Done():
			t.Fatal("the server does not come back")
		case <-time.After(100 * time.Millisecond): // each ping is a new process of the server
		}
	}
}

// usedAtLast is used, when the connections of before a crash are gone.
func usedAtLast(t *testing.T, s *pgstore.Store, id string) int64 {
	t.Helper()
	var err error
	for range 100 {
		txn := take(id, driver.MaxNumber, 1)
		txn.Verb = driver.Peek
		if err = sent(s, txn); err == nil {
			return txn.Ops[0].Result.Used
		}
		<-time.After(100 * time.Millisecond)
	}
	t.Fatal(err)
	return 0
}
