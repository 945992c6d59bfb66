package memstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

const start driver.Micros = 1_700_000_000e6

func open(t testing.TB, opts *memstore.Options) *memstore.Store {
	s := memstore.New(opts)
	t.Cleanup(func() {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// do decides one op.
func do(t testing.TB, s *memstore.Store, now driver.Micros, verb driver.Verb, op driver.Op) *driver.Txn {
	t.Helper()
	txn := &driver.Txn{Verb: verb, Now: now, Ops: []driver.Op{op}}
	if err := s.Apply(t.Context(), []*driver.Txn{txn}); err != nil {
		t.Fatal(err)
	}
	return txn
}

// must is do without an error.
func must(t testing.TB, s *memstore.Store, now driver.Micros, verb driver.Verb, op driver.Op) *driver.Txn {
	t.Helper()
	txn := do(t, s, now, verb, op)
	if txn.Err != nil {
		t.Fatalf("verb %d of %+v: %v", verb, op, txn.Err)
	}
	return txn
}

func counter(id string, size int64, span driver.Micros, cost int64) driver.Op {
	return driver.Op{Key: driver.Key{Space: "|c||", ID: id}, Kind: driver.Counter, Size: size, Span: span, Cost: cost}
}

func window(id string, size int64, span driver.Micros, cost int64) driver.Op {
	return driver.Op{Key: driver.Key{Space: "|w||", ID: id}, Kind: driver.Window, Size: size, Span: span, Cost: cost}
}

func bucket(id string, size, rate int64, span driver.Micros, cost int64) driver.Op {
	return driver.Op{Key: driver.Key{Space: "|b||", ID: id}, Kind: driver.Bucket, Size: size, Rate: rate, Span: span, Cost: cost}
}

func budget(id string, size, cost int64) driver.Op {
	return driver.Op{
		Key: driver.Key{Space: "|d||", ID: id}, Kind: driver.Budget, Size: size, Cost: cost,
		Bounds: [4]driver.Micros{start - 20e6, start - 10e6, start + 20e6, start + 90e6},
	}
}

func TestCapIsExact(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 100, 1000, 5000} {
		s := open(t, &memstore.Options{MaxKeys: n})
		for i := range n {
			must(t, s, 0, driver.Hit, counter(fmt.Sprint(i), 0, 3600e6, 1))
		}
		err := do(t, s, 0, driver.Hit, counter("more", 0, 3600e6, 1)).Err
		if !errors.Is(err, driver.ErrFull) || !errors.Is(err, driver.ErrNotApplied) {
			t.Errorf("key %d of %d: %v", n+1, n, err)
		}
		for _, op := range []driver.Op{counter("more", 5, 1e6, 1), window("more", 5, 1e6, 1), bucket("more", 5, 1, 1e6, 1), budget("more", 5, 1)} {
			must(t, s, start, driver.Peek, op)
			must(t, s, start, driver.Refund, op)
			must(t, s, start, driver.Reset, op)
			must(t, s, start, driver.Forget, op)
			if op.Cost = 6; must(t, s, start, driver.Take, op).Allowed {
				t.Error("6 of 5 passed")
			}
			op.Cost = 0
			must(t, s, start, driver.Take, op)
		}
		must(t, s, 0, driver.Hit, counter("more", 0, 3600e6, 0))
		if got := must(t, s, 0, driver.Hit, counter("0", 0, 3600e6, 1)).Ops[0].Result.Used; got != 2 {
			t.Errorf("a known key went on to %d", got)
		}
		if s.Len() != n {
			t.Errorf("%d keys of %d", s.Len(), n)
		}
	}
}

// TestWhatMayGo fills a store with states of one sort and then asks for one key more.
func TestWhatMayGo(t *testing.T) {
	t.Parallel()
	take := func(op driver.Op) func(*testing.T, *memstore.Store, string) {
		return func(t *testing.T, s *memstore.Store, id string) {
			op.Key.ID = id
			must(t, s, start, driver.Take, op)
		}
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, s *memstore.Store, id string)
		goes bool
	}{
		"a little of a bucket":          {take(bucket("", 10, 1, 1e6, 4)), true},
		"half of a bucket":              {take(bucket("", 10, 1, 1e6, 5)), false},
		"a bucket that is slow":         {take(bucket("", 100, 1, 10e6, 7)), false},
		"a bucket of one":               {take(bucket("", 1, 1, 1e6, 1)), false},
		"a little of a window":          {take(window("", 10, 60e6, 4)), true},
		"a window of over a minute":     {take(window("", 10, 61e6, 1)), false},
		"half of a window":              {take(window("", 10, 60e6, 5)), false},
		"a little of a counter":         {take(counter("", 10, 60e6, 4)), true},
		"most of a counter":             {take(counter("", 10, 60e6, 9)), false},
		"a little of a budget":          {take(budget("", 1000, 1)), false},
		"a little of some of its times": {take(driver.Op{Key: driver.Key{Space: "|b||"}, Kind: driver.Bucket, Size: 9, Rate: 1, Span: 1e6, Cost: 4, Times: 3}), false},
		"a counter that was hit": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start, driver.Hit, counter(id, 0, 60e6, 1))
		}, false},
		"a counter that was hit and taken from": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start, driver.Hit, counter(id, 0, 60e6, 1))
			must(t, s, start, driver.Take, counter(id, 10, 60e6, 1))
		}, false},
		"a counter that was hit before": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start-61e6, driver.Hit, counter(id, 0, 60e6, 1))
			must(t, s, start, driver.Take, counter(id, 10, 60e6, 1))
		}, true},
		"a bucket that has refused": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start, driver.Take, bucket(id, 10, 1, 1e6, 1))
			must(t, s, start, driver.Take, bucket(id, 10, 1, 1e6, 10))
		}, false},
		"a bucket that would have refused": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start, driver.Take, bucket(id, 10, 1, 1e6, 1))
			must(t, s, start, driver.Peek, bucket(id, 10, 1, 1e6, 10))
		}, true},
		"a bucket that has refused and passed": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start, driver.Take, bucket(id, 10, 1, 1e6, 1))
			must(t, s, start, driver.Take, bucket(id, 10, 1, 1e6, 10))
			must(t, s, start, driver.Take, bucket(id, 10, 1, 1e6, 1))
		}, true},
		"a window that was given back": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start, driver.Take, window(id, 10, 60e6, 9))
			op := window(id, 10, 60e6, 7)
			op.At = start
			must(t, s, start, driver.Refund, op)
		}, true},
		"a counter that has ended": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start-10e6, driver.Take, counter(id, 10, 10e6, 10))
		}, true},
		"a budget that has ended": {func(t *testing.T, s *memstore.Store, id string) {
			must(t, s, start-15e6, driver.Take, budget(id, 10, 10))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 50
			s := open(t, &memstore.Options{MaxKeys: n})
			for i := range n {
				c.make(t, s, fmt.Sprint(i))
			}
			if s.Len() != n {
				t.Fatalf("%d keys of %d", s.Len(), n)
			}
			for i := range 2 * n {
				err := do(t, s, start, driver.Hit, counter(fmt.Sprint("more", i), 0, 3600e6, 1)).Err
				if want := c.goes && i < n; want && err != nil || !want && !errors.Is(err, driver.ErrFull) {
					t.Fatalf("key %d: %v", i, err)
				}
			}
			if s.Len() != n {
				t.Errorf("%d keys of %d", s.Len(), n)
			}
		})
	}
}

