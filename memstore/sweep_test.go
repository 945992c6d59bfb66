package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

func TestSweepsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		const n = 100_000 // more than one step
		for i := range n {
			must(t, s, 0, driver.Take, counter(fmt.Sprint(i), 10, 60e6, 1))
		}
		must(t, s, 0, driver.Hit, counter("late", 0, 300e6, 1))
		must(t, s, 0, driver.Take, window("late", 10, 300e6, 1))
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if s.Len() != n+2 {
			t.Errorf("%d left after 59 s", s.Len())
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s.Len() != 2 {
			t.Errorf("%d left after 70 s", s.Len())
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if s.Len() != 0 {
			t.Errorf("%d left after 6 minutes", s.Len())
		}
		must(t, s, 0, driver.Hit, counter("again", 0, 1e6, 1))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s.Len() != 0 {
			t.Error("a store that was empty is not swept any more")
		}
	})
}

func TestSweepOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &memstore.Options{SweepEvery: -1})
		must(t, s, 0, driver.Hit, counter("k", 0, 1e6, 1))
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.Len() != 1 {
			t.Error("it was swept")
		}
		if n, err := s.Sweep(t.Context(), 0, 10); n != 1 || err != nil || s.Len() != 0 {
			t.Errorf("%d swept, %v", n, err)
		}
	})
}

// TestSweepByTheRightClock: states of an injected clock go by such clocks, the others by the process's.
func TestSweepByTheRightClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		wall := driver.MicrosOf(time.Now())
		past, future := wall-1e6*86400*3650, wall+1e6*86400*3650
		for range 2 {
			must(t, s, past, driver.Hit, counter("past", 0, 10e6, 1))
			must(t, s, future, driver.Hit, counter("future", 0, 10e6, 1))
			for range 300 {
				time.Sleep(time.Second)
				// A clock that stands still.
				must(t, s, past, driver.Hit, counter("past", 0, 10e6, 1))
			}
			synctest.Wait()
			if s.Len() != 2 {
				t.Fatalf("%d left", s.Len())
			}
		}
		// Ten minutes without a clock say nothing about it.
		must(t, s, 0, driver.Hit, counter("wall", 0, 2*3600e6, 1))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s.Len() != 3 {
			t.Fatalf("%d left after ten minutes", s.Len())
		}
		// The clock goes on: what it has passed goes within minutes.
		for range 200 {
			time.Sleep(time.Second)
			must(t, s, past+11e6, driver.Hit, counter("other", 0, 10e6, 1))
		}
		synctest.Wait()
		if s.Len() != 3 { // future, wall, other
			t.Errorf("%d left", s.Len())
		}
		if got := must(t, s, 0, driver.Hit, counter("wall", 0, 2*3600e6, 1)).Ops[0].Result.Used; got != 2 {
			t.Errorf("the process's counter: %d", got)
		}
		// A sweep as of a far future takes none of the process's states that still count.
		if n, err := s.Sweep(t.Context(), driver.MaxNow, 10); n != 2 || err != nil || s.Len() != 1 {
			t.Errorf("%d swept, %d left, %v", n, s.Len(), err)
		}
	})
}

func TestSweepIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, &memstore.Options{SweepEvery: -1})
	const n = 5000
	for i := range n {
		must(t, s, start, driver.Hit, counter(fmt.Sprint(i), 0, driver.Micros(1+i%2)*1000e6, 1))
	}
	if n, err := s.Sweep(t.Context(), start+1000e6-1, n); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	for i := range 5 {
		if n, err := s.Sweep(t.Context(), start+1000e6, 500); n != 500 || err != nil || s.Len() != 5000-500*(i+1) {
			t.Fatal(i, n, err)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Sweep(t.Context(), start+1000e6, 500); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Sweep(ctx, start+5000e6, n); n != 0 || !errors.Is(err, context.Canceled) {
		t.Fatal(n, err)
	}
	if n, err := s.Sweep(t.Context(), start+5000e6, 0); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 1000 {
		s := memstore.New(nil)
		must(t, s, 0, driver.Hit, counter("k", 0, 3600e6, 1))
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		txn := &driver.Txn{Verb: driver.Hit, Ops: []driver.Op{counter("k", 0, 3600e6, 1)}}
		if err := s.Apply(t.Context(), []*driver.Txn{txn}); !errors.Is(err, driver.ErrClosed) || !errors.Is(err, driver.ErrNotApplied) {
			t.Fatal(err)
		}
		if _, err := s.Sweep(t.Context(), 0, 1); !errors.Is(err, driver.ErrClosed) {
			t.Fatal(err)
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}
