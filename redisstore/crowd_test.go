package redisstore_test

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/redisstore"
)

// closing is a store that closes its client, too.
type closing struct {
	*redisstore.Store
	client rueidis.Client
}

func (c closing) Close() error {
	err := c.Store.Close()
	c.client.Close()
	return err
}

// openShared opens a store at "prefix addresses", that sweeps as it does by default.
func openShared(where string) (driver.Store, error) {
	prefix, addrs, _ := strings.Cut(where, " ")
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(addrs, ","), DisableCache: true})
	if err != nil {
		return nil, err
	}
	s, err := redisstore.New(c, &redisstore.Options{Prefix: prefix})
	if err != nil {
		c.Close()
		return nil, err
	}
	return closing{s, c}, nil
}

// TestCrowd: processes that reserve are killed.
func TestCrowd(t *testing.T) {
	t.Parallel()
	crowd.Run(t, newPrefix()+" "+server(t, "redis").Addr, openShared)
}

func TestCrowdOnValkey(t *testing.T) {
	t.Parallel()
	crowd.Run(t, newPrefix()+" "+server(t, "valkey").Addr, openShared)
}

func TestCrowdOnCluster(t *testing.T) {
	t.Parallel()
	crowd.Run(t, newPrefix()+" "+strings.Join(cluster(t).Addrs()[:3], ","), openShared)
}
