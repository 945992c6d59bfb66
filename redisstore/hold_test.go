package redisstore_test

import (
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/holdcontract"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/redisstore/internal/proxy"
)

// TestHoldContract counts every command of a server, and loses answers to scripts.
func TestHoldContract(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "valkey"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := server(t, kind)
			p := proxy.New(t, srv.Addr)
			opts := &redisstore.Options{Prefix: newPrefix()}
			holdcontract.Run(t, holdcontract.Subject{
				Limiter: ration.New(open(t, newClient(t, p.Addr), opts), nil),
				Another: ration.New(open(t, newClient(t, srv.Addr), opts), nil),
				Trips:   p.Commands.Load,
				ByID:    2, // the keys of the reservation are read first
				Lose:    func(n int) { p.Lose.Store(int64(n)) },
				Lost:    p.Lost.Load,
			})
		})
	}
}

// TestHoldContractOnCluster has nobody between, who would have to know of MOVED.
func TestHoldContractOnCluster(t *testing.T) {
	t.Parallel()
	opts := &redisstore.Options{Prefix: newPrefix()}
	addrs := cluster(t).Addrs()[:3]
	holdcontract.Run(t, holdcontract.Subject{
		Limiter: ration.New(open(t, newClient(t, addrs...), opts), nil),
		Another: ration.New(open(t, newClient(t, addrs...), opts), nil),
	})
}
