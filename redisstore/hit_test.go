package redisstore_test

import (
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/hitcontract"
	"github.com/ration-go/ration/redisstore/internal/proxy"
)

func TestHitContract(t *testing.T) {
	t.Parallel()
	p := proxy.New(t, server(t, "redis").Addr)
	l := ration.New(open(t, newClient(t, p.Addr), nil), nil)
	hitcontract.Run(t, l, p.Calls.Load)
}

func TestHitContractOnCluster(t *testing.T) {
	t.Parallel()
	l := ration.New(open(t, newClient(t, cluster(t).Addrs()...), nil), nil)
	hitcontract.Run(t, l, nil)
}
