package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/redisstore"
)

const callers = 128

// BenchmarkTake is the whole way of a decision at 128 callers, each with one call at a time: by a Limiter over redisstore,
// without joining, and by redis_rate, on one server. hot is one key, wide 100 000. Compare within one run only.
func BenchmarkTake(b *testing.B) {
	srv := engines.Redis(b, &engines.RedisOptions{Args: []string{"--appendonly", "no"}})
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	ours, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr}, DisableCache: true, DisableRetry: true})
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()
	store, err := redisstore.New(ours, nil)
	if err != nil {
		b.Fatal(err)
	}
	limiter := ration.New(store, &ration.Options{NoJoin: true})
	defer limiter.Close()
	theirs := goredis.NewClient(&goredis.Options{Addr: srv.Addr, PoolSize: callers})
	defer theirs.Close()
	rate := redis_rate.NewLimiter(theirs)

	limits := map[string]ration.Limit{
		"bucket":  ration.TokenBucket{Burst: 1 << 40, Refill: ration.PerSecond(1000)},
		"fixed":   ration.FixedWindow{Limit: 1 << 40, Window: time.Hour},
		"sliding": ration.SlidingWindow{Limit: 1 << 40, Window: time.Minute},
		"refused": ration.TokenBucket{Burst: 1, Refill: ration.Every(time.Hour)},
	}
	for _, spread := range []string{"hot", "wide"} {
		key := func() string { return keys[0] }
		if spread == "wide" {
			key = func() string { return keys[rand.IntN(len(keys))] }
		}
		for _, kind := range []string{"bucket", "fixed", "sliding", "refused"} {
			b.Run(spread+"/ration-"+kind, func(b *testing.B) {
				measure(b, srv.Addr, theirs, func(ctx context.Context) error {
					_, err := limiter.Take(ctx, ration.KeyOf(key()), limits[kind], 1)
					return err
				})
			})
		}
		b.Run(spread+"/redis_rate", func(b *testing.B) {
			limit := redis_rate.Limit{Rate: 1 << 40, Burst: 1 << 40, Period: time.Second}
			measure(b, srv.Addr, theirs, func(ctx context.Context) error {
				_, err := rate.Allow(ctx, key(), limit)
				return err
			})
		})
	}
}

// measure runs call by all callers, and reports what a script call costs the server.
func measure(b *testing.B, addr string, admin *goredis.Client, call func(context.Context) error) {
	ctx := context.Background()
	if err := admin.ConfigResetStat(ctx).Err(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	info, err := admin.Info(ctx, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			_, rest, _ = strings.Cut(rest, "usec_per_call=")
			text, _, _ := strings.Cut(rest, ",")
			us, _ := strconv.ParseFloat(text, 64)
			b.ReportMetric(us, "server-µs/call")
		}
	}
	if os.Getenv("VERBOSE") != "" {
		fmt.Println(addr)
	}
}
