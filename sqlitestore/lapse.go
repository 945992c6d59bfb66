package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ration-go/ration/driver"
)

const (
	lapseEvery = time.Second // the longest time between two looks for what is due
	holdStep   = 256         // records in one step
	lapseStep  = 32          // holds in one step that expire: each has up to 64 states
	listStep   = 512         // records in one page of a list
)

// line is a time line, and how to find on it the records with which something is to be done, the earliest first: of two
// holds that give back to one state, the later one may find it full.
type line struct{ look, list *form }

func newLine(where, order string) *line {
	return &line{
		&form{before: `SELECT EXISTS (SELECT 1 FROM ration_holds WHERE ` + where + `)`},
		&form{before: `SELECT id, expires, due, lag, CASE due WHEN 0 THEN NULL ELSE record END FROM ration_holds WHERE ` + where +
			` ORDER BY ` + order + `, id LIMIT ?`},
	}
}

var (
	serverLine   = newLine(`next <= ?`, `next`)
	injectedLine = newLine(`lag <> 0 AND next - lag <= ?`, `next - lag`)

	listHolds = &form{before: `SELECT id, lag, CASE due WHEN 0 THEN NULL ELSE record END FROM ration_holds WHERE id > ? ORDER BY id LIMIT ?`}
)

// sweepHolds ends the holds that have expired and removes records past their end, at most so many. It calls pause after
// each step with the time it took, and ends early if that answers false.
func (s *Store) sweepHolds(ctx context.Context, injected driver.Micros, most int, pause func(time.Duration) bool) (done int, err error) {
	defer func() { s.swept.Add(int64(done)) }()
	for _, l := range []*line{serverLine, injectedLine} {
		for done < most && (injected != 0 || l == serverLine) {
			started, at := time.Now(), now()
			if l == injectedLine {
				at = injected
			} else if injected != 0 {
				at = min(at, injected)
			}
			if due, err := s.anyDue(ctx, l, at); err != nil {
				return done, err
			} else if !due {
				break
			}
			n := 0
			err := s.do(ctx, s.writes, func(c *conn, j *job) (err error) {
				n, err = s.lapse(c, j, l, at, most-done)
				return err
			})
			if err != nil {
				return done, err
			}
			if done += n; !pause(time.Since(started)) {
				return done, nil
			}
			if n == 0 {
				break // another process was faster
			}
		}
	}
	return done, nil
}

// anyDue looks without the lock that writers wait for.
func (s *Store) anyDue(ctx context.Context, l *line, at driver.Micros) (bool, error) {
	due := false
	err := s.do(ctx, s.reads, func(c *conn, j *job) error {
		return notApplied(retry(j.ctx, j.stop, func() error {
			return c.each(l.look, 0, []any{int64(at)}, func(rows *sql.Rows) error { return rows.Scan(&due) })
		}))
	})
	return err == nil && due, err // after an error the job may still be under way
}

// lapse is one step, in a transaction of its own.
func (s *Store) lapse(c *conn, j *job, l *line, at driver.Micros, most int) (done int, err error) {
	if err := c.begin(j); err != nil {
		return 0, notApplied(err)
	}
	t := newTable(&s.spaces, nil)
	t.c, t.now = c, now()
	done, err = t.lapse(l, at, most)
	if err == nil && done > 0 {
		err = t.save()
	}
	if err != nil || done == 0 {
		c.undo()
		return 0, notApplied(err)
	}
	if err := c.commit(); err != nil {
		return 0, err
	}
	s.spaces.add(t.fresh)
	return done, nil
}

// lapse does what is due on l at the given time, at most so much, and answers how much it did.
func (t *table) lapse(l *line, at driver.Micros, most int) (done int, err error) {
	lapsing := 0
	err = t.c.each(l.list, 0, []any{int64(at), min(most, holdStep)}, func(rows *sql.Rows) error {
		h := &hold{}
		if err := rows.Scan(&h.id, &h.expires, &h.due, &h.lag, &h.blob); err != nil {
			return err
		}
		if h.due != 0 {
			lapsing++
		}
		if lapsing <= lapseStep {
			t.addHold(h)
			t.wantOps(h)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := t.fetch(t.order); err != nil {
		return 0, err
	}
	for _, h := range t.held {
		if h.due == 0 {
			h.dirty = true
		} else if err := t.lapseHold(h, l, at); err != nil {
			return 0, err
		}
	}
	return len(t.held), nil
}

func (t *table) lapseHold(h *hold, l *line, at driver.Micros) error {
	if l == serverLine {
		at -= h.lag
	}
	if t.lag = 0; h.lag != 0 {
		t.lag = lagOf(t.now, at)
	}
	err := driver.Lapse(t, at, h.id)
	if err != nil && !errors.Is(err, driver.ErrNotApplied) {
		return err
	}
	if !h.dirty { // the record, or a state, cannot be read. It is not tried for ever.
		h.expires, h.due, h.dirty = h.due+driver.EndedFor, 0, true
	}
	return nil
}

// lapseAlways looks all the time: a pass over the states may come rarely and last for long. Each process looks, so that the
// end of one is not noticed; looking costs little.
func (s *Store) lapseAlways(every time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	next := time.NewTimer(every)
	defer next.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-next.C:
		}
		// An error ends the round; whatever it is, callers are told of it too.
		_, _ = s.sweepHolds(ctx, 0, math.MaxInt, s.pause)
		next.Reset(every - rand.N(every/4+1))
	}
}

// Holds is of driver.HoldLister. It reads the file in pages, so holds that begin or end meanwhile are in the list or not. A
// record that cannot be read is an error with the hold's ID; the list goes on after it.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		for after := ""; ; {
			page, err := s.holdsAfter(ctx, after)
			if err != nil {
				yield(driver.Hold{}, err)
				return
			}
			for _, h := range page {
				if after = h.id; h.blob == nil {
					continue
				}
				at := now()
				if h.lag != 0 {
					at = 0
				}
				decoded, open, err := driver.DecodeHold(h.id, h.blob, at)
				if err != nil {
					decoded, open, err = driver.Hold{ID: h.id}, true, fmt.Errorf("sqlitestore: the record of a hold: %w", err)
				}
				if open && !yield(decoded, err) {
					return
				}
			}
			if len(page) < listStep {
				return
			}
		}
	}
}

// holdsAfter is a page of the records; those of no open hold have no blob.
func (s *Store) holdsAfter(ctx context.Context, id string) ([]hold, error) {
	var page []hold
	err := s.do(ctx, s.reads, func(c *conn, j *job) error {
		return notApplied(retry(j.ctx, j.stop, func() error {
			page = nil
			return c.each(listHolds, 0, []any{[]byte(id), listStep}, func(rows *sql.Rows) error {
				var h hold
				err := rows.Scan(&h.id, &h.lag, &h.blob)
				page = append(page, h)
				return err
			})
		}))
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}
