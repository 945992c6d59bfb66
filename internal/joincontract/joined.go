package joincontract

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/join"
	"github.com/ration-go/ration/storetest"
)

// Joined is h with all calls joined. Round trips are not those of the suite any more, so they are not counted.
func Joined(h storetest.Harness) storetest.Harness {
	around := func(open func(t testing.TB) driver.Store) func(t testing.TB) driver.Store {
		return func(t testing.TB) driver.Store { return newStore(t, open(t)) }
	}
	inner := func(s driver.Store) driver.Store { return s.(interface{ unwrap() driver.Store }).unwrap() }
	j := storetest.Harness{Open: around(h.Open), Only: h.Only}
	if h.Again != nil {
		j.Again = func(t testing.TB, s driver.Store) driver.Store { return newStore(t, h.Again(t, inner(s))) }
	}
	if h.Full != nil {
		j.Full = func(t testing.TB, keys int) driver.Store {
			return newStore(t, h.Full(t, keys))
		}
	}
	if h.Durable != nil {
		j.Durable = func(t testing.TB, s driver.Store) { h.Durable(t, inner(s)) }
	}
	return j
}

// store asks another by a Joiner.
type store struct {
	driver.Store
	joiner *join.Joiner

	gate  sync.RWMutex // held for writing while calls are to come together
	under atomic.Int64 // batches that have reached the store, or wait at the gate
}

const patience = 30 * time.Second

func newStore(t testing.TB, of driver.Store) driver.Store {
	s := &store{Store: of}
	info := of.Info()
	s.joiner = join.New(join.Options{Apply: s.send, MaxBatch: max(info.MaxBatch, 16), InFlight: max(info.InFlight, 1), MaxQueue: 1 << 14, Timeout: patience})
	t.Cleanup(s.joiner.Close)
	sweeper, _ := of.(driver.Sweeper)
	lister, _ := of.(driver.HoldLister)
	router, routes := of.(driver.Router)
	switch {
	case sweeper == nil && lister == nil && !routes:
		return s
	case sweeper == nil || lister == nil:
		t.Fatal("joincontract: a store that keeps holds sweeps and lists them")
	case routes:
		return &struct {
			*store
			driver.Sweeper
			driver.HoldLister
			driver.Router
		}{s, sweeper, lister, router}
	}
	return &struct {
		*store
		driver.Sweeper
		driver.HoldLister
	}{s, sweeper, lister}
}

func (s *store) unwrap() driver.Store { return s.Store }

// Info is that of the store, which waits: for other calls.
func (s *store) Info() driver.Info {
	info := s.Store.Info()
	info.Instant = false
	return info
}

func (s *store) send(ctx context.Context, batch []*driver.Txn) error {
	s.under.Add(1)
	defer s.under.Add(-1)
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.Apply(ctx, batch)
}

// Apply decides batch by calls that are joined, where the answers are those of one after the other.
func (s *store) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := ctx.Err(); err != nil { // the Limiter asks nobody then
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	if len(batch) == 1 {
		if n := batch[0].Ops; len(n) == 1 && n[0].Times > 1 && n[0].Times <= 64 && n[0].Cost < 1<<40 && batch[0].ID == "" {
			return s.singly(ctx, batch[0])
		}
		return s.one(ctx, batch[0])
	}
	if independent(batch) {
		s.together(ctx, batch)
		return nil
	}
	for _, t := range batch {
		if err := s.Apply(ctx, []*driver.Txn{t}); err != nil {
			t.Err = err
		}
	}
	return nil
}

// one has t decided. What the Joiner is given stays there if it is lost.
func (s *store) one(ctx context.Context, t *driver.Txn) error {
	c := *t
	c.Ops = slices.Clone(t.Ops)
	lost, err := s.joiner.Do(ctx, &c)
	if lost {
		return fmt.Errorf("it is in a batch, and nobody knows: %w", err)
	}
	*t = c
	return err
}

// together has all of batch wait for each other, in their order.
func (s *store) together(ctx context.Context, batch []*driver.Txn) {
	s.gate.Lock()
	var calls sync.WaitGroup
	for _, t := range batch {
		before := s.under.Load() + int64(s.joiner.Waiting())
		calls.Go(func() {
			if err := s.one(ctx, t); err != nil {
				t.Err = err
			}
		})
		for began := time.Now(); s.under.Load()+int64(s.joiner.Waiting()) == before && ctx.Err() == nil && time.Since(began) < patience; {
			runtime.Gosched()
		}
	}
	s.gate.Unlock()
	calls.Wait()
}

// singly has a charge of so many times decided as so many charges.
func (s *store) singly(ctx context.Context, t *driver.Txn) error {
	all := make([]*driver.Txn, t.Ops[0].Times)
	for i := range all {
		c := *t
		c.Ops = slices.Clone(t.Ops)
		c.Ops[0].Times = 0
		all[i] = &c
	}
	s.together(ctx, all)
	t.Err = nil
	op := &t.Ops[0]
	passed, answer := int64(0), (*driver.Txn)(nil)
	for _, c := range all {
		r := &c.Ops[0].Result
		switch {
		case c.Err != nil:
			t.Err, t.At, t.Allowed = c.Err, c.At, false
			return nil
		case r.Allowed:
			passed++
		}
		// The last of those that passed, or one of those that did not, knows the state that all of them left.
		if answer == nil || answer.Allowed && (!c.Allowed || r.Used > answer.Ops[0].Result.Used || r.Used == answer.Ops[0].Result.Used && r.ResetAt > answer.Ops[0].Result.ResetAt) {
			answer = c
		}
	}
	t.At, t.Allowed, op.Result = answer.At, answer.Allowed, answer.Ops[0].Result
	op.Result.Times = passed
	return nil
}

// independent says that the calls of batch may be joined and are answered as one after the other: of each key there is one, or
// hits. (A bucket's ResetAt may be a tick late in joined calls; takes of unequal cost are decided by cost.)
func independent(batch []*driver.Txn) bool {
	seen := map[driver.Key]*driver.Txn{}
	for _, t := range batch {
		if len(t.Ops) != 1 || t.ID != "" || t.Ops[0].Times > 1 || t.Verb == driver.Forget || t.Verb > driver.Forget {
			return false
		}
		op := &t.Ops[0]
		first := seen[op.Key]
		if first == nil {
			seen[op.Key] = t
			continue
		}
		of := &first.Ops[0]
		if t.Verb != driver.Hit || first.Verb != driver.Hit || op.Cost <= 0 || of.Cost <= 0 || op.Span != of.Span || op.Size != of.Size || t.Now != first.Now {
			return false
		}
	}
	return true
}
