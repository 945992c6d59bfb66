package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
)

// Store is a driver.Store over a PostgreSQL database. It is made by [New], and safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	schema string
	opts   Options
	log    *slog.Logger
	mode   pgx.QueryExecMode
	spaces spaces

	statements       [forms]string
	sweep, due, open string
	documents        documentCalls

	isolate atomic.Bool // the database's default isolation level is not read committed
	plain   atomic.Bool // prepared statements do not outlive a transaction here

	stop  context.CancelFunc
	close sync.Once
	wg    sync.WaitGroup

	sweeps, swept atomic.Int64
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Sweeper    = (*Store)(nil)
	_ driver.HoldLister = (*Store)(nil)
	_ driver.Meter      = (*Store)(nil)
)

// New is a Store over the database of pool. nil opts are the defaults.
//
// It looks whether the schema is there, and creates it if not (see [Options].NoMigrate). The pool stays the caller's, to be
// closed after the store.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	o := opts.resolved()
	v, err := installed(ctx, pool, o.Schema)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	if v < version {
		if o.NoMigrate && v < countsVersion {
			return nil, fmt.Errorf("%w: schema %q has version %d, and version %d is needed", ErrSchema, o.Schema, v, version)
		}
		if !o.NoMigrate {
			err = Migrate(ctx, pool, &o)
		}
		if err != nil && (v < countsVersion || !mayNotCreate(err)) {
			return nil, err
		}
		if o.NoMigrate || err != nil {
			o.Logger.Warn("pgstore: the schema is of an older version, without documents; have a role that may create tables migrate it",
				"schema", o.Schema, "version", v, "needed", version)
		}
	}
	s := &Store{
		pool: pool, schema: pgx.Identifier{o.Schema}.Sanitize(), opts: o, log: o.Logger,
		mode: execMode(pool.Config().ConnConfig.DefaultQueryExecMode),
	}
	for i, sql := range functions {
		s.statements[i] = fmt.Sprintf(sql, s.schema)
	}
	s.sweep = "SELECT " + s.schema + ".ration_sweep_v1($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::boolean)"
	s.due = "SELECT reply, names FROM " + s.schema + ".ration_due_v1($1::bigint, $2::bigint)"
	s.open = "SELECT reply, names FROM " + s.schema + ".ration_open_v1($1::bytea, $2::bigint)"
	s.documents = documentCallsOf(s.schema)
	sweeping, stop := context.WithCancel(context.Background())
	s.stop = stop
	if o.SweepEvery > 0 {
		s.wg.Go(func() { s.sweepAlways(sweeping, o.SweepEvery) })
	}
	return s, nil
}

// Info is of driver.Store.
func (s *Store) Info() driver.Info {
	return driver.Info{
		Kind:     "postgres",
		Scope:    driver.Network,
		Durable:  true,
		Caps:     driver.CapsRun | driver.CapsHolds,
		MaxBatch: 256,
		InFlight: 4,
	}
}

// Close ends the background work and waits for it. The pool stays open. A second call does nothing.
func (s *Store) Close() error {
	s.close.Do(s.stop)
	s.wg.Wait()
	return nil
}

// Apply is of driver.Store. A batch is one statement, which is one transaction of the database and one round trip, at the
// clock of the database.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	q := newRequest(batch, &s.spaces)
	clock := int64(driver.MicrosOf(time.Now()))
	if len(q.txns) > 0 {
		p, err := s.call(ctx, s.statements[q.form], append(q.args, q.lax, lockTime{})...)
		if err != nil {
			return fmt.Errorf("pgstore: %w", err)
		}
		if err := p.answer(q); err != nil {
			return fmt.Errorf("pgstore: %w", err)
		}
		if clock = p.clock; p.wrote {
			s.spaces.add(q.fresh)
		}
	}
	for _, t := range batch {
		if t.At == 0 {
			if t.At = driver.Micros(clock); t.Now != 0 {
				t.At = t.Now
			}
		}
	}
	return nil
}

// spaces are those of which this process knows that the database keeps them.
type spaces struct {
	mu  sync.RWMutex
	set map[string]struct{}
}

func (s *spaces) has(space string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.set[space]
	return ok
}

func (s *spaces) add(all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[string]struct{})
	}
	for _, space := range all {
		s.set[space] = struct{}{}
	}
}

// clear forgets all: the database may be another one now.
func (s *spaces) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = nil
}
