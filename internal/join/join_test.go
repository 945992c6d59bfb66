package join

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration/driver"
)

type rows map[string][]byte

func (r rows) Load(key []byte) ([]byte, error) { return r[string(key)], nil }

func (r rows) Save(key, blob []byte, _ driver.Micros) error {
	if r[string(key)] = blob; blob == nil {
		delete(r, string(key))
	}
	return nil
}

func take(id string, cost int64) *driver.Txn {
	return &driver.Txn{Verb: driver.Take, Ops: []driver.Op{{Key: driver.Key{Space: "|c|", ID: id}, Kind: driver.Counter, Size: 100, Span: 60e6, Cost: cost}}}
}

// Calls that are put together are answered as if they had been sent one by one, in the order of the groups.
func TestSameAsOneByOne(t *testing.T) {
	t.Parallel()
	for round := range 300 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		joined, single := rows{}, rows{}
		now := driver.Micros(1e9)
		for range 4 {
			var batch []*waiter
			for range 1 + r.IntN(20) {
				batch = append(batch, &waiter{t: randomTxn(r)})
			}
			g := groupsOf(batch)
			var serial []*driver.Txn // what was sent, in its order
			var order []*waiter
			for i := range g.all {
				all := g.all[i].all
				if all == nil {
					all = []*waiter{g.all[i].one}
				}
				for _, w := range all {
					c := *w.t
					c.Ops = slices.Clone(w.t.Ops)
					serial, order = append(serial, &c), append(order, w)
				}
			}
			if err := errors.Join(driver.Run(joined, now, g.txns), driver.Run(single, now, serial)); err != nil {
				t.Fatal(err)
			}
			if again := g.share(); again != nil {
				t.Fatal("again")
			}
			for i, want := range serial {
				got := order[i].t
				for j := range want.Ops {
					a, b := &got.Ops[j].Result, &want.Ops[j].Result
					if d := a.ResetAt - b.ResetAt; want.Ops[j].Kind == driver.Bucket && d >= 0 && d <= want.Ops[j].Tick {
						a.ResetAt = b.ResetAt
					}
					if want.Verb == driver.Peek {
						a.Times, b.Times = 0, 0
					}
				}
				if a, b := fmt.Sprintf("%+v", *got), fmt.Sprintf("%+v", *want); a != b {
					t.Fatalf("seed %d, round %d:\n got %s\nwant %s", seed, round, a, b)
				}
			}
			now += driver.Micros(r.IntN(3e6))
		}
	}
}

func randomTxn(r *rand.Rand) *driver.Txn {
	kind := driver.Kind(1 + r.IntN(4))
	op := driver.Op{Key: driver.Key{Space: fmt.Sprint("|", kind), ID: fmt.Sprint(r.IntN(2))}, Kind: kind, Size: 5 + 5*int64(r.IntN(2)), Span: 2e6, Cost: r.Int64N(4)}
	switch kind {
	case driver.Bucket:
		op.Rate = 3
		op.Gain, op.Unit, op.Tick, _ = driver.Units(op.Size, op.Rate, op.Span)
	case driver.Budget:
		op.Span, op.Bounds = 0, [4]driver.Micros{1, 1e9, 2e9, 3e9}
	}
	t := &driver.Txn{Verb: driver.Take, Ops: []driver.Op{op}}
	switch r.IntN(10) {
	case 0:
		t.Verb = driver.Peek
	case 1:
		t.Verb = driver.Reset
	case 2:
		t.Verb, t.Ops[0].At = driver.Refund, 1e9
	case 3:
		t.Verb = driver.Hit
		t.Ops[0].Key.Space, t.Ops[0].Kind, t.Ops[0].Span = "|3", driver.Counter, 2e6
	case 4:
		other := op
		other.Key.ID = "list"
		t.Ops = append(t.Ops, other)
	}
	return t
}

// store is slow: each batch waits until it is let go.
type store struct {
	mu      sync.Mutex
	rows    rows
	batches [][]*driver.Txn
	gate    chan struct{} // nil: open
	under   int
	most    int
	keys    map[driver.Key]bool // that are changed by a batch under way
	twice   int                 // how often one of them was in another batch
	fail    func(batch []*driver.Txn) error
}

func (s *store) apply(ctx context.Context, batch []*driver.Txn) error {
	s.mu.Lock()
	s.batches = append(s.batches, batch)
	s.under++
	s.most = max(s.most, s.under)
	if s.keys == nil {
		s.keys = map[driver.Key]bool{}
	}
	mine := map[driver.Key]bool{}
	for _, t := range batch {
		if k := t.Ops[0].Key; joinable(t) && t.Verb != driver.Peek && !mine[k] {
			if s.keys[k] {
				s.twice++
			}
			s.keys[k], mine[k] = true, true
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.under--
		for k := range mine {
			delete(s.keys, k)
		}
	}()
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(batch); err != nil {
			return err
		}
	}
	return driver.Run(s.rows, 1e9, batch)
}

