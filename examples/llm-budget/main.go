// Command llm-budget runs a chat service of four processes within monthly budgets of users, teams and everybody, in money. Two
// hundred callers ask at once; an answer is paid for in advance, streamed, cut off at what was paid for, and settled at what
// it took. One process is killed in the middle of its answers. At the end it prints what was spent: never more than there is,
// whatever died, and nothing is left reserved.
//
//	go run . [-callers 200] [-questions 3] [-file budgets.db]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/ration-go/ration"
)

const (
	workers = 4
	hold    = 3 * time.Second
	// workerEnv makes the program a worker: the number of callers and of questions, and the file.
	workerEnv = "LLM_BUDGET_WORKER"
)

func main() {
	if os.Getenv(workerEnv) != "" {
		exit(asWorker())
	}
	callers := flag.Int("callers", 200, "how many ask at once")
	questions := flag.Int("questions", 3, "how many questions each of them asks")
	file := flag.String("file", "", "where the budgets are kept; default: a temporary file")
	flag.Parse()
	exit(run(context.Background(), *callers, *questions, *file, os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "llm-budget:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func asWorker() error {
	var callers, questions int
	var path string
	if _, err := fmt.Sscanf(os.Getenv(workerEnv), "%d %d %q", &callers, &questions, &path); err != nil {
		return err
	}
	return work(context.Background(), path, callers, questions, os.Stdout)
}

// tally is what the workers have told.
type tally struct {
	mu                sync.Mutex
	answers, refusals int
	spent             int64
}

// run starts the workers, kills the first in the middle, waits for the others, and prints the end.
func run(ctx context.Context, callers, questions int, path string, out io.Writer) error {
	if path == "" {
		dir, err := os.MkdirTemp("", "llm-budget")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "budgets.db")
	}
	l, closeAll, err := open(ctx, path)
	if err != nil {
		return err
	}
	defer closeAll()
	watched, highest := make(chan struct{}), make(chan int64)
	go func() { highest <- watch(ctx, l, watched) }()

	var sum tally
	var all []*worker
	for range workers {
		w, err := startWorker(ctx, max(1, callers/workers), questions, path, &sum)
		if err != nil {
			return err
		}
		defer w.cmd.Process.Kill()
		all = append(all, w)
	}
	select { // the first dies when it has answered some of its callers, and owes others an answer
	case <-all[0].busy:
	case <-all[0].ended:
	}
	killed := all[0].cmd.Process.Kill() == nil
	for i, w := range all {
		<-w.ended
		if err := w.cmd.Wait(); err != nil && i > 0 {
			return fmt.Errorf("a worker failed: %w", err)
		}
	}
	if err := expire(ctx, l); err != nil {
		return err
	}
	close(watched)
	return report(ctx, l, &sum, killed, <-highest, out)
}

type worker struct {
	cmd   *exec.Cmd
	busy  chan struct{} // closed when it has answered a few times
	ended chan struct{} // closed when it says nothing more
}

func startWorker(ctx context.Context, callers, questions int, path string, sum *tally) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{exec.CommandContext(ctx, self), make(chan struct{}), make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+fmt.Sprintf("%d %d %q", callers, questions, path))
	w.cmd.Stderr = os.Stderr
	said, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.ended)
		answers := 0
		told(said, func(spent int64) {
			sum.mu.Lock()
			defer sum.mu.Unlock()
			sum.answers++
			sum.spent += spent
			if answers++; answers == 5 {
				close(w.busy)
			}
		}, func(string) {
			sum.mu.Lock()
			defer sum.mu.Unlock()
			sum.refusals++
		})
	}()
	return w, nil
}

// watch answers the most that was ever spent or reserved of all money, until done.
func watch(ctx context.Context, l *ration.Limiter, done <-chan struct{}) (highest int64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return highest
		case <-ticker.C:
		}
		if d, err := l.Peek(ctx, allKey, allMonth, 0); err == nil {
			highest = max(highest, d.Used)
		}
	}
}

// expire waits until the reservations of the dead have expired.
func expire(ctx context.Context, l *ration.Limiter) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		left := 0
		for _, err := range l.Holds(ctx) {
			if err != nil {
				return err
			}
			left++
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d reservations are left: %w", left, ctx.Err())
		}
	}
}

// report prints what was spent, and fails if it is more than there was.
func report(ctx context.Context, l *ration.Limiter, sum *tally, killed bool, highest int64, out io.Writer) error {
	print := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	print("answers %d, refused for want of money %d, one of %d workers killed: %v", sum.answers, sum.refusals, workers, killed)
	d, err := l.Peek(ctx, allKey, allMonth, 0)
	if err != nil {
		return err
	}
	print("spent    %s of %s; never more than %s was spent or reserved", money(d.Used), money(d.Limit), money(highest))
	print("settled  %s by answers; %s stays with what the dead worker had reserved", money(sum.spent), money(d.Used-sum.spent))
	over := highest > d.Limit || d.Used > d.Limit || d.Used < sum.spent
	for i := range teams {
		team := fmt.Sprint("team", i)
		d, err := l.Peek(ctx, teamKey(team), teamMonth, 0)
		if err != nil {
			return err
		}
		print("%s    %s of %s", team, money(d.Used), money(d.Limit))
		over = over || d.Used > d.Limit
	}
	print("reserved nothing any more")
	if over {
		return fmt.Errorf("more was spent than there is")
	}
	return nil
}

func money(n int64) string { return "$" + strconv.FormatFloat(float64(n)/dollar, 'f', 6, 64) }
