package redisstore_test

import (
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/storetest"
)

func TestStandalone(t *testing.T) {
	t.Parallel()
	srv := server(t, "redis")
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) driver.Store { return open(t, newClient(t, srv.Addr), nil) },
	})
}
