package upstashstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/internal/joincontract"
	"github.com/ration-go/ration/storetest"
)

// TestJoined runs the suite through calls that are joined.
func TestJoined(t *testing.T) {
	t.Parallel()
	g := newGateway(t, engines.Redis(t, nil).Addr)
	var names sync.Map
	openAt := func(t testing.TB, prefix string) driver.Store {
		s := open(t, g, prefix)
		names.Store(driver.Store(s), prefix)
		return s
	}
	storetest.Run(t, joincontract.Joined(storetest.Harness{
		Open: func(t testing.TB) driver.Store { return openAt(t, fmt.Sprintf("j%d:", prefixes.Add(1))) },
		Again: func(t testing.TB, s driver.Store) driver.Store {
			prefix, _ := names.Load(s)
			return openAt(t, prefix.(string))
		},
	}))
}

func TestLeases(t *testing.T) {
	t.Parallel()
	g := newGateway(t, engines.Redis(t, nil).Addr)
	joincontract.Leases(t, func(t *testing.T) driver.Store { return open(t, g, "leases:") })
}
