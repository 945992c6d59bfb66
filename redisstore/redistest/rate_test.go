package redistest

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
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

// subject is one way to decide.
type subject struct {
	name string
	call func(ctx context.Context, key string) error
}

// subjects are a Limiter over redisstore, without joining, and redis_rate, on one server.
func subjects(tb testing.TB, addr string) (all []subject, admin *goredis.Client) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	store, err := redisstore.New(client, nil)
	if err != nil {
		tb.Fatal(err)
	}
	limiter := ration.New(store, &ration.Options{NoJoin: true})
	joined := ration.New(store, nil)
	tb.Cleanup(func() { limiter.Close(); joined.Close() })
	theirs := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: callers})
	tb.Cleanup(func() { theirs.Close() })
	rate := redis_rate.NewLimiter(theirs)
	large := redis_rate.Limit{Rate: 1 << 40, Burst: 1 << 40, Period: time.Second}
	take := func(l *ration.Limiter, limit ration.Limit) func(ctx context.Context, key string) error {
		return func(ctx context.Context, key string) error {
			_, err := l.Take(ctx, ration.KeyOf(key), limit, 1)
			return err
		}
	}
	bucket := ration.TokenBucket{Burst: 1 << 40, Refill: ration.PerSecond(1000)}
	return []subject{
		{"redis_rate", func(ctx context.Context, key string) error {
			_, err := rate.Allow(ctx, key, large)
			return err
		}},
		{"bucket", take(limiter, bucket)},
		{"fixed", take(limiter, ration.FixedWindow{Limit: 1 << 40, Window: time.Hour})},
		{"sliding", take(limiter, ration.SlidingWindow{Limit: 1 << 40, Window: time.Minute})},
		{"refused", take(limiter, ration.TokenBucket{Burst: 1, Refill: ration.Every(time.Hour)})},
		{"joined-bucket", take(joined, bucket)},
	}, theirs
}

// keysOf picks among one key, or 100 000.
func keysOf(spread string) func() string {
	n := 1
	if spread == "wide" {
		n = 100_000
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	return func() string { return keys[rand.IntN(n)] }
}

// BenchmarkTake is the whole way of a decision at 128 callers, each with one call at a time. hot is one key, wide 100 000.
// Compare within one run only.
func BenchmarkTake(b *testing.B) {
	srv := engines.Redis(b, &engines.RedisOptions{Args: []string{"--appendonly", "no"}})
	all, admin := subjects(b, srv.Addr)
	for _, spread := range []string{"hot", "wide"} {
		key := keysOf(spread)
		for _, s := range all {
			b.Run(spread+"/"+s.name, func(b *testing.B) {
				measure(b, admin, func(ctx context.Context) error { return s.call(ctx, key()) })
			})
		}
	}
}

// TestRatio compares in short rounds by turns, so that other work on the machine is everybody's, and prints medians.
func TestRatio(t *testing.T) {
	if os.Getenv("RATION_RATIO") == "" {
		t.Log("left out: RATION_RATIO=1 measures for a minute")
		return
	}
	srv := engines.Redis(t, &engines.RedisOptions{Args: []string{"--appendonly", "no"}})
	all, _ := subjects(t, srv.Addr)
	for _, spread := range []string{"hot", "wide"} {
		key := keysOf(spread)
		rates := make([][]float64, len(all))
		for range 9 {
			for i, s := range all {
				rates[i] = append(rates[i], callsPerSecond(t, 500*time.Millisecond, func(ctx context.Context) error { return s.call(ctx, key()) }))
			}
		}
		base := median(rates[0])
		for i, s := range all {
			t.Logf("%-5s %-14s %8.0f calls/s, %.2f × redis_rate", spread, s.name, median(rates[i]), median(rates[i])/base)
		}
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

func callsPerSecond(t *testing.T, d time.Duration, call func(context.Context) error) float64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(began) < d {
				if err := call(context.Background()); err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// measure runs call by all callers, and reports what a script call costs the server.
func measure(b *testing.B, admin *goredis.Client, call func(context.Context) error) {
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
}
