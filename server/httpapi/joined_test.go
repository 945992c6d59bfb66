package httpapi_test

import (
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/joincontract"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/storetest"
)

// TestClientJoined runs the suite through calls to a server that are joined.
func TestClientJoined(t *testing.T) {
	t.Parallel()
	storetest.Run(t, joincontract.Joined(storetest.Harness{
		Open:  func(t testing.TB) driver.Store { return serve(t, memstore.New(nil)) },
		Again: again,
	}))
}

// TestClientLeases has several clients of one server.
func TestClientLeases(t *testing.T) {
	t.Parallel()
	first := serve(t, memstore.New(nil))
	joincontract.Leases(t, func(t *testing.T) driver.Store { return again(t, first) })
}
