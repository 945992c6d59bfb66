package memstore_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

func TestParallelHits(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var counts [50]int64
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() { counts[i] = do(t, s, 0, driver.Hit, counter("k", 0, 60e6, 1)).Ops[0].Result.Used })
	}
	wg.Wait()
	slices.Sort(counts[:])
	for i, n := range counts {
		if n != int64(i+1) {
			t.Fatal(counts)
		}
	}
}

// TestParallelLists: lists over the same keys in any order neither wait for each other for ever, nor pass half.
func TestParallelLists(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	const limit = 100
	var allowed [8]int64
	var wg sync.WaitGroup
	for i := range allowed {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for range limit {
				ops := []driver.Op{bucket("a", limit, 1, 3600e6, 1), window("b", limit, 3600e6, 1), counter("c", limit, 3600e6, 1), counter("d", 1000, 3600e6, 1)}
				r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
				txn := &driver.Txn{Verb: driver.Take, Ops: ops}
				if err := errors.Join(s.Apply(t.Context(), []*driver.Txn{txn}), txn.Err); err != nil {
					t.Error(err)
				}
				if txn.Allowed {
					allowed[i]++
				}
			}
		})
	}
	wg.Wait()
	var sum int64
	for _, n := range allowed {
		sum += n
	}
	if used := must(t, s, 0, driver.Peek, counter("d", 1000, 3600e6, 1)).Ops[0].Result.Used; sum != limit || used != limit {
		t.Errorf("%d passed, %d charged", sum, used)
	}
}

// TestParallelGiveBacks: what is given back at the time that was answered is found, whoever else came between reading the
// clock and deciding.
func TestParallelGiveBacks(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			for range 300 {
				op := window("k", driver.MaxNumber, 24*3600e6, 1+r.Int64N(9))
				ops := []driver.Op{op}
				if r.IntN(3) == 0 {
					ops = append(ops, window("other", driver.MaxNumber, 24*3600e6, 1))
				}
				txn := &driver.Txn{Verb: driver.Take, Ops: ops}
				if err := errors.Join(s.Apply(t.Context(), []*driver.Txn{txn}), txn.Err); err != nil {
					t.Error(err)
				}
				op.At = txn.At
				back := &driver.Txn{Verb: driver.Refund, Ops: []driver.Op{op}}
				if err := errors.Join(s.Apply(t.Context(), []*driver.Txn{back}), back.Err); err != nil || back.Ops[0].Result.Given != op.Cost {
					t.Errorf("%d given back of %d, %v", back.Ops[0].Result.Given, op.Cost, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestParallelEverything is for the race detector: all verbs, sweeps, a cap that is reached, two clocks.
func TestParallelEverything(t *testing.T) {
	t.Parallel()
	s := open(t, &memstore.Options{MaxKeys: 40, MaxBytes: 100_000, SweepEvery: time.Millisecond})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			h := &history{Rand: rand.New(rand.NewPCG(uint64(i), 4)), now: start, ids: []string{"a", "b", "a key that is longer than a row"}}
			for range 3000 {
				txn := h.txn()
				if h.IntN(2) == 0 {
					txn.Now = 0
				}
				if err := s.Apply(t.Context(), []*driver.Txn{txn}); err != nil {
					t.Error(err)
				}
				if h.IntN(200) == 0 {
					if _, err := s.Sweep(t.Context(), h.now, h.IntN(50)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestCloseBeside: Close may come while calls are under way.
func TestCloseBeside(t *testing.T) {
	t.Parallel()
	s := open(t, &memstore.Options{SweepEvery: time.Microsecond})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				txn := &driver.Txn{Verb: driver.Hit, Ops: []driver.Op{counter("k", 0, 1e3, 1)}}
				if err := s.Apply(t.Context(), []*driver.Txn{txn}); err != nil {
					if !errors.Is(err, driver.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
