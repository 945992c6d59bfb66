package upstashstore

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
)

// Options of [New]. The zero value and nil are the defaults.
type Options struct {
	// URL of the database's REST API. Default: the environment variable UPSTASH_REDIS_REST_URL, else KV_REST_API_URL, read
	// when the store is used first.
	URL string

	// Token of the database's REST API, which may write. Default: the environment variable UPSTASH_REDIS_REST_TOKEN, else
	// KV_REST_API_TOKEN, read when the store is used first. It is in no error.
	Token string

	// Prefix begins the name of every key. Default "ration:". Two stores of one prefix share all counts.
	Prefix string

	// HTTPClient sends the requests. Default http.DefaultClient. Redirections are not followed. No timeout is needed: each
	// request ends with its context.
	HTTPClient *http.Client

	// SweepEvery is the time between two rounds that end expired reservations, by whichever process makes them. A round is
	// one request, and only processes that hold reservations make rounds. Default a second; below zero: none are made, and
	// somebody calls [Store.Sweep].
	SweepEvery time.Duration
}

// Store is a driver.Store over Upstash Redis. It is made by [New], and safe for concurrent use.
type Store struct {
	core *redisscript.Store
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Sweeper    = (*Store)(nil)
	_ driver.HoldLister = (*Store)(nil)
	_ driver.Router     = (*Store)(nil)
	_ driver.Checker    = (*Store)(nil)
	_ driver.Meter      = (*Store)(nil)
)

// New is a Store over a database of Upstash. nil opts are the defaults. Nothing is read or sent before its first use, so it
// works where the URL and token are not known yet; without them, the first use fails.
func New(opts *Options) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	return &Store{redisscript.New(newClient(&o), redisscript.Config{Prefix: o.Prefix, SweepEvery: o.SweepEvery, Lazy: true})}
}

// Info is of driver.Store.
func (s *Store) Info() driver.Info {
	return driver.Info{
		Kind:     "upstash",
		Scope:    driver.Network,
		Caps:     driver.CapsRun | driver.CapsHolds,
		OneGroup: true,
		MaxBatch: 128,
		InFlight: 4,
	}
}

// Apply is of driver.Store. A batch is one script call, which is one request.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := s.core.Apply(ctx, batch); err != nil {
		return fmt.Errorf("upstashstore: %w", err)
	}
	return nil
}

// Route is of driver.Router.
func (s *Store) Route(k driver.Key) string { return s.core.Route(k) }

// Sweep is of driver.Sweeper. It ends reservations that have expired.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, most int) (dropped int, err error) {
	dropped, err = s.core.Sweep(ctx, now, most)
	if err != nil {
		err = fmt.Errorf("upstashstore: %w", err)
	}
	return dropped, err
}

// Holds is of driver.HoldLister. Reservations that begin or end meanwhile are in the list or not.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] { return s.core.Holds(ctx) }

// Figures is of driver.Meter. Only reservations are swept; everything else expires by itself.
func (s *Store) Figures() driver.Figures { return s.core.Figures() }

// Check is of driver.Checker.
func (s *Store) Check(ctx context.Context) []driver.Finding { return s.core.Check(ctx) }

// Close ends the background work and waits for it. A second call does nothing.
func (s *Store) Close() error { return s.core.Close() }