// TestFullListChangesNothing is about lists of which one key finds no room.
func TestFullListChangesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, &memstore.Options{MaxKeys: 3})
	known := []driver.Op{bucket("a", 10, 1, 1e6, 1), window("b", 10, 60e6, 1), counter("c", 10, 60e6, 1)}
	for _, op := range known {
		must(t, s, start, driver.Take, op) // each may go, but not for a list that it stands in
	}
	for _, verb := range []driver.Verb{driver.Take, driver.Hit} {
		txn := &driver.Txn{Verb: verb, Now: start, Ops: append(append([]driver.Op(nil), known...), counter("d", 10, 60e6, 1))}
		if verb == driver.Hit {
			txn.Ops = append([]driver.Op{counter("c", 0, 60e6, 1)}, counter("d", 0, 60e6, 1), counter("e", 0, 60e6, 1), counter("f", 0, 60e6, 1))
		}
		other := &driver.Txn{Verb: driver.Take, Now: start, Ops: []driver.Op{counter("c", 10, 60e6, 0)}}
		if err := s.Apply(t.Context(), []*driver.Txn{txn, other}); err != nil {
			t.Fatal(err)
		}
		if txn.Err != driver.ErrFull || txn.Allowed || other.Err != nil { //nolint:errorlint // exactly this one
			t.Errorf("%v, allowed %v; the next: %v", txn.Err, txn.Allowed, other.Err)
		}
		for i, op := range txn.Ops {
			if op.Result != (driver.Result{}) {
				t.Errorf("op %d answers %+v", i, op.Result)
			}
		}
		if verb == driver.Take {
			for _, op := range known {
				if got := must(t, s, start, driver.Peek, op).Ops[0].Result.Used; got != 1 {
					t.Errorf("%s: %d used", op.Key.ID, got)
				}
			}
		}
	}
}

