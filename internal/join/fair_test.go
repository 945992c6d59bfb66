package join

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration/driver"
)

// Of 256 callers who ask all the time, on one key, on many, or some on each, nobody waits more than ten times the median. It is
// the time of a bubble, in which only the store takes any. The benchmarks watch callers in real time.
func TestNobodyWaitsLong(t *testing.T) {
	t.Parallel()
	const callers, calls = 256, 20
	for _, inFlight := range []int{1, 4} {
		for _, hot := range []int{0, 10, 128, 250, callers} { // callers of one key; the others have many
			t.Run(fmt.Sprint(inFlight, " under way, ", hot, " on one key"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					j := New(Options{MaxBatch: 64, InFlight: inFlight, MaxQueue: callers, Timeout: time.Hour, Apply: func(_ context.Context, batch []*driver.Txn) error {
						// A round trip, and something for each of the batch.
						time.Sleep(time.Duration(500+10*len(batch)+rand.IntN(500)) * time.Microsecond)
						return driver.Run(rows{}, 1e9, batch)
					}})
					defer j.Close()
					waits := make([][]time.Duration, callers)
					var wg sync.WaitGroup
					for c := range callers {
						wg.Go(func() {
							r := rand.New(rand.NewPCG(1, uint64(c)))
							for range calls {
								key := "hot"
								if c >= hot {
									key = fmt.Sprint(r.IntN(1000))
								}
								began := time.Now()
								if _, err := j.Do(context.Background(), take(key, 1)); err != nil {
									t.Error(err)
								}
								waits[c] = append(waits[c], time.Since(began))
							}
						})
					}
					wg.Wait()
					all := slices.Sorted(slices.Values(slices.Concat(waits...)))
					if median, longest := all[len(all)/2], all[len(all)-1]; longest > 10*median {
						t.Errorf("somebody waited %v, and the median is %v", longest, median)
					}
				})
			})
		}
	}
}
