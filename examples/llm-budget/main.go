// Command llm-budget runs a chat service of four processes within monthly budgets of users, teams and everybody, in money. Two
// hundred callers ask at once; an answer is paid for in advance, streamed, cut off at what was paid for, and settled at what
// it took. One process is killed in the middle of its answers. At the end it prints what was spent: never more than there is,
// whatever died, and nothing is left reserved.
//
//	go run . [-callers 200] [-questions 3] [-file budgets.db]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	watching, stop := context.WithCancel(ctx)
	highest := make(chan int64, 1)
	go func() { highest <- watch(watching, l) }()
	seen := func() int64 { stop(); return <-highest }

	var sum tally
	killed, err := serve(ctx, callers, questions, path, &sum)
	left := 0
	if err == nil {
		left, err = expire(ctx, l)
	}
	most := seen()
	if err != nil {
		return err
	}
	return report(ctx, l, &sum, killed, most, left, out)
}

// serve runs the workers to their end, but for the first, which it kills in the middle.
func serve(ctx context.Context, callers, questions int, path string, sum *tally) (killed bool, err error) {
	var all []*worker
	for range workers {
		w, err := startWorker(ctx, max(1, callers/workers), questions, path, sum)
		if err != nil {
			return false, err
		}
		defer w.cmd.Process.Kill()
		all = append(all, w)
	}
	select { // it has answered some of its callers, and owes others an answer
	case <-all[0].busy:
	case <-all[0].ended:
	}
	killed = all[0].cmd.Process.Kill() == nil
	for i, w := range all {
		<-w.ended
		if err := w.cmd.Wait(); err != nil && i > 0 {
			return killed, fmt.Errorf("a worker failed: %w", err)
		}
	}
	return killed, nil
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

// watch answers the most that was ever spent or reserved of all money, until ctx is done.
func watch(ctx context.Context, l *ration.Limiter) (highest int64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return highest
		case <-ticker.C:
		}
		if d, err := l.Peek(ctx, allKey, allMonth, 0); err == nil {
			highest = max(highest, d.Used)
		}
	}
}

// expire waits until the reservations of the dead have expired, and answers how many are left: after a minute some may be.
func expire(ctx context.Context, l *ration.Limiter) (left int, err error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); ; {
		left = 0
		for _, err := range l.Holds(ctx) {
			if err != nil {
				return left, err
			}
			left++
		}
		if left == 0 || time.Now().After(deadline) {
			return left, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

// report prints what was spent, and fails if it is more than there was, or something is left reserved.
func report(ctx context.Context, l *ration.Limiter, sum *tally, killed bool, highest int64, left int, out io.Writer) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	over := false
	used := func(key ration.Key, rule ration.Rule) (n int64, err error) {
		d, err := l.Peek(ctx, key, rule, 0)
		over = over || d.Used > d.Limit
		return d.Used, err
	}
	all, err := used(allKey, allMonth)
	if err != nil {
		return err
	}
	say("answers  %d, and %d refused for want of money; one of %d workers killed: %v", sum.answers, sum.refusals, workers, killed)
	say("spent    %s of %s", money(all), money(limitOf(allMonth)))
	say("highest  %s, spent and reserved at any moment", money(highest))
	say("settled  %s by answers; %s stays for what the killed worker had reserved", money(sum.spent), money(all-sum.spent))
	for t := range teams {
		team := fmt.Sprint("team", t)
		n, err := used(teamKey(team), teamMonth)
		if err != nil {
			return err
		}
		say("%s    %s of %s", team, money(n), money(limitOf(teamMonth)))
		for u := range users {
			if _, err := used(userKey(team, fmt.Sprint("user", u)), userMonth); err != nil {
				return err
			}
		}
	}
	say("holds    %d left", left)
	if over || highest > limitOf(allMonth) || all < sum.spent || left > 0 {
		return errors.New("the budgets were not kept")
	}
	return nil
}

func limitOf(rule ration.Rule) int64 { return rule.Limit.(ration.Budget).Limit }

func money(n int64) string { return fmt.Sprintf("$%d.%06d", n/dollar, n%dollar) }
