package crowd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/storetest"
)

// TestMain fails if goroutines outlive the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	for deadline := time.Now().Add(10 * time.Second); code == 0 && runtime.NumGoroutine() > 2; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// kept is a store whose Close does nothing: several Limiters have it.
type kept struct{ *memstore.Store }

func (kept) Close() error { return nil }

// here starts a member within this process. A killed one says nothing more, and whatever it is about to do is its last.
func here(g *gathering, store driver.Store) func(*testing.T, task) *process {
	return func(t *testing.T, todo task) *process {
		in, out := io.Pipe()
		stop, done := make(chan struct{}), make(chan error, 1)
		p := &process{said: make(chan struct{})}
		p.kill = func() error { return in.Close() }
		p.stop = func() error { close(stop); return nil }
		p.wait = func() error { <-p.said; return <-done }
		go func() {
			done <- work(store, todo, out, stop)
			out.Close()
		}()
		g.listen(p, in)
		return p
	}
}

// crooked is a sound store with something wrong: before looks at a transaction before it is decided, and answers false if
// it is not to be decided; after changes the answer.
type crooked struct {
	kept
	before func(*driver.Txn) bool
	after  func(*driver.Txn)
}

func (s crooked) Apply(ctx context.Context, batch []*driver.Txn) error {
	for _, t := range batch {
		if s.before != nil && !s.before(t) {
			continue
		}
		if err := s.kept.Apply(ctx, []*driver.Txn{t}); err != nil {
			return err
		}
		if s.after != nil {
			s.after(t)
		}
	}
	return nil
}

func (s crooked) Info() driver.Info {
	info := s.kept.Info()
	info.Instant, info.MaxBatch = false, 100
	return info
}

// gather runs a crowd on store for a moment, within this process, and waits so long for sweeps.
func gather(t *testing.T, store driver.Store, sweeps time.Duration) []string {
	t.Helper()
	g := newGathering(t, store, "", time.Second)
	g.task.TTL, g.task.Short = 3*time.Second, time.Second
	g.late, g.sweeps = time.Minute, sweeps
	g.start = here(g, store)
	return g.run(t)
}

func TestSound(t *testing.T) {
	t.Parallel()
	store := kept{memstore.New(nil)}
	defer store.Store.Close()
	for _, fault := range gather(t, store, time.Minute) {
		t.Error(fault)
	}
}

// TestLostReplies: a tenth of the answers is lost, and all is exact.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	store := kept{memstore.New(nil)}
	defer store.Store.Close()
	var calls atomic.Int64
	faulty := storetest.WithFaults(store, func(_ context.Context, batch []*driver.Txn) (f storetest.Fault) {
		if batch[0].ID != "" && calls.Add(1)%10 == 0 {
			f.LoseReply = errors.New("lost")
		}
		return f
	})
	for _, fault := range gather(t, faulty, time.Minute) {
		t.Error(fault)
	}
}

// TestFaults: a crowd finds what is wrong with a store.
func TestFaults(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	often := func(verb driver.Verb) func(*driver.Txn) bool {
		return func(txn *driver.Txn) bool {
			return txn.Verb == verb && txn.Hold == (verb == driver.Take) && n.Add(1)%20 == 0
		}
	}
	for name, c := range map[string]struct {
		store crooked
		want  string
	}{
		"a settle that is not made": {crooked{before: func(txn *driver.Txn) bool {
			if often(driver.Settle)(txn) {
				txn.Allowed = true
				return false
			}
			return true
		}}, "settled and kept"},
		"a settle of more": {crooked{before: func(txn *driver.Txn) bool {
			if often(driver.Settle)(txn) {
				txn.Amounts[0]++
			}
			return true
		}}, "settled and kept"},
		"a refusal that charges": {crooked{after: func(txn *driver.Txn) {
			if often(driver.Take)(txn) {
				txn.Allowed = false
			}
		}}, "settled and kept"},
		"too much is admitted": {crooked{before: func(txn *driver.Txn) bool {
			if txn.Verb == driver.Take {
				txn.Ops[0].Size *= 2
			}
			return true
		}}, "admitted with"},
		"too much is admitted in secret": {crooked{before: func(txn *driver.Txn) bool {
			if txn.Verb == driver.Take {
				txn.Ops[0].Size *= 2
			}
			return true
		}, after: func(txn *driver.Txn) {
			if txn.Verb == driver.Take {
				txn.Ops[0].Result.Used = 1
			}
		}}, "debts explain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := c.store
			store.kept = kept{memstore.New(nil)}
			defer store.Store.Close()
			faults := gather(t, store, 0)
			for _, fault := range faults {
				if strings.Contains(fault, c.want) {
					return
				}
			}
			t.Errorf("it should be found, as %q, but is: %q", c.want, faults)
		})
	}
}
