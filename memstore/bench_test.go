package memstore_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

func bucketOp(burst, rate int64, span driver.Micros) driver.Op {
	gain, unit, tick, err := driver.Units(burst, rate, span)
	if err != nil {
		panic(err)
	}
	return driver.Op{
		Key: driver.Key{Space: "|b||", ID: "somebody"}, Kind: driver.Bucket, Size: burst,
		Rate: rate, Span: span, Gain: gain, Unit: unit, Tick: tick, Cost: 1,
	}
}

// kinds are ops of each kind that are nearly always admitted, and windowed ones that are soon refused.
func kinds() map[string]driver.Op {
	key := driver.Key{Space: "|x||", ID: "somebody"}
	bounds := [4]driver.Micros{1, 2, driver.MaxNow - 1, driver.MaxNow}
	return map[string]driver.Op{
		"bucket":         bucketOp(1_000_000, 1_000_000, 1e6),
		"bucket refused": bucketOp(10, 1, 3600e6),
		"counter":        {Key: key, Kind: driver.Counter, Size: driver.MaxNumber, Span: 60e6, Cost: 1},
		"budget":         {Key: key, Kind: driver.Budget, Size: driver.MaxNumber, Bounds: bounds, Cost: 1},
		"window":         {Key: key, Kind: driver.Window, Size: driver.MaxNumber, Span: 1e3, Cost: 1},
		"window refused": {Key: key, Kind: driver.Window, Size: 10, Span: 3600e6, Cost: 1},
	}
}

// caller is a goroutine's own batch of one Txn, as the Limiter has one for each call.
type caller struct {
	txn   driver.Txn
	ops   [1]driver.Op
	batch [1]*driver.Txn
}

func newCaller(op driver.Op) *caller {
	c := &caller{}
	c.ops[0] = op
	c.batch[0] = &c.txn
	return c
}

func (c *caller) take(s *memstore.Store) error {
	c.ops[0].Result = driver.Result{}
	c.txn = driver.Txn{Verb: driver.Take, Ops: c.ops[:]}
	if err := s.Apply(context.Background(), c.batch[:]); err != nil {
		return err
	}
	return c.txn.Err
}

func BenchmarkHot(b *testing.B) {
	for name, op := range kinds() {
		b.Run(name, func(b *testing.B) {
			s := memstore.New(nil)
			defer s.Close()
			c := newCaller(op)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.take(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHotParallel(b *testing.B) {
	for name, op := range kinds() {
		b.Run(name, func(b *testing.B) {
			s := memstore.New(nil)
			defer s.Close()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c := newCaller(op)
				for pb.Next() {
					if err := c.take(s); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

const million = 1_000_000

func names(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("user-%07d", i)
	}
	return ids
}

// BenchmarkMillionKeys takes from one of a million known keys at random.
func BenchmarkMillionKeys(b *testing.B) {
	for _, name := range []string{"bucket", "counter"} {
		b.Run(name, func(b *testing.B) {
			op := kinds()[name]
			if op.Kind == driver.Bucket {
				op = bucketOp(100, 1, 3600e6)
			}
			s := memstore.New(&memstore.Options{MaxKeys: 2 * million})
			defer s.Close()
			ids := names(million)
			c := newCaller(op)
			for _, id := range ids {
				c.ops[0].Key.ID = id
				if err := c.take(s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				c, r := newCaller(op), rand.New(rand.NewPCG(rand.Uint64(), 1))
				for pb.Next() {
					c.ops[0].Key.ID = ids[r.IntN(million)]
					if err := c.take(s); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkNewKeys(b *testing.B) {
	s := memstore.New(&memstore.Options{MaxKeys: math.MaxInt, MaxBytes: math.MaxInt64})
	defer s.Close()
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := newCaller(bucketOp(100, 1, 3600e6))
		var id [16]byte
		for pb.Next() {
			c.ops[0].Key.ID = string(fmt.Appendf(id[:0], "%012d", n.Add(1)))
			if err := c.take(s); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkFlood sends fresh keys to a store that is full of keys which may not be dropped.
func BenchmarkFlood(b *testing.B) {
	s := memstore.New(&memstore.Options{MaxKeys: 100_000})
	defer s.Close()
	c := newCaller(bucketOp(1, 1, 3600e6))
	for _, id := range names(100_000) {
		c.ops[0].Key.ID = id
		if err := c.take(s); err != nil {
			b.Fatal(err)
		}
	}
	ids := names(2 * million)[million:]
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		c.ops[0].Key.ID = ids[i%len(ids)]
		if err := c.take(s); err == nil {
			b.Fatal("a key at its limit made room")
		}
	}
}

// BenchmarkHeap reports the bytes of heap for each of a million keys, beside the key's own bytes.
func BenchmarkHeap(b *testing.B) {
	for _, format := range keyFormats {
		b.Run(fmt.Sprintf(format, 0), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(heapPerKey(b, million, format), "B/key")
			}
		})
	}
}
