package goredis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/internal/hitcontract"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/redisstore/goredis"
	"github.com/ration-go/ration/redisstore/internal/proxy"
	"github.com/ration-go/ration/storetest"
)

// leftOut is what a usual run leaves out of storetest's suite: the long checks of what the scripts decide, which package
// redisstore makes over the same scripts. All case files stay, and the check of contexts, which each client treats in its
// own way. RATION_LONG leaves out nothing.
const leftOut = "^Test(Standalone|Cluster|Sentinel)$/^checks$/^(random|parallel|parallel_lists|ids|holds|slots|two_handles|sweep)$"

func TestMain(m *testing.M) {
	flag.Parse()
	if skip := flag.Lookup("test.skip"); os.Getenv("RATION_LONG") == "" && skip.Value.String() == "" {
		if err := skip.Value.Set(leftOut); err != nil {
			panic(err)
		}
	}
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

// patience is how long a server may be busy with other work of the machine before a client gives it up; by default that is
// three seconds. No call of the suite is to fail for that.
const patience = time.Minute

func TestStandalone(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, nil)
	storetest.Run(t, harness(func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: srv.Addr, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience})
	}))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := engines.RedisCluster(t, &engines.RedisOptions{Args: []string{"--cluster-node-timeout", strconv.FormatInt(patience.Milliseconds(), 10)}})
	storetest.Run(t, harness(func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: c.Addrs(), DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		})
	}))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	set := engines.Sentinel(t, nil)
	storetest.Run(t, harness(func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: set.Master, SentinelAddrs: set.Addrs(), DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		})
	}))
}

// TestLostReply: with retries as go-redis has them, a call whose reply is lost is not sent again.
func TestLostReply(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, nil)
	p := proxy.New(t, srv.Addr)
	c := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: 5})
	s, err := goredis.New(c, &redisstore.Options{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); c.Close() })
	l := ration.New(s, nil)
	ctx := context.Background()
	least, most := int64(0), int64(0)
	for i := range 40 {
		if i%4 == 0 {
			p.Lose.Store(1)
		}
		_, _, err := l.Hit(ctx, ration.KeyOf("k"), time.Hour, 1)
		switch {
		case err == nil:
			least, most = least+1, most+1
		case errors.Is(err, ration.ErrOutcomeUnknown):
			most++
		default:
			t.Error(err)
		}
	}
	n, _, err := l.Hit(ctx, ration.KeyOf("k"), time.Hour, 0)
	if err != nil || n < least || n > most || most-least != 10 {
		t.Fatalf("%d counted, %v; %d hits passed and %d may have", n, err, least, most-least)
	}
	if calls := p.Calls.Load(); calls > 42 { // one EVAL, when the script was not known, and the last hit
		t.Errorf("41 hits made %d calls", calls)
	}
}

func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	set := engines.Sentinel(t, nil)
	c := redis.NewClient(&redis.Options{Addr: set.Primary.Addr})
	s, err := goredis.New(c, &redisstore.Options{SweepEvery: -1, WaitReplicas: 1, WaitTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); c.Close() })
	l := ration.New(s, nil)
	hit := func() (int64, error) {
		n, _, err := l.Hit(context.Background(), ration.KeyOf("k"), time.Hour, 1)
		return n, err
	}
	for deadline := time.Now().Add(patience); ; {
		if _, err := hit(); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	set.Replica.Pause()
	if _, err := hit(); !errors.Is(err, ration.ErrOutcomeUnknown) {
		t.Error(err)
	}
	set.Replica.Resume()
}

func TestOptions(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	replicas := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadOnly: true})
	defer replicas.Close()
	for _, c := range []redis.UniversalClient{ring, replicas} {
		if _, err := goredis.New(c, nil); err == nil {
			t.Errorf("%T is no error", c)
		}
	}
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer nobody.Close()
	s, err := goredis.New(nobody, &redisstore.Options{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	l := ration.New(s, nil)
	if _, _, err := l.Hit(context.Background(), ration.KeyOf("k"), time.Hour, 1); !errors.Is(err, driver.ErrNotApplied) {
		t.Error(err)
	}
}

// TestHitContract: what users of a bare counter rely on, each call one round trip.
func TestHitContract(t *testing.T) {
	t.Parallel()
	p := proxy.New(t, engines.Redis(t, nil).Addr)
	c := redis.NewClient(&redis.Options{Addr: p.Addr})
	s, err := goredis.New(c, &redisstore.Options{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); c.Close() })
	hitcontract.Run(t, ration.New(s, nil), p.Calls.Load)
}
