package redisstore_test

import (
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/redisstore/internal/proxy"
	"github.com/ration-go/ration/storetest"
)

// harness opens stores by connect, and a second one of the same prefix by it again.
func harness(connect func(t testing.TB) rueidis.Client) storetest.Harness {
	var prefixes sync.Map
	openWith := func(t testing.TB, prefix string) *redisstore.Store {
		s := open(t, connect(t), &redisstore.Options{Prefix: prefix})
		prefixes.Store(s, prefix)
		return s
	}
	return storetest.Harness{
		Open: func(t testing.TB) driver.Store { return openWith(t, newPrefix()) },
		Again: func(t testing.TB, s driver.Store) driver.Store {
			prefix, _ := prefixes.Load(s)
			return openWith(t, prefix.(string))
		},
	}
}

// warm makes the server behind s know all scripts, by questions that change nothing: a round trip more, when it does not, is no
// part of a decision.
func warm(t testing.TB, s driver.Store) {
	t.Helper()
	op := driver.Op{Key: driver.Key{Space: "|c||", ID: "warm"}, Kind: driver.Counter, Size: 1, Span: 60e6, Cost: 1}
	peek := func(ops ...driver.Op) *driver.Txn { return &driver.Txn{Verb: driver.Peek, Ops: ops} }
	route := s.(driver.Router).Route(op.Key)
	apply(t, s, peek(op), peek(op))
	apply(t, s, peek(op, op))
	apply(t, s, &driver.Txn{Verb: driver.Renew, ID: "|" + route + ".warm", TTL: 60e6})
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	srv := server(t, "redis")
	var proxies sync.Map
	h := storetest.Harness{}
	h.Open = func(t testing.TB) driver.Store {
		p := proxy.New(t, srv.Addr)
		s := open(t, newClient(t, p.Addr), nil)
		warm(t, s)
		proxies.Store(driver.Store(s), p)
		return s
	}
	h.Trips = func(s driver.Store) int64 {
		p, _ := proxies.Load(s)
		return p.(*proxy.Proxy).Calls.Load()
	}
	storetest.Run(t, h)
}

func TestValkey(t *testing.T) {
	t.Parallel()
	srv := server(t, "valkey")
	storetest.Run(t, harness(func(t testing.TB) rueidis.Client { return newClient(t, srv.Addr) }))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	storetest.Run(t, harness(func(t testing.TB) rueidis.Client { return newClient(t, c.Addrs()[:3]...) }))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	set := engines.Sentinel(t, nil)
	storetest.Run(t, harness(func(t testing.TB) rueidis.Client {
		t.Helper()
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: set.Addrs(), DisableCache: true, Sentinel: rueidis.SentinelOption{MasterSet: set.Master},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}))
}

// TestDurable kills a server that writes each charge to disk.
func TestDurable(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, &engines.RedisOptions{Args: []string{"--appendfsync", "always"}})
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) driver.Store {
			return open(t, newClient(t, srv.Addr), &redisstore.Options{Durable: true})
		},
		Durable: func(t testing.TB, _ driver.Store) {
			if err := srv.Kill(); err != nil {
				t.Error(err)
			}
			if err := srv.Restart(); err != nil {
				t.Error(err)
			}
		},
	})
}
