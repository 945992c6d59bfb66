package sqlitetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

// openWith is a store whose statements pass hook.
func openWith(t testing.TB, engine, path string, hook before) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.New(t.Context(), openFaulty(t, engine, path, hook), &sqlitestore.Options{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// soon is a context that ends while a test waits for it.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestDiskThatHangs: a call returns when its context ends, whatever the disk does, and says that the outcome is unknown.
func TestDiskThatHangs(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		hang := make(chan struct{})
		entered := make(chan struct{}, 1)
		var armed atomic.Bool
		s := openWith(t, engine, file(t), func(text string) error {
			if text == "COMMIT" && armed.Swap(false) {
				entered <- struct{}{}
				<-hang
			}
			return nil
		})
		apply(t, s, hit("a", 1))
		armed.Store(true)
		txn := hit("a", 1)
		err := s.Apply(soon(t), []*driver.Txn{txn})
		<-entered
		if err == nil || errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a commit that hangs has an unknown outcome, but answered: %v", err)
		}

		// Callers behind it are surely not charged, and reading goes on.
		if err := s.Apply(soon(t), []*driver.Txn{hit("a", 1)}); !errors.Is(err, driver.ErrNotApplied) {
			t.Errorf("a caller that has not begun was surely not charged, but answered: %v", err)
		}
		if n := used(t, s, "a"); n != 1 {
			t.Errorf("beside a commit that hangs 1 should be read, but %d was", n)
		}
		close(hang)
		after := hit("a", 1)
		apply(t, s, after)
		if n := after.Ops[0].Result.Used; n != 3 {
			t.Errorf("the commit ended well, and one more came: 3 should be used, but %d are", n)
		}
	})
}

// TestCallerLeavesBeforeTheDecision: then nothing is charged, though the worker goes on.
func TestCallerLeavesBeforeTheDecision(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		hang := make(chan struct{})
		var armed atomic.Bool
		s := openWith(t, engine, file(t), func(text string) error {
			if strings.HasPrefix(text, "SELECT key, state") && armed.Swap(false) {
				<-hang
			}
			return nil
		})
		apply(t, s, hit("a", 1))
		armed.Store(true)
		txn := hit("a", 1)
		err := s.Apply(soon(t), []*driver.Txn{txn})
		if !errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call had not been decided, but answered: %v", err)
		}
		close(hang)
		after := hit("a", 1)
		apply(t, s, after)
		if n := after.Ops[0].Result.Used; n != 2 {
			t.Errorf("2 should be used, but %d are", n)
		}
		if txn.At != 0 || txn.Allowed {
			t.Errorf("the batch was written to after its call had returned: %+v", txn)
		}
	})
}

// TestFaults: an error in any statement of a transaction says what is so, and the next call works.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		fault := errors.New("a fault")
		var at atomic.Value
		at.Store("")
		s := openWith(t, engine, file(t), func(text string) error {
			if begins := at.Load().(string); begins != "" && strings.HasPrefix(text, begins) {
				return fault
			}
			return nil
		})
		apply(t, s, hit("a", 1), hit("gone", 1))
		for _, c := range []struct {
			begins  string
			unknown bool
			txn     *driver.Txn
		}{
			{"BEGIN IMMEDIATE", false, hit("a", 1)},
			{"SELECT key", false, hit("a", 1)},
			{"SELECT id", false, take("new", 1, 1)},
			{"INSERT INTO ration_spaces", false, take("new", 1, 1)},
			{"INSERT INTO ration_states", false, hit("a", 1)},
			{"SELECT name", false, &driver.Txn{Verb: driver.Forget, Ops: []driver.Op{{Key: driver.Key{ID: "gone"}}}}},
			{"BEGIN", false, hit("a", 0)},
			{"COMMIT", true, hit("a", 1)},
		} {
			at.Store(c.begins)
			err := s.Apply(t.Context(), []*driver.Txn{c.txn})
			at.Store("")
			if !errors.Is(err, fault) || errors.Is(err, driver.ErrNotApplied) == c.unknown {
				t.Errorf("a fault in %s answered: %v", c.begins, err)
			}
			if n := used(t, s, "a"); n != 1 {
				t.Errorf("after a fault in %s 1 should be used, but %d are", c.begins, n)
			}
		}
		apply(t, s, hit("a", 1), take("new", 1, 1))
	})
}

// TestLockedFile: a file that somebody else holds for long fails a call at its deadline, not before, and charges nothing.
func TestLockedFile(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		apply(t, s, hit("a", 1))
		other, err := openDB(t, engine, path).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := other.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
			t.Fatal(err)
		}
		err = s.Apply(soon(t), []*driver.Txn{hit("a", 1)})
		if !errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that never got the lock answered: %v", err)
		}
		if n := used(t, s, "a"); n != 1 {
			t.Errorf("1 should be read, but %d was", n)
		}
		done := make(chan error, 1)
		go func() { done <- s.Apply(t.Context(), []*driver.Txn{hit("a", 1)}) }()
		if _, err := other.ExecContext(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := used(t, s, "a"); n != 2 {
			t.Errorf("2 should be used, but %d are", n)
		}
	})
}

// TestClose: callers that wait get ErrClosed, and so do later ones.
func TestClose(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		apply(t, s, hit("a", 1))
		other, err := openDB(t, engine, path).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := other.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := s.Apply(t.Context(), []*driver.Txn{hit("a", 1)}); !errors.Is(err, driver.ErrClosed) {
					t.Errorf("a call beside Close answered: %v", err)
				}
			})
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if _, err := other.ExecContext(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		if n := used(t, open(t, engine, path, nil), "a"); n != 1 {
			t.Errorf("1 should be used, but %d are", n)
		}
	})
}

// TestReadingNeverWrites: refusals, questions, resets of nothing leave the file as it is.
func TestReadingNeverWrites(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		var commits atomic.Int64
		s := openWith(t, engine, file(t), func(text string) error {
			if text == "COMMIT" {
				commits.Add(1)
			}
			return nil
		})
		apply(t, s, take("a", 1, 1))
		before := commits.Load()
		peek, reset := take("b", 1, 1), take("c", 1, 0)
		peek.Verb, reset.Verb = driver.Peek, driver.Reset
		refund := take("d", 1, 1)
		refund.Verb, refund.Ops[0].At = driver.Refund, 1
		apply(t, s, take("a", 1, 1), take("e", 1, 2), take("f", 1, 0), hit("g", 0), peek, reset, refund)
		apply(t, s, take("a", 1, 1), peek)
		apply(t, s, peek, hit("g", 0))
		if n := commits.Load() - before; n != 0 {
			t.Errorf("nothing was to be written, but %d commits were made", n)
		}
	})
}
