package sqlitetest

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"iter"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

// A remote is a store in a child process, to be killed.
type remote struct {
	engine, path string
	info         driver.Info

	mu    sync.Mutex
	child *process
	send  *gob.Encoder
	next  int
	calls map[int]chan<- reply
}

type call struct {
	ID    int
	Left  time.Duration
	Batch []driver.Txn
	Sweep int // instead of Batch, at Now
	Now   driver.Micros
	List  bool // instead of Batch
}

type reply struct {
	ID      int
	Batch   []driver.Txn // without Err
	Errs    []failure    // the error of the call, then those of the transactions
	Dropped int
	Holds   []driver.Hold
}

// failure is an error as text, and which of the sentinels it is.
type failure struct {
	Text string
	Is   []int
}

var sentinels = []error{
	driver.ErrNotApplied, driver.ErrFull, driver.ErrOverflow, driver.ErrCrossGroup, driver.ErrEnded, driver.ErrClock,
	driver.ErrIDReused, driver.ErrNoHold, driver.ErrAmounts, driver.ErrCorrupt, driver.ErrClosed, context.Canceled, context.DeadlineExceeded,
}

func flatten(err error) (f failure) {
	if err == nil {
		return f
	}
	f.Text = err.Error()
	for i, s := range sentinels {
		if errors.Is(err, s) {
			f.Is = append(f.Is, i)
		}
	}
	return f
}

func (f failure) err() error {
	if f.Text == "" {
		return nil
	}
	return f
}

func (f failure) Error() string { return f.Text }

func (f failure) Unwrap() (all []error) {
	for _, i := range f.Is {
		all = append(all, sentinels[i])
	}
	return all
}

// childServe answers calls until its input ends.
func childServe(s *sqlitestore.Store) error {
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	var mu sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		var c call
		if err := in.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		wg.Go(func() {
			r := answer(s, c)
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(r) // the parent may be gone
		})
	}
}

func answer(s *sqlitestore.Store, c call) reply {
	ctx, cancel := context.WithTimeout(context.Background(), c.Left)
	defer cancel()
	r := reply{ID: c.ID}
	if c.Sweep > 0 {
		n, err := s.Sweep(ctx, c.Now, c.Sweep)
		r.Dropped, r.Errs = n, []failure{flatten(err)}
		return r
	}
	if c.List {
		r.Errs = []failure{{}}
		for h, err := range s.Holds(ctx) {
			if err != nil {
				r.Errs[0] = flatten(err)
				break
			}
			r.Holds = append(r.Holds, h)
		}
		return r
	}
	batch := make([]*driver.Txn, len(c.Batch))
	for i := range c.Batch {
		batch[i] = &c.Batch[i]
	}
	if err := s.Apply(ctx, batch); err != nil {
		r.Errs = []failure{flatten(err)}
		return r
	}
	r.Errs = []failure{{}}
	for _, txn := range batch {
		r.Errs = append(r.Errs, flatten(txn.Err))
		txn.Err = nil
		r.Batch = append(r.Batch, *txn)
	}
	return r
}

func startRemote(t testing.TB, engine, path string) *remote {
	r := &remote{engine: engine, path: path}
	r.start(t)
	r.info = driver.Info{
		Kind: "sqlite", Scope: driver.Machine, Durable: true, Caps: driver.CapsRun | driver.CapsHolds, MaxBatch: 256, InFlight: 1,
	}
	return r
}

func (r *remote) start(t testing.TB) {
	child := startChild(t, "serve", r.engine, r.path)
	child.begin(t)
	calls := make(map[int]chan<- reply)
	go r.listen(child.out, calls)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child, r.send, r.calls = child, gob.NewEncoder(child.in), calls
}

// listen ends when the child does; what was under way then has an unknown outcome.
func (r *remote) listen(out *bufio.Reader, calls map[int]chan<- reply) {
	in := gob.NewDecoder(out)
	for {
		var rep reply
		err := in.Decode(&rep)
		r.mu.Lock()
		if err != nil {
			for id, c := range calls {
				c <- reply{Errs: []failure{{Text: "the child is gone"}}}
				delete(calls, id)
			}
			calls[-1] = nil
			r.mu.Unlock()
			return
		}
		calls[rep.ID] <- rep
		delete(calls, rep.ID)
		r.mu.Unlock()
	}
}

// kill is kill -9, and a new process on the same file.
func (r *remote) kill(t testing.TB) {
	_ = r.child.cmd.Process.Kill()
	_, _ = r.child.cmd.Process.Wait()
	r.start(t)
}

func (r *remote) do(ctx context.Context, c call) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, errors.Join(err, driver.ErrNotApplied)
	}
	c.Left = time.Minute
	if at, ok := ctx.Deadline(); ok {
		c.Left = time.Until(at)
	}
	answer := make(chan reply, 1)
	r.mu.Lock()
	if _, dead := r.calls[-1]; dead {
		r.mu.Unlock()
		return reply{}, errors.New("the child is gone")
	}
	r.next++
	c.ID = r.next
	r.calls[c.ID] = answer
	_ = r.send.Encode(c) // if the child is gone, listen says so
	r.mu.Unlock()
	select {
	case rep := <-answer:
		return rep, rep.Errs[0].err()
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

func (r *remote) Apply(ctx context.Context, batch []*driver.Txn) error {
	var c call
	for _, txn := range batch {
		c.Batch = append(c.Batch, *txn)
	}
	rep, err := r.do(ctx, c)
	if err != nil {
		return err
	}
	for i, txn := range batch {
		*txn = rep.Batch[i]
		txn.Err = rep.Errs[i+1].err()
	}
	return nil
}

func (r *remote) Sweep(ctx context.Context, now driver.Micros, most int) (int, error) {
	rep, err := r.do(ctx, call{Sweep: most, Now: now})
	return rep.Dropped, err
}

func (r *remote) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		rep, err := r.do(ctx, call{List: true})
		if err != nil {
			yield(driver.Hold{}, err)
			return
		}
		for _, h := range rep.Holds {
			if !yield(h, nil) {
				return
			}
		}
	}
}

func (r *remote) Info() driver.Info { return r.info }

func (r *remote) Close() error { return r.child.in.Close() }
