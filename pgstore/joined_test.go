//go:build linux

package pgstore_test

import (
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/joincontract"
	"github.com/ration-go/ration/storetest"
)

// TestJoined runs the suite through calls that are joined.
func TestJoined(t *testing.T) {
	t.Parallel()
	h, _ := harness(t, server(t, 15).URL, nil)
	storetest.Run(t, joincontract.Joined(h))
}

// TestLeases has several pools, as of several processes.
func TestLeases(t *testing.T) {
	t.Parallel()
	url, schema := server(t, 15).URL, newSchema()
	openIn(t, newPool(t, url, nil), schema) // makes the tables
	joincontract.Leases(t, func(t *testing.T) driver.Store { return openIn(t, newPool(t, url, nil), schema) })
}
