//go:build linux

package pgstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
)

const hour driver.Micros = 3600 * 1e6

// take asks for n of a counter of size.
func take(id string, size, n int64) *driver.Txn {
	return &driver.Txn{Verb: driver.Take, Ops: []driver.Op{takeOp(id, size, n)}}
}

func takeOp(id string, size, n int64) driver.Op {
	return driver.Op{Key: driver.Key{Space: "c|takes|", ID: id}, Kind: driver.Counter, Size: size, Span: 24 * hour, Cost: n}
}

// used is what counts of a counter.
func used(t testing.TB, s driver.Store, id string) int64 {
	t.Helper()
	txn := take(id, driver.MaxNumber, 1)
	txn.Verb = driver.Peek
	apply(t, s, txn)
	if txn.Err != nil {
		t.Fatal(txn.Err)
	}
	return txn.Ops[0].Result.Used
}

// takeTogether has so many callers send a txn so often each, and answers how many were admitted.
func takeTogether(t testing.TB, s driver.Store, callers, calls int, txn func() *driver.Txn) int64 {
	t.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				txn := txn()
				err := s.Apply(ctx, []*driver.Txn{txn})
				cancel()
				if err == nil {
					err = txn.Err
				}
				if err != nil {
					t.Error(err)
					return
				}
				if txn.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}