func newJoiner(s *store, inFlight int) *Joiner {
	return New(Options{Apply: s.apply, MaxBatch: 10, InFlight: inFlight, MaxQueue: 100, Timeout: 5 * time.Second})
}

func TestBatches(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			const calls, keys = 60, 5
			s := &store{rows: rows{}, gate: make(chan struct{})}
			j := newJoiner(s, inFlight)
			defer j.Close()
			var got [keys]chan *driver.Txn
			for k := range got {
				got[k] = make(chan *driver.Txn, calls)
				for range calls / keys {
					go func() {
						txn := take(fmt.Sprint("k", k), 1)
						if lost, err := j.Do(context.Background(), txn); lost || err != nil {
							t.Error(lost, err)
						}
						got[k] <- txn
					}()
				}
			}
			synctest.Wait()
			close(s.gate)
			for k := range got {
				var used []int64
				for range calls / keys {
					used = append(used, (<-got[k]).Ops[0].Result.Used)
				}
				slices.Sort(used)
				for i, n := range used {
					if n != int64(i+1) {
						t.Fatal(k, used)
					}
				}
			}
			if s.most != inFlight || len(s.batches) > inFlight+calls/10+3 || s.twice > 0 {
				t.Errorf("%d under way, %d batches, %d with a key that was under way", s.most, len(s.batches), s.twice)
			}
		})
	}
}

// Calls of a key that is under way wait, and travel together; calls of others pass them by.
func TestOneBatchOfAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{rows: rows{}, gate: make(chan struct{})}
		j := newJoiner(s, 3)
		defer j.Close()
		var wg sync.WaitGroup
		do := func(txn *driver.Txn) {
			wg.Go(func() {
				if lost, err := j.Do(context.Background(), txn); lost || err != nil || !txn.Allowed {
					t.Error(lost, err, txn.Allowed)
				}
			})
			synctest.Wait()
		}
		for range 5 {
			do(take("hot", 1))
		}
		do(take("other", 1))
		peek := take("hot", 1)
		peek.Verb = driver.Peek
		do(peek)
		if s.under != 3 {
			t.Errorf("%d under way: the first of a key, one of another and a question", s.under)
		}
		do(take("third", 1))
		for range 3 {
			s.gate <- struct{}{}
			synctest.Wait()
		}
		if n := len(s.batches); n != 4 || len(s.batches[3]) != 2 || s.batches[3][0].Ops[0].Times != 4 {
			t.Errorf("%d batches, and of the last %d operations", n, len(s.batches[3]))
		}
		close(s.gate)
		wg.Wait()
		j.Close()
		if len(j.lanes) != 0 || j.busy != 0 {
			t.Errorf("%d keys are left, and %d places taken", len(j.lanes), j.busy)
		}
	})
}

// Whatever callers do, everybody gets an answer, and nothing is left behind.
func TestCrossroads(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := &store{rows: rows{}}
			s.fail = func([]*driver.Txn) error {
				time.Sleep(time.Millisecond) // of the bubble's time
				return nil
			}
			gate := make(chan struct{}, 1)
			j := New(Options{MaxBatch: 4, InFlight: 3, MaxQueue: 20, Timeout: 20 * time.Millisecond, Apply: func(ctx context.Context, b []*driver.Txn) error {
				gate <- struct{}{}
				defer func() { <-gate }()
				return s.apply(ctx, b)
			}})
			defer j.Close()
			var wg sync.WaitGroup
			for c := range 30 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(round), uint64(c)))
					for range 20 {
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(30))*time.Millisecond)
						txn := take(fmt.Sprint("k", r.IntN(6)), 1)
						txn.Verb = []driver.Verb{driver.Take, driver.Take, driver.Hit, driver.Peek}[r.IntN(4)]
						_, _ = j.Do(ctx, txn)
						cancel()
					}
				})
			}
			wg.Wait()
			last := take("k0", 1)
			last.Verb = driver.Peek
			if lost, err := j.Do(context.Background(), last); lost || err != nil {
				t.Error(lost, err)
			}
			synctest.Wait()
			j.mu.Lock()
			defer j.mu.Unlock()
			if s.twice > 0 || len(j.lanes) != 0 || j.busy != 0 || j.waiting() != 0 {
				t.Errorf("%d batches with a key that was under way; %d keys are left, %d places taken, %d wait", s.twice, len(j.lanes), j.busy, j.waiting())
			}
		})
	}
}

