package redisstore_test

import (
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/hitcontract"
)

func TestHitContract(t *testing.T) {
	t.Parallel()
	p := newProxy(t, server(t, "redis").Addr)
	l := ration.New(open(t, newClient(t, p.addr), nil), nil)
	hitcontract.Run(t, l, p.calls.Load)
}

func TestHitContractOnCluster(t *testing.T) {
	t.Parallel()
	l := ration.New(open(t, newClient(t, cluster(t).Addrs()...), nil), nil)
	hitcontract.Run(t, l, nil)
}
