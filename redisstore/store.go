package redisstore

import (
	"fmt"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
)

// Options of [New]. The zero value and nil are the defaults.
type Options struct {
	Prefix string
	Tags   int
}

// Store is a driver.Store.
type Store struct {
	*redisscript.Store
}

// New is a Store over client.
func New(client rueidis.Client, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = redisscript.DefaultPrefix
	}
	if o.Tags == 0 {
		o.Tags = redisscript.DefaultTags
	}
	s, err := redisscript.New(rueidisClient{client}, redisscript.Config{Prefix: o.Prefix, Tags: o.Tags, Cluster: client.Mode() == rueidis.ClientModeCluster})
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return &Store{s}, nil
}

// Info is of driver.Store.
func (s *Store) Info() driver.Info {
	return driver.Info{Kind: "redis", Scope: driver.Network, Caps: driver.CapsRun | driver.CapsHolds, OneGroup: true, MaxBatch: 256, InFlight: 4}
}

// Close is of driver.Store.
func (s *Store) Close() error { return nil }
