package server_test

import (
	"testing"

	"github.com/ration-go/ration/client"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
)

func openClient(url string) (driver.Store, error) { return client.New(url, nil) }

// TestCrowd: a server keeps reservations in its memory, and clients of it are killed.
func TestCrowd(t *testing.T) {
	t.Parallel()
	crowd.Run(t, serve(t, t.TempDir(), "--store", "memory:").url, openClient)
}
