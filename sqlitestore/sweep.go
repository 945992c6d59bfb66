package sqlitestore

import (
	"context"
	"database/sql"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ration-go/ration/driver"
)

// sweepStep is how many rows one step looks at: a fraction of a millisecond to read, a few to delete.
const sweepStep = 512

// gone is true of a row that may be removed: ?1 is the server's clock, ?2 the injected one.
const gone = `(expires + lag <= ?1 OR lag <> 0 AND expires <= ?2)`

var (
	sweepEnd   = &form{before: `SELECT key FROM ration_states WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?`}
	sweepLast  = &form{before: `SELECT max(key) FROM ration_states`}
	sweepCount = &form{before: `SELECT count(*) FROM ration_states WHERE key > ?3 AND key <= ?4 AND ` + gone}
	sweepCut   = &form{before: `SELECT key FROM ration_states WHERE key > ?3 AND key <= ?4 AND ` + gone + ` ORDER BY key LIMIT 1 OFFSET ?5`}
	sweepDrop  = &form{before: `DELETE FROM ration_states WHERE key > ?3 AND key <= ?4 AND ` + gone}

	// A value after now was written by a clock that has gone back since.
	sweepDue   = &form{before: `SELECT value <= ?1 - ?2 OR value > ?1 FROM ration_meta WHERE name = 'sweep'`}
	sweepClaim = &form{before: `UPDATE ration_meta SET value = ?1 WHERE name = 'sweep' AND (value <= ?1 - ?2 OR value > ?1)`}
)

// sweeping is a walk over ration_states in the order of keys.
type sweeping struct {
	server, injected driver.Micros // the clocks to go by
	from, to         []byte        // the step: keys after from, up to to
	count            int           // rows in it that may be removed
	last             bool
}

// Sweep is of driver.Sweeper. It ends the holds that are due, and then removes rows. With now 0 it does what the background
// passes do. Another now is a time of an injected clock: what was last written at such a clock is due or removed if it is by
// then, and the rest if it is by both clocks.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, max int) (dropped int, err error) {
	always := func(time.Duration) bool { return true }
	if dropped, err = s.sweepHolds(ctx, now, max, always); err != nil || dropped >= max {
		return dropped, err
	}
	n, err := s.sweep(ctx, now, max-dropped, always)
	if err == nil && now == 0 {
		err = s.sweepDocuments(ctx, always)
	}
	return dropped + n, err
}

// sweep calls pause after each step with the time it took, and ends early if that answers false.
func (s *Store) sweep(ctx context.Context, injected driver.Micros, most int, pause func(time.Duration) bool) (dropped int, err error) {
	w := &sweeping{from: []byte{}}
	s.sweeps.Add(1)
	defer func() { s.swept.Add(int64(dropped)) }()
	for dropped < most && !w.last {
		started := time.Now()
		w.server, w.injected = now(), -1
		if injected != 0 {
			w.server, w.injected = min(w.server, injected), injected
		}
		if err := s.do(ctx, s.reads, w.look); err != nil || w.to == nil {
			return dropped, err
		}
		if w.count > 0 {
			n := 0
			err := s.do(ctx, s.writes, func(c *conn, j *job) (err error) {
				n, err = w.drop(c, j, most-dropped)
				return err
			})
			if err != nil {
				return dropped, err
			}
			dropped += n
		}
		if w.from = w.to; !pause(time.Since(started)) {
			break
		}
	}
	return dropped, nil
}

// look finds the end of a step, and how many rows in it are to go. w.to is nil if there are no rows left.
func (w *sweeping) look(c *conn, j *job) error {
	err := retry(j.ctx, j.stop, func() (err error) {
		if w.to, err = c.key(sweepEnd, w.from, sweepStep-1); err != nil {
			return err
		}
		if w.last = w.to == nil; w.last {
			if w.to, err = c.key(sweepLast); err != nil || w.to == nil {
				return err
			}
		}
		return c.each(sweepCount, 0, w.args(), func(rows *sql.Rows) error { return rows.Scan(&w.count) })
	})
	return notApplied(err)
}

func (w *sweeping) args() []any {
	return []any{int64(w.server), int64(w.injected), w.from, w.to}
}

// drop removes the rows that are to go, at most so many.
func (w *sweeping) drop(c *conn, j *job, most int) (int, error) {
	if err := c.begin(j); err != nil {
		return 0, notApplied(err)
	}
	args := w.args()
	if w.count > most {
		key, err := c.key(sweepCut, append(args, most-1)...)
		if err != nil {
			c.undo()
			return 0, notApplied(err)
		}
		if key != nil {
			args[3] = key
		}
	}
	n, err := c.run(sweepDrop, 0, args...)
	if err != nil || n == 0 {
		c.undo()
		return 0, notApplied(err)
	}
	return int(n), c.commit()
}

// key is the key that form finds, or nil.
func (c *conn) key(f *form, args ...any) (key []byte, err error) {
	err = c.each(f, 0, args, func(rows *sql.Rows) error { return rows.Scan(&key) })
	return key, err
}

// sweepAlways makes a pass whenever no process has begun one for so long. A process that lives for seconds only does its
// part too.
func (s *Store) sweepAlways(every time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	next := time.NewTimer(min(every, time.Second))
	defer next.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-next.C:
		}
		if mine, err := s.claimSweep(ctx, every); err == nil && mine {
			// An error ends the pass; whatever it is, callers are told of it too.
			_, _ = s.sweep(ctx, 0, math.MaxInt, s.pause)
			_ = s.sweepDocuments(ctx, s.pause)
		}
		next.Reset(every + rand.N(every/8+1))
	}
}

// pause leaves three quarters of the time to callers.
func (s *Store) pause(took time.Duration) bool {
	t := time.NewTimer(min(3*took, 100*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// claimSweep reports whether the next pass is this process's.
func (s *Store) claimSweep(ctx context.Context, every time.Duration) (mine bool, err error) {
	at, span := int64(now()), every.Microseconds()
	due := false
	err = s.do(ctx, s.reads, func(c *conn, j *job) error {
		return c.each(sweepDue, 0, []any{at, span}, func(rows *sql.Rows) error { return rows.Scan(&due) })
	})
	if err != nil || !due {
		return false, err
	}
	err = s.do(ctx, s.writes, func(c *conn, j *job) error {
		if err := c.begin(j); err != nil {
			return err
		}
		n, err := c.run(sweepClaim, 0, at, span)
		if mine = n > 0; err != nil || !mine {
			c.undo()
			return err
		}
		return c.commit()
	})
	return mine, err
}
