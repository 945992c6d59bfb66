package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

const (
	usual = 6 * time.Second // how long is reserved; RATION_LONG multiplies it
	short = 3 * time.Second // how long a hold lasts that is not going to be ended, for want of its caller or of his memory
	life  = 20 * time.Second
)

// Run tests the data at where, which must be new. Members of the crowd open it by the same function.
func Run(t *testing.T, where string, open Open) {
	t.Helper()
	store, err := open(where)
	if err != nil {
		t.Fatal(err)
	}
	g := newGathering(t, store, where, duration(t))
	g.start = g.spawn
	for _, fault := range g.run(t) {
		t.Error(fault)
	}
}

// long is read early: tests of the server remove such variables.
var long = os.Getenv("RATION_LONG")

func duration(t testing.TB) time.Duration {
	t.Helper()
	if long == "" {
		return usual
	}
	n, err := strconv.Atoi(long)
	if err != nil || n < 1 {
		t.Fatalf("RATION_LONG=%q is not a number from 1", long)
	}
	return time.Duration(n) * usual
}

// gathering is one run of the whole.
type gathering struct {
	task   task
	l      *ration.Limiter
	ledger *ledger
	start  func(t *testing.T, todo task) *process
	lasts  time.Duration
	late   time.Duration // what takes longer than this is stuck
	sweeps time.Duration // how long a sweep may take to come
	least  int           // so many ends are waited for before a kill
}

func newGathering(t *testing.T, store driver.Store, where string, lasts time.Duration) *gathering {
	g := &gathering{ledger: newLedger(), lasts: lasts, late: 2 * time.Minute, sweeps: 30 * time.Second, least: 100}
	g.task = task{Where: where, Seed: uint64(time.Now().UnixNano()), TTL: life, Short: short, Turns: (time.Now().Month()+5)%12 + 1}
	t.Logf("seed %d", g.task.Seed)
	g.l = ration.New(store, &ration.Options{Timeout: g.late})
	t.Cleanup(func() {
		if err := g.l.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// process is a running member.
type process struct {
	kill func() error
	stop func() error // it is to end
	wait func() error // after it has said all; of a killed one not asked
	said chan struct{}
}

// spawn starts the test binary as a member.
func (g *gathering) spawn(t *testing.T, todo task) *process {
	t.Helper()
	text, err := json.Marshal(todo)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{kill: cmd.Process.Kill, stop: in.Close, said: make(chan struct{})}
	p.wait = func() error {
		<-p.said
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w\n%s", todo.Name, err, stderr)
		}
		return nil
	}
	t.Cleanup(func() { // of a test that failed; else it has ended
		_ = cmd.Process.Kill()
		<-p.said
		_ = cmd.Wait()
	})
	g.listen(p, out)
	return p
}

// listen takes down what p says until it ends.
func (g *gathering) listen(p *process, out io.Reader) {
	go func() {
		defer close(p.said)
		for dec := json.NewDecoder(out); ; {
			var e event
			if dec.Decode(&e) != nil { // its end, be it in the middle of a line
				_, _ = io.Copy(io.Discard, out)
				return
			}
			g.ledger.enter(e)
		}
	}()
}

// run answers what is wrong.
func (g *gathering) run(t *testing.T) (faults []string) {
	t.Helper()
	stop := make(chan struct{})
	samples := make(chan []sample, 1)
	go func() { samples <- g.watch(t, stop) }()
	g.live(t)
	close(stop)
	seen := <-samples
	if left := g.expire(t); left > 0 {
		return append(g.ledger.faults, fmt.Sprintf("%d holds are still open %v after all processes have ended", left, g.late))
	}
	want, faults := g.account(t)
	faults = append(append(faults, g.ledger.faults...), g.ledger.beyond(seen)...)
	for i := range budgets {
		// What goes back at the expiry goes back by a sweep, soon after it.
		n := g.used(t, i)
		for deadline := time.Now().Add(g.sweeps); n > want[i] && time.Now().Before(deadline); n = g.used(t, i) {
			<-time.After(100 * time.Millisecond)
		}
		if n != want[i] {
			faults = append(faults, fmt.Sprintf("settled and kept is %d of budget %d, but %d count", want[i], i, n))
		}
	}
	t.Logf("%d looks", len(seen))
	return faults
}

// live runs the processes, kills some in the middle and ends the others.
func (g *gathering) live(t *testing.T) {
	t.Helper()
	start := time.Now()
	var all []*process
	add := func() {
		todo := g.task
		todo.Name = fmt.Sprint("p", len(all))
		todo.Seed += uint64(len(all))
		if len(all) < killed {
			todo.TTL = todo.Short
		}
		all = append(all, g.start(t, todo))
	}
	for range processes {
		add()
	}
	for i := range killed {
		g.until(t, start.Add(g.lasts*time.Duration(i+1)/(killed+1)), (i+1)*g.least)
		if err := all[i].kill(); err != nil {
			t.Error(err)
		}
		<-all[i].said
		add()
	}
	g.until(t, start.Add(g.lasts), (killed+1)*g.least)
	for _, p := range all[killed:] {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	for _, p := range all[killed:] {
		if err := p.wait(); err != nil {
			t.Error(err)
		}
	}
}

// until waits for a time, and until so many ends were acknowledged.
func (g *gathering) until(t *testing.T, when time.Time, ends int) {
	t.Helper()
	<-time.After(time.Until(when))
	for deadline := time.Now().Add(g.late); ; <-time.After(10 * time.Millisecond) {
		g.ledger.mu.Lock()
		n, faults := g.ledger.counts[ended], len(g.ledger.faults)
		g.ledger.mu.Unlock()
		if n >= ends || faults > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d reservations were ended in %v", n, g.late)
		}
	}
}

// watch looks at the budgets until stop.
func (g *gathering) watch(t *testing.T, stop <-chan struct{}) (all []sample) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return all
		case <-ticker.C:
		}
		for i := range budgets {
			s := sample{budget: i, before: time.Now().UnixNano()}
			s.used = g.used(t, i)
			s.after = time.Now().UnixNano()
			all = append(all, s)
		}
	}
}

