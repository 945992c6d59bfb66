package redisstore_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/joincontract"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/storetest"
)

// TestJoined runs the suite through calls that are joined.
func TestJoined(t *testing.T) {
	t.Parallel()
	srv := server(t, "redis")
	storetest.Run(t, joincontract.Joined(harness(func(t testing.TB) rueidis.Client { return newClient(t, srv.Addr) })))
}

func TestJoinedOnCluster(t *testing.T) {
	t.Parallel()
	addrs := cluster(t).Addrs()[:3]
	storetest.Run(t, joincontract.Joined(harness(func(t testing.TB) rueidis.Client { return newClient(t, addrs...) })))
}

// TestLeases has several clients, as of several processes.
func TestLeases(t *testing.T) {
	t.Parallel()
	addr, prefix := server(t, "redis").Addr, newPrefix()
	joincontract.Leases(t, func(t *testing.T) driver.Store {
		return open(t, newClient(t, addr), &redisstore.Options{Prefix: prefix})
	})
}
