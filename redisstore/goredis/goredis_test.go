package goredis_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/redisstore/goredis"
	"github.com/ration-go/ration/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks fails if goroutines outlive the tests.
func leaks() int {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if runtime.NumGoroutine() <= 2 { // the second is that of os/signal or of the servers' keeper
			return 0
		}
	}
	stacks := make([]byte, 1<<20)
	fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
	return 1
}

var prefixes atomic.Int64

func harness(connect func() redis.UniversalClient) storetest.Harness {
	var known sync.Map
	open := func(t testing.TB, prefix string) driver.Store {
		t.Helper()
		c := connect()
		s, err := goredis.New(c, &redisstore.Options{Prefix: prefix, SweepEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		known.Store(driver.Store(s), prefix)
		return s
	}
	return storetest.Harness{
		Open: func(t testing.TB) driver.Store { return open(t, fmt.Sprintf("t%d:", prefixes.Add(1))) },
		Again: func(t testing.TB, s driver.Store) driver.Store {
			prefix, _ := known.Load(s)
			return open(t, prefix.(string))
		},
	}
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, nil)
	storetest.Run(t, harness(func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: srv.Addr}) }))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := engines.RedisCluster(t, nil)
	storetest.Run(t, harness(func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	}))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	set := engines.Sentinel(t, nil)
	storetest.Run(t, harness(func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: set.Master, SentinelAddrs: set.Addrs()})
	}))
}