func TestAloneUsesItsOwnGoroutineAndContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	var seen any
	j := New(Options{MaxBatch: 10, InFlight: 1, MaxQueue: 1, Timeout: time.Second, Apply: func(ctx context.Context, batch []*driver.Txn) error {
		seen = ctx.Value(key{})
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		return nil
	}})
	if _, err := j.Do(context.WithValue(context.Background(), key{}, 7), take("k", 1)); err != nil || seen != 7 {
		t.Fatal(err, seen)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{rows: rows{}, gate: make(chan struct{})}
		j := newJoiner(s, 1)
		defer j.Close()
		type answer struct {
			lost bool
			err  error
		}
		do := func(ctx context.Context) chan answer {
			c := make(chan answer, 1)
			go func() {
				lost, err := j.Do(ctx, take("k", 1))
				c <- answer{lost, err}
			}()
			synctest.Wait()
			return c
		}
		first := do(context.Background())
		waiting, stop := context.WithCancel(context.Background())
		second, third := do(waiting), do(context.Background())
		stop()
		if a := <-second; a.lost || !errors.Is(a.err, driver.ErrNotApplied) || !errors.Is(a.err, context.Canceled) {
			t.Fatal(a) // it was not sent
		}
		sent, stopSent := context.WithCancel(context.Background())
		fourth := do(sent)
		s.gate <- struct{}{}
		if a := <-first; a.err != nil {
			t.Fatal(a)
		}
		synctest.Wait() // the third and the fourth are under way
		stopSent()
		if a := <-fourth; !a.lost || errors.Is(a.err, driver.ErrNotApplied) {
			t.Fatal(a)
		}
		s.gate <- struct{}{}
		if a := <-third; a.err != nil {
			t.Fatal(a)
		}
		if txn := take("k", 0); true {
			s.gate = nil
			if j.Do(context.Background(), txn); txn.Ops[0].Result.Used != 3 {
				t.Fatal(txn.Ops[0].Result)
			}
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{rows: rows{}, gate: make(chan struct{})}
		j := newJoiner(s, 1)
		errs := make(chan error, 200)
		for range 120 {
			go func() {
				_, err := j.Do(context.Background(), take("k", 1))
				errs <- err
			}()
		}
		synctest.Wait()
		for range 19 {
			if err := <-errs; !errors.Is(err, ErrQueueFull) || !errors.Is(err, driver.ErrNotApplied) {
				t.Fatal(err)
			}
		}
		if len(errs) != 0 {
			t.Fatal(len(errs))
		}
		for i := range 10_000 { // of a key under way, and of others
			if _, err := j.Do(context.Background(), take(fmt.Sprint("k", i%3), 1)); !errors.Is(err, ErrQueueFull) {
				t.Fatal(err)
			}
		}
		if j.mu.Lock(); len(j.queue) > 100 || len(j.lanes) > 1 || j.waiting() != 100 {
			t.Errorf("refused calls left something: %d places in the queue, %d keys", len(j.queue), len(j.lanes))
		}
		j.mu.Unlock()
		go j.Close()
		synctest.Wait()
		close(s.gate)
		closed := 0
		for range 101 {
			if err := <-errs; errors.Is(err, driver.ErrClosed) {
				closed++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := j.Do(context.Background(), take("k", 1)); closed != 100 || !errors.Is(err, driver.ErrClosed) {
			t.Fatal(closed, err)
		}
	})
}

func TestPanicsAndErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{rows: rows{}, gate: make(chan struct{})}
		s.fail = func(batch []*driver.Txn) error {
			if len(batch) > 1 {
				panic("boom")
			}
			return nil
		}
		j := newJoiner(s, 1)
		defer j.Close()
		errs := make(chan error, 3)
		for i := range 3 {
			go func() {
				_, err := j.Do(context.Background(), take(fmt.Sprint(i), 1))
				errs <- err
			}()
			synctest.Wait()
		}
		close(s.gate)
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-errs; err == nil || errors.Is(err, driver.ErrNotApplied) {
				t.Fatal(err)
			}
		}
		func() {
			defer func() { recover() }()
			s.fail = func([]*driver.Txn) error { panic("alone") }
			j.Do(context.Background(), take("k", 1))
		}()
		s.fail = nil
		if _, err := j.Do(context.Background(), take("k", 1)); err != nil {
			t.Fatal("the place is lost:", err)
		}
	})
}

// Hits whose sum is too much are decided one by one.
func TestHitsThatOverflow(t *testing.T) {
	t.Parallel()
	data := rows{}
	hit := func(n int64) *driver.Txn {
		txn := take("k", n)
		txn.Verb = driver.Hit
		return txn
	}
	if err := driver.Run(data, 1e9, []*driver.Txn{hit(driver.MaxNumber - 1)}); err != nil {
		t.Fatal(err)
	}
	batch := []*waiter{{t: hit(1)}, {t: hit(1)}}
	g := groupsOf(batch)
	if err := driver.Run(data, 1e9, g.txns); err != nil || len(g.txns) != 1 {
		t.Fatal(err)
	}
	again := g.share()
	if err := driver.Run(data, 1e9, again); err != nil || len(again) != 2 {
		t.Fatal(err)
	}
	if a, b := batch[0].t, batch[1].t; a.Err != nil || a.Ops[0].Result.Used != driver.MaxNumber || !errors.Is(b.Err, driver.ErrOverflow) {
		t.Fatal(a, b)
	}
}
