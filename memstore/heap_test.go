package memstore_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// heapPerKey is what n keys take on the heap, beside their own bytes.
func heapPerKey(tb testing.TB, n int, format string) float64 {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c := newCaller(bucketOp(100, 1, 3600e6))
	var id []byte
	before := heap()
	s := memstore.New(&memstore.Options{MaxKeys: n})
	defer s.Close()
	for i := range n {
		id = fmt.Appendf(id[:0], format, i)
		c.ops[0].Key.ID = string(id)
		if err := c.take(s); err != nil {
			tb.Fatal(err)
		}
	}
	after := heap()
	if s.Len() != n {
		tb.Fatalf("%d keys are kept of %d", s.Len(), n)
	}
	return float64(after-before)/float64(n) - float64(len(id))
}

var keyFormats = []string{"%07d", "user-%07d", "user-%011d", "user:%012d", "tenant-42:user-%08d", "0195e6a0-7a8b-7c3d-9e4f-%012d"}

func TestHeapPerKey(t *testing.T) {
	n := million
	if testing.Short() || raced {
		n /= 10
	}
	for _, format := range []string{keyFormats[0], keyFormats[5]} {
		got := heapPerKey(t, n, format)
		t.Logf("%d keys like %s: %.1f bytes each beside the key's own", n, fmt.Sprintf(format, 0), got)
		if got > 96 {
			t.Errorf("more than 96 bytes")
		}
	}
}

// TestNoAllocation: a decision on a known key allocates nothing.
func TestNoAllocation(t *testing.T) {
	for name, op := range kinds() {
		for _, verb := range []driver.Verb{driver.Take, driver.Peek, driver.Hit} {
			if verb == driver.Hit && op.Kind != driver.Counter {
				continue
			}
			s := open(t, nil)
			c := newCaller(op)
			c.txn.Verb = verb
			now := start
			decide := func() {
				now += 50
				c.ops[0].Result = driver.Result{}
				c.txn = driver.Txn{Verb: verb, Now: now, Ops: c.ops[:]}
				if err := s.Apply(t.Context(), c.batch[:]); err != nil || c.txn.Err != nil {
					t.Fatal(err, c.txn.Err)
				}
			}
			for range 1000 {
				decide()
			}
			if n := testing.AllocsPerRun(1000, decide); n != 0 {
				t.Errorf("%s, verb %d: %v allocations", name, verb, n)
			}
		}
	}
}
