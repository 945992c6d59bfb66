package redisstore_test

import (
	"errors"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
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

// TestDamagedStateOfExpiredHold: a state that is not ours, to which an expired hold is to give back, is the trouble of those
// alone who need it.
func TestDamagedStateOfExpiredHold(t *testing.T) {
	t.Parallel()
	c := newClient(t, server(t, "redis").Addr)
	prefix := newPrefix()
	s := open(t, c, &redisstore.Options{Prefix: prefix})
	op := func(id string) driver.Op {
		return driver.Op{Key: driver.Key{Space: "|c||", Group: "g", ID: id}, Kind: driver.Counter, Size: 9, Span: 3600e6, Cost: 5}
	}
	const at driver.Micros = 1e15
	route := s.Route(op("").Key)
	id := "|" + route + ".a"
	apply(t, s, &driver.Txn{Verb: driver.Take, ID: id, Hold: true, Return: true, TTL: 1e6, Now: at, Ops: []driver.Op{op("k")}})
	command(t, c, "SET", prefix+"|c||{"+route+"}:g:k", "hello")
	end := &driver.Txn{Verb: driver.Settle, ID: id, Amounts: []int64{1}, Now: at + 2e6}
	other := &driver.Txn{Verb: driver.Take, Now: at + 2e6, Ops: []driver.Op{op("other")}}
	apply(t, s, end, other)
	if !errors.Is(end.Err, driver.ErrCorrupt) || other.Err != nil || !other.Allowed {
		t.Errorf("the settle answered %v, and a take beside it %v, %v", end.Err, other.Allowed, other.Err)
	}
	if _, err := s.Sweep(t.Context(), at+2e6, 10); err != nil {
		t.Error(err)
	}
}