// TestFlood: what counts outlives fresh keys of any length, and memory stays within its bound.
func TestFlood(t *testing.T) {
	const most = 4 << 20
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s := open(t, &memstore.Options{MaxKeys: 1e6, MaxBytes: most, SweepEvery: -1})
	lasting := []driver.Op{
		bucket("x", 5, 1, 1000e6, 5), window("x", 5, 3600e6, 5), counter("x", 5, 3600e6, 5), budget("x", 5, 5),
		bucket("y", 5, 1, 1e6, 5),
	}
	for _, op := range lasting {
		must(t, s, start, driver.Take, op)
	}
	must(t, s, start, driver.Hit, counter("z", 0, 60e6, 3))
	r := rand.New(rand.NewPCG(1, 2))
	long := strings.Repeat("k", driver.MaxID)
	var full, peak int64
	for i := range 60_000 {
		// In turns: few lengths and all lengths, states that may go and such that may not.
		id := fmt.Sprint(i, "-", long[:[]int{1, 20, 300}[i/20_000]*r.IntN(13)])
		op := []driver.Op{bucket(id, 10, 1, 1e6, 1), window(id, 10, 10e6, 1), counter(id, 10, 10e6, 1), bucket(id, 2, 1, 100e6, 1)}[r.IntN(4)]
		if err := do(t, s, start, driver.Take, op).Err; errors.Is(err, driver.ErrFull) {
			full++
		} else if err != nil {
			t.Fatal(err)
		}
		if s.Bytes() > most {
			t.Fatalf("%d bytes of %d", s.Bytes(), most)
		}
		if i%10_000 == 0 {
			peak = max(peak, heap()-before)
		}
	}
	t.Logf("%d keys at the end, %d refused, at most %d KiB of heap", s.Len(), full, peak>>10)
	if peak > most*3/2 {
		t.Errorf("%d bytes of heap for %d", peak, most)
	}
	for _, op := range lasting {
		op.Cost = 1
		if txn := must(t, s, start, driver.Take, op); txn.Allowed || txn.Ops[0].Result.Used != 5 {
			t.Errorf("%s%s got free: %+v", op.Key.Space, op.Key.ID, txn.Ops[0].Result)
		}
	}
	if got := must(t, s, start, driver.Hit, counter("z", 0, 60e6, 0)).Ops[0].Result.Used; got != 3 {
		t.Errorf("a counter of hits: %d", got)
	}
	// The memory comes back.
	dropped, err := s.Sweep(t.Context(), start+100_000e6, 1e9)
	if err != nil || s.Len() != 0 || dropped == 0 || s.Bytes() != 0 {
		t.Errorf("%d swept, %d left, %v", dropped, s.Len(), err)
	}
	if left := heap() - before; left > 512<<10 {
		t.Errorf("%d bytes of heap are left", left)
	}
}

// TestWindowsGrowWithinBounds: lists of uses count, and have a part of the memory to themselves.
func TestWindowsGrowWithinBounds(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	s := open(t, &memstore.Options{MaxBytes: most})
	var fresh, grown int
	for i := 0; ; i++ {
		if do(t, s, start, driver.Take, window(fmt.Sprint(i), 300, 3600e6, 1)).Err != nil {
			break
		}
		fresh++
	}
	if s.Bytes() > most*7/8 {
		t.Errorf("%d bytes of new keys", s.Bytes())
	}
	var err error
	for now := start + 1; err == nil; now++ {
		for i := 0; i < fresh && err == nil; i++ {
			err = do(t, s, now, driver.Take, window(fmt.Sprint(i), 300, 3600e6, 1)).Err
			grown++
		}
	}
	if !errors.Is(err, driver.ErrFull) || grown < 100 || s.Bytes() > most {
		t.Errorf("%v after %d, %d bytes", err, grown, s.Bytes())
	}
	// A list that needs not grow goes on.
	must(t, s, start+1, driver.Take, window("0", 300, 3600e6, 1))
}

// TestManySpaces: a program that invents names of rules makes no difference but in memory.
func TestManySpaces(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	op := func(i int, group string) driver.Op {
		op := counter("somebody", 10, 3600e6, 1)
		op.Key.Space, op.Key.Group = fmt.Sprintf("ns%d|%d|c|", i%2, i), group
		return op
	}
	const n = 6000
	for round := range int64(2) {
		for i := range n {
			for _, group := range []string{"", "g"} {
				if got := must(t, s, start, driver.Take, op(i, group)).Ops[0].Result.Used; got != round+1 {
					t.Fatalf("space %d: %d used", i, got)
				}
			}
		}
	}
	forget := driver.Op{Key: driver.Key{Space: "ns1|", Group: "g", ID: "somebody"}}
	must(t, s, start+1, driver.Forget, forget)
	for i := range n {
		for _, group := range []string{"", "g"} {
			want := int64(2)
			if i%2 == 1 && group == "g" {
				want = 0
			}
			if got := must(t, s, start+2, driver.Peek, op(i, group)).Ops[0].Result.Used; got != want {
				t.Fatalf("space %d of group %q: %d used", i, group, got)
			}
		}
	}
}
