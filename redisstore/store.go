package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
)

// Store is a driver.Store over Redis. It is made by [New], [Open] or package goredis, and safe for concurrent use.
type Store struct {
	core    *redisscript.Store
	cluster bool
	durable bool
	owned   func() // closes the client, if it is the store's
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Sweeper    = (*Store)(nil)
	_ driver.HoldLister = (*Store)(nil)
	_ driver.Router     = (*Store)(nil)
	_ driver.Checker    = (*Store)(nil)
	_ driver.Meter      = (*Store)(nil)
)

// New is a Store over client: of one server, of Sentinel or of a Cluster. nil opts are the defaults.
//
// The client stays the caller's, to be closed after the store. It must not have ClientOption.ConnLifetime, SendToReplicas or
// ReplicaOnly. New asks the server nothing, unless Options.Durable is set.
func New(client rueidis.Client, opts *Options) (*Store, error) {
	o := opts.resolved()
	c := rueidisClient{client, o.WaitReplicas, o.WaitTimeout}
	return Over(c, client.Mode() == rueidis.ClientModeCluster, opts)
}

// Over is for package goredis: nobody else can make its client.
func Over(client redisscript.Client, cluster bool, opts *Options) (*Store, error) {
	o := opts.resolved()
	if err := redisscript.CheckTags(o.Tags); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	core := redisscript.New(client, redisscript.Config{Prefix: o.Prefix, Tags: o.Tags, Cluster: cluster, SweepEvery: o.SweepEvery, Replicas: o.WaitReplicas})
	s := &Store{core: core, cluster: cluster}
	if o.Durable {
		if err := s.checkDurable(o.WaitReplicas); err != nil {
			return nil, errors.Join(fmt.Errorf("redisstore: not durable: %w", err), core.Close())
		}
		s.durable = true
	}
	return s, nil
}

// checkTime is how long New may ask servers.
const checkTime = 5 * time.Second

func (s *Store) checkDurable(replicas int) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	nodes := s.core.Inspect(ctx)
	if len(nodes) == 0 {
		return errors.New("no node answers")
	}
	for _, n := range nodes {
		switch {
		case n.Err != nil:
			return fmt.Errorf("%s: %w", n.Addr, n.Err)
		case n.Replica:
		case !n.AppendOnly || !n.FsyncAll:
			return fmt.Errorf("%s does not have appendonly yes and appendfsync always", n.Addr)
		case n.Evicts:
			return fmt.Errorf("%s may evict keys: maxmemory-policy is not noeviction", n.Addr)
		case n.Replicas > replicas:
			return fmt.Errorf("%s has %d replicas, which may take over without what was charged; WaitReplicas is %d", n.Addr, n.Replicas, replicas)
		}
	}
	return nil
}

// Info is of driver.Store.
func (s *Store) Info() driver.Info {
	inFlight := 3 // one is on its way to the server, which decides another, and one is on its way back; more are only smaller
	if s.cluster {
		inFlight = 4
	}
	return driver.Info{
		Kind:     "redis",
		Scope:    driver.Network,
		Durable:  s.durable,
		Caps:     driver.CapsRun | driver.CapsHolds,
		OneGroup: true,
		MaxBatch: 128,
		InFlight: inFlight,
	}
}

// Apply is of driver.Store. A batch is one script call, which is one round trip; on a Cluster one for each place in it, all
// at a time.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := s.core.Apply(ctx, batch); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// Route is of driver.Router.
func (s *Store) Route(k driver.Key) string { return s.core.Route(k) }

// Sweep is of driver.Sweeper. It ends reservations that have expired.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, most int) (dropped int, err error) {
	dropped, err = s.core.Sweep(ctx, now, most)
	if err != nil {
		err = fmt.Errorf("redisstore: %w", err)
	}
	return dropped, err
}

// Holds is of driver.HoldLister. Reservations that begin or end meanwhile are in the list or not.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] { return s.core.Holds(ctx) }

// Figures is of driver.Meter. Only reservations are swept; everything else expires by itself.
func (s *Store) Figures() driver.Figures { return s.core.Figures() }

// Check is of driver.Checker. It asks every node for its version, its memory policy, what it writes to disk, its replicas and
// the state of the cluster.
func (s *Store) Check(ctx context.Context) []driver.Finding { return s.core.Check(ctx) }

// Close ends the background work and waits for it. The client stays open, unless [Open] made it. A second call does nothing.
func (s *Store) Close() error {
	err := s.core.Close()
	if s.owned != nil {
		s.owned()
	}
	return err
}
