package ration_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// plain hides everything of a store but the contract.
type plain struct{ driver.Store }

// TestShortWay holds the short way of buckets in memory to the decisions of driver.Store.Apply, in every field.
func TestShortWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 1))
		quick := ration.New(memstore.New(&memstore.Options{SweepEvery: -1}), nil)
		long := ration.New(plain{memstore.New(&memstore.Options{SweepEvery: -1})}, nil)
		defer quick.Close()
		defer long.Close()
		limits := []ration.Limit{
			ration.TokenBucket{Burst: 10, Refill: ration.PerSecond(5)},
			ration.TokenBucket{Burst: 6, Refill: ration.PerSecond(3)}, // of the same keys, with another unit
			ration.Rule{Name: "other", Limit: ration.TokenBucket{Burst: 100, Refill: ration.PerSecond(20_000_000)}},
			ration.TokenBucket{Burst: 1 << 40, Refill: ration.PerMinute(7)}, // its tick is longer
			ration.TokenBucket{Burst: 0, Refill: ration.PerSecond(1)},
			ration.FixedWindow{Limit: 5, Window: time.Second},
		}
		keys := []ration.Key{
			ration.KeyOf("a"), ration.KeyOf("a", "b"), ration.KeyOf(strings.Repeat("k", 20)), ration.KeyOf(strings.Repeat("k", 128)),
			ration.KeyOf(strings.Repeat("k", 129)), ration.KeyOf("a").In("g"), ration.Global, ration.KeyOf("\x00"), {},
		}
		for step := range 20_000 {
			key, limit, n := keys[r.IntN(len(keys))], limits[r.IntN(len(limits))], int64(r.IntN(5))
			if r.IntN(10) == 0 {
				n = r.Int64N(1<<41) - 1
			}
			switch r.IntN(20) {
			case 0:
				time.Sleep(time.Duration(r.Int64N(int64(30 * time.Second))))
			case 1, 2, 3, 4:
				time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
			case 5:
				given, err := quick.Refund(ctx, key, limit, max(n, 0), time.Now())
				wantGiven, wantErr := long.Refund(ctx, key, limit, max(n, 0), time.Now())
				if given != wantGiven || (err == nil) != (wantErr == nil) {
					t.Fatalf("seed %d, step %d: a refund gave %d, %v; else %d, %v", seed, step, given, err, wantGiven, wantErr)
				}
			case 6:
				if step%16 == 0 {
					quick.Reset(ctx, key, limit)
					long.Reset(ctx, key, limit)
				}
			}
			got, err := quick.Take(ctx, key, limit, n)
			want, wantErr := long.Take(ctx, key, limit, n)
			if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("seed %d, step %d, %v, cost %d:\ngot  %+v, %v\nwant %+v, %v", seed, step, limit, n, got, err, want, wantErr)
			}
		}
	})
}

func TestShortWayAllocatesNothing(t *testing.T) {
	l := ration.New(memstore.New(nil), nil)
	defer l.Close()
	var limit ration.Limit = ration.TokenBucket{Burst: 1 << 20, Refill: ration.PerSecond(1)}
	id := "user-" + strconv.Itoa(17)
	if n := testing.AllocsPerRun(1000, func() { l.Take(ctx, ration.KeyOf(id), limit, 1) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
