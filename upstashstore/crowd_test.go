package upstashstore_test

import (
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/upstashstore"
)

// openShared opens a store behind a gateway, that sweeps as it does by default.
func openShared(url string) (driver.Store, error) {
	return upstashstore.New(&upstashstore.Options{URL: url, Token: token}), nil
}

// TestCrowd: processes that reserve are killed.
func TestCrowd(t *testing.T) {
	t.Parallel()
	crowd.Run(t, newGateway(t, engines.Redis(t, nil).Addr).URL, openShared)
}
