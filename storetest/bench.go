package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/ration-go/ration/driver"
)

// Bench measures the stores of h, in parts whose names stay, for benchstat. All but "refused" admit every call. ns/op is
// per decision, also in a batch.
//
//	hot        takes of one key, one after the other
//	spread     takes of 100 000 keys in random order
//	parallel   spread, from all processors
//	batch100   spread, a hundred takes in a call
//	list3      decisions over three keys
//	refused    takes of one key that has nothing left
func Bench(b *testing.B, h Harness) {
	s := &suite{h: h}
	if s.info = h.Open(b).Info(); len(s.slowLimits(1)) == 0 {
		b.Fatal("storetest: the store claims no kind of limit")
	}
	b.Run("hot", func(b *testing.B) { s.benchOne(b, []string{"hot"}) })
	b.Run("spread", func(b *testing.B) { s.benchOne(b, benchKeys()) })
	b.Run("parallel", s.benchParallel)
	b.Run("batch100", s.benchBatch)
	if s.info.Caps.Has(driver.CapList) {
		b.Run("list3", s.benchList)
	}
	b.Run("refused", s.benchRefused)
}

func benchKeys() []string {
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%06d", i)
	}
	return keys
}

// benchLimit never refuses: the first kind the store has.
func (s *suite) benchLimit() string {
	if s.info.Caps.Has(driver.CapBucket) {
		return "bucket 1000000/1s burst 1000000000"
	}
	return s.slowLimits(1 << 40)[0]
}

// again makes txn as new, for another key.
func again(txn *driver.Txn, key string) {
	txn.Allowed, txn.At, txn.Err = false, 0, nil
	txn.Ops[0].Result = driver.Result{}
	txn.Ops[0].Key.ID = key
}

func (s *suite) benchOne(b *testing.B, keys []string) {
	store, ctx := s.h.Open(b), context.Background()
	txn := s.place().txn(driver.Take, s.benchLimit(), "", 1)
	batch := []*driver.Txn{txn}
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		again(txn, keys[rng.IntN(len(keys))])
		if err := store.Apply(ctx, batch); err != nil || !txn.Allowed {
			b.Fatal(err, txn.Err)
		}
	}
}

func (s *suite) benchParallel(b *testing.B) {
	store, ctx, keys, p := s.h.Open(b), context.Background(), benchKeys(), s.place()
	var seed atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		txn := p.txn(driver.Take, s.benchLimit(), "", 1)
		batch := []*driver.Txn{txn}
		rng := rand.New(rand.NewPCG(1, seed.Add(1)))
		for pb.Next() {
			again(txn, keys[rng.IntN(len(keys))])
			if err := store.Apply(ctx, batch); err != nil || !txn.Allowed {
				b.Error(err, txn.Err)
				return
			}
		}
	})
}

func (s *suite) benchBatch(b *testing.B) {
	store, ctx, keys, p := s.h.Open(b), context.Background(), benchKeys(), s.place()
	batch := make([]*driver.Txn, s.maxBatch())
	for i := range batch {
		batch[i] = p.txn(driver.Take, s.benchLimit(), "", 1)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += len(batch) {
		for _, txn := range batch {
			again(txn, keys[rng.IntN(len(keys))])
		}
		if err := store.Apply(ctx, batch); err != nil || batch[0].Err != nil {
			b.Fatal(err, batch[0].Err)
		}
	}
}

func (s *suite) benchList(b *testing.B) {
	store, ctx, p := s.h.Open(b), context.Background(), s.place()
	txn := &driver.Txn{Verb: driver.Take}
	for _, key := range []string{"user", "organisation", "all"} {
		txn.Ops = append(txn.Ops, p.op(s.benchLimit(), key, 1, 0))
	}
	batch := []*driver.Txn{txn}
	b.ReportAllocs()
	for b.Loop() {
		txn.Allowed, txn.At, txn.Err = false, 0, nil
		for i := range txn.Ops {
			txn.Ops[i].Result = driver.Result{}
		}
		if err := store.Apply(ctx, batch); err != nil || !txn.Allowed {
			b.Fatal(err, txn.Err)
		}
	}
}

func (s *suite) benchRefused(b *testing.B) {
	store, ctx, p := s.h.Open(b), context.Background(), s.place()
	text := s.slowLimits(1)[0]
	txn := p.txn(driver.Take, text, "k", 1)
	if err := failure(store, txn); err != nil || !txn.Allowed {
		b.Fatal(err)
	}
	batch := []*driver.Txn{txn}
	b.ReportAllocs()
	for b.Loop() {
		again(txn, "k")
		if err := store.Apply(ctx, batch); err != nil || txn.Allowed {
			b.Fatal(err, txn.Err)
		}
	}
}
