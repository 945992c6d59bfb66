package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// Store is a driver.Store, a driver.Sweeper and a driver.HoldLister over an SQLite file. It is made by [New], and safe for concurrent use.
type Store struct {
	sync   Synchronous
	spaces spaces
	writes chan *job
	reads  chan *job // the same as writes, if there are no readers
	stop   chan struct{}
	close  sync.Once
	wg     sync.WaitGroup

	sweeps, swept atomic.Int64
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Sweeper    = (*Store)(nil)
	_ driver.HoldLister = (*Store)(nil)
	_ driver.Meter      = (*Store)(nil)
)

// New opens a Store on the file of db, and makes its tables if there are none. nil opts are the defaults.
//
// The store takes connections out of the pool of db and keeps them until Close: one, and up to [Options.Readers] more. It
// sets what it needs on them, and nothing on others. db stays the caller's, to be closed after the store.
//
// New waits, as long as ctx allows, while other processes hold the file. Its errors say what is wrong with the file;
// [ErrSchema] and [ErrNotShared] are two of them.
func New(ctx context.Context, db *sql.DB, opts *Options) (*Store, error) {
	o := opts.resolved()
	s := &Store{
		sync:   o.Synchronous,
		spaces: spaces{ids: make(map[string]int64)},
		writes: make(chan *job),
		stop:   make(chan struct{}),
	}
	if o.Synchronous > Normal {
		return nil, fmt.Errorf("sqlitestore: %d is not a value of Synchronous", o.Synchronous)
	}
	if limit := db.Stats().MaxOpenConnections; limit > 0 {
		o.Readers = min(o.Readers, limit-1)
	}
	var c *conn
	err := retry(ctx, s.stop, func() (err error) {
		if c, err = openConn(ctx, db, true, o.Synchronous); err != nil {
			return err
		}
		if err = prepareFile(ctx, c); err != nil {
			c.close()
		}
		return err
	})
	switch {
	case errors.Is(err, ErrSchema), errors.Is(err, ErrNotShared):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("sqlitestore: %w", explain(err))
	}

	s.start(&worker{db: db, writer: true, sync: o.Synchronous, jobs: s.writes, stop: s.stop, conn: c})
	s.reads = s.writes
	if o.Readers > 0 {
		s.reads = make(chan *job)
		for range o.Readers {
			s.start(&worker{db: db, sync: o.Synchronous, jobs: s.reads, stop: s.stop})
		}
	}
	if o.SweepEvery > 0 {
		s.wg.Go(func() { s.sweepAlways(o.SweepEvery) })
		s.wg.Go(func() { s.lapseAlways(min(o.SweepEvery, lapseEvery)) })
	}
	return s, nil
}

func (s *Store) start(w *worker) { s.wg.Go(w.loop) }

// Info is of driver.Store.
func (s *Store) Info() driver.Info {
	return driver.Info{
		Kind:     "sqlite",
		Scope:    driver.Machine,
		Durable:  s.sync == Full,
		Caps:     driver.CapsRun | driver.CapsHolds,
		MaxBatch: 256,
		InFlight: 1,
	}
}

// Close ends the background work and gives back the connections. It waits for what is under way. A second call does
// nothing.
func (s *Store) Close() error {
	s.close.Do(func() { close(s.stop) })
	s.wg.Wait()
	return nil
}

// Apply is of driver.Store. A batch is decided in one transaction of SQLite, at the clock of this machine, read inside the
// transaction. It waits for the locks of other processes as long as ctx allows.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	t := newTable(&s.spaces, batch)
	if readsOnly(batch) {
		return s.do(ctx, s.reads, func(c *conn, j *job) error { return s.read(c, j, t, batch) })
	}
	return s.do(ctx, s.writes, func(c *conn, j *job) error { return s.write(c, j, t, batch) })
}

// do has work done by one of the workers that listen to queue.
func (s *Store) do(ctx context.Context, queue chan<- *job, work func(c *conn, j *job) error) error {
	if err := ctx.Err(); err != nil {
		return notApplied(err)
	}
	j := &job{ctx: ctx, stop: s.stop, work: work, done: make(chan struct{})}
	select {
	case queue <- j:
	case <-ctx.Done():
		return notApplied(ctx.Err())
	case <-s.stop:
		return driver.ErrClosed
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return j.leave()
	}
}

// readsOnly reports whether nothing in batch can change a state.
func readsOnly(batch []*driver.Txn) bool {
	for _, txn := range batch {
		switch txn.Verb {
		case driver.Peek:
		case driver.Take, driver.Hit:
			for i := range txn.Ops {
				if txn.Ops[i].Cost != 0 {
					return false
				}
			}
			if txn.ID != "" {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (s *Store) write(c *conn, j *job, t *table, batch []*driver.Txn) error {
	if err := c.begin(j); err != nil {
		return notApplied(err)
	}
	if err := t.load(c); err != nil {
		c.undo()
		return notApplied(err)
	}
	if !j.claim() {
		c.undo()
		return notApplied(context.Cause(j.ctx))
	}
	err := t.decide(now(), batch)
	changed := err == nil && t.changed()
	j.release(changed)
	if !changed {
		c.undo()
		return notApplied(err)
	}
	if err := t.save(); err != nil {
		c.undo()
		return notApplied(err)
	}
	if err := c.commit(); err != nil {
		return err
	}
	s.spaces.add(t.fresh)
	return nil
}

// read answers from one moment of the file: the state of all keys as one statement sees it, or one transaction.
func (s *Store) read(c *conn, j *job, t *table, batch []*driver.Txn) error {
	err := retry(j.ctx, j.stop, func() error {
		if _, err := c.run(snapshot, 0); err != nil {
			return err
		}
		err := t.load(c)
		c.undo()
		return err
	})
	if err != nil {
		return notApplied(err)
	}
	s.spaces.add(t.fresh)
	if !j.claim() {
		return notApplied(context.Cause(j.ctx))
	}
	defer j.release(false)
	return notApplied(t.decide(now(), batch))
}

func now() driver.Micros { return driver.MicrosOf(time.Now()) }