// used is what a budget counts.
func (g *gathering) used(t *testing.T, i int) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), g.late)
	defer cancel()
	key, rule := budget(i, g.task.Turns)
	d, err := g.l.Peek(ctx, key, rule, 0)
	if err != nil {
		t.Errorf("a look at budget %d failed: %v", i, err)
	}
	return d.Used
}

// expire waits until no hold is open, and answers how many are in the end. Nobody renews any, and sweeping needs no help:
// but some stores sweep only in processes that reserve, of which this is the last.
func (g *gathering) expire(t *testing.T) (left int) {
	t.Helper()
	r, err := g.l.Reserve(context.Background(), &ration.ReserveOptions{TTL: g.task.Short}, charges(amounts{}, g.task.Turns)...)
	if err == nil {
		err = r.Cancel(context.Background())
	}
	if err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(g.late); ; <-time.After(100 * time.Millisecond) {
		left = 0
		for _, err := range g.l.Holds(context.Background()) {
			if err != nil {
				t.Fatalf("listing holds failed: %v", err)
			}
			left++
		}
		if left == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// account is what should count: what was settled, and what is kept of the rest. Whether something was done whose answer
// nobody got is asked; if it can be made again, it is: that changes nothing if it was done.
func (g *gathering) account(t *testing.T) (want amounts, faults []string) {
	t.Helper()
	l := g.ledger
	var kept amounts
	var asked, keeps, gone int
	for _, id := range l.unsettled() {
		r := l.open[id]
		ctx, cancel := context.WithTimeout(context.Background(), g.late)
		res := g.l.Reservation(l.route + id)
		again := func(n amounts) error {
			asked++
			return res.Settle(ctx, n[:]...)
		}
		var err error
		stays := r.kept()
		switch r.last {
		case reserving:
			asked++
			switch err = res.Renew(ctx, 0); {
			case errors.Is(err, ration.ErrNoReservation):
				stays, err = amounts{}, nil
				gone++
			case errors.Is(err, ration.ErrEnded):
				err = nil
			case err == nil:
				err = errors.New("it has not expired")
			}
		case reporting, settling:
			stays, err = r.next, again(r.next)
		case cancelling:
			if stays, err = r.reported, again(r.reported); errors.Is(err, ration.ErrEnded) {
				err = nil // it was cancelled
			}
		case held:
			keeps++
		}
		cancel()
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s of %s, which nobody has heard of since: %v", r.last, id, err))
		}
		kept.add(stays)
	}
	n := l.counts
	t.Logf("%d reserved, %d refused, %d ended (%d settled above the estimate), %d reported; unanswered or not ended: %d, of which %d stay as they are, %d were asked for, and %d never were",
		n[held], n[refused], n[ended], l.above, n[reported], len(l.open), keeps, asked, gone)
	if n[refused] == 0 || l.above == 0 || keeps == 0 || n[cancelling] == 0 || n[reported] == 0 {
		faults = append(faults, fmt.Sprintf("something did not happen: %v", n))
	}
	want = l.settled
	want.add(kept)
	return want, faults
}
