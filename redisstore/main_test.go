package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/redisstore"
)

func TestMain(m *testing.M) {
	if addrs, prefix, ok := strings.Cut(os.Getenv("RATION_WORKER"), " "); ok {
		if err := worker(addrs, prefix); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if crowd.IsMember() {
		os.Exit(crowd.Member(openShared))
	}
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks fails if goroutines of a store or of a client outlive the tests.
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

// shared are the servers that tests share, each started when the first asks for it.
var shared servers

type servers struct {
	mu      sync.Mutex
	servers map[string]*engines.Server
	cluster *engines.Cluster
}

func (s *servers) close() (err error) {
	for _, one := range s.servers {
		err = errors.Join(err, one.Close())
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Close())
	}
	return err
}

// server is the shared server of a kind: "redis" or "valkey".
func server(t testing.TB, kind string) *engines.Server {
	t.Helper()
	engines.Require(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.servers[kind]; s != nil {
		return s
	}
	s, err := engines.StartRedis(&engines.RedisOptions{Valkey: kind == "valkey"})
	if err != nil {
		t.Fatal(err)
	}
	if shared.servers == nil {
		shared.servers = make(map[string]*engines.Server)
	}
	shared.servers[kind] = s
	return s
}

// cluster is the shared cluster. No test breaks it.
func cluster(t testing.TB) *engines.Cluster {
	t.Helper()
	engines.Require(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		c, err := engines.StartCluster(&engines.RedisOptions{Args: []string{"--cluster-node-timeout", strconv.FormatInt(patience.Milliseconds(), 10)}})
		if err != nil {
			t.Fatal(err)
		}
		shared.cluster = c
	}
	return shared.cluster
}

// patience is how long a server may be busy with other work of the machine before others give it up.
const patience = time.Minute

func newClient(t testing.TB, addrs ...string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: addrs, DisableCache: true, ConnWriteTimeout: patience, Dialer: net.Dialer{Timeout: patience, KeepAlive: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var prefixes atomic.Int64

// newPrefix is a prefix that no other test uses.
func newPrefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

// open is a store that ends with the test, under a prefix of its own if opts name none. It does not sweep by itself.
func open(t testing.TB, c rueidis.Client, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	var o redisstore.Options
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = newPrefix()
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = -1
	}
	s, err := redisstore.New(c, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func apply(t testing.TB, s driver.Store, batch ...*driver.Txn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
}
