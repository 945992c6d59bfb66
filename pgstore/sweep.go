package pgstore

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ration-go/ration/driver"
)

// A step of a sweep reads half a megabyte and removes few enough rows that a caller who takes from one of them waits some
// milliseconds at most.
const (
	sweepPages = 64
	sweepRows  = 100
)

// sweepLapses is how many holds are ended by one batch.
const sweepLapses = 50

// sweepPass is the shortest time in which the background sweep reads a whole table.
const sweepPass = time.Minute

// Sweep is of driver.Sweeper. With now 0 it removes what the background rounds remove. Another now is a time of an injected
// clock: rows last written at such a clock are removed if they have expired by then, and the others if they have expired by
// both clocks. Its steps are transactions of their own, so an error leaves those before it done.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, most int) (dropped int, err error) {
	if dropped, err = s.lapse(ctx, now, most); err != nil {
		return dropped, err
	}
	for _, part := range []string{"states", "holds"} {
		for page := int64(0); dropped < most; {
			step, err := s.sweepStep(ctx, part, now, page, min(most-dropped, sweepRows), false)
			if err != nil {
				return dropped, err
			}
			dropped += step.rows
			if page = step.page; page == 0 && step.rows < sweepRows {
				break
			}
		}
	}
	return dropped, nil
}

// step is what one step of a sweep did.
type step struct {
	rows int
	page int64 // the next one, or 0
	busy bool  // another process sweeps, and nothing was done
}

func (s *Store) sweepStep(ctx context.Context, part string, now driver.Micros, page int64, most int, alone bool) (step, error) {
	p, err := s.call(ctx, s.sweep, part, int64(now), page, int64(sweepPages), int64(most), alone)
	if err != nil {
		return step{}, err
	}
	nums := p.take(3)
	if nums == nil {
		return step{}, errReply
	}
	if nums[2] == 0 {
		s.sweeps.Add(1)
		s.swept.Add(nums[0])
	}
	return step{rows: int(nums[0]), page: nums[1], busy: nums[2] != 0}, nil
}

// lapse ends at most so many holds that have expired.
func (s *Store) lapse(ctx context.Context, now driver.Micros, most int) (ended int, err error) {
	defer func() { s.swept.Add(int64(ended)) }()
	for ended < most {
		p, err := s.call(ctx, s.due, int64(now), int64(min(most-ended, sweepLapses)))
		if err != nil {
			return ended, err
		}
		if len(p.names) == 0 || len(p.nums) != len(p.names) {
			return ended, nil
		}
		batch := make([]*driver.Txn, len(p.names))
		for i, id := range p.names {
			batch[i] = &driver.Txn{Verb: lapse, ID: string(id)}
			if p.nums[i] != 0 {
				batch[i].Now = now
			}
		}
		if err := s.Apply(ctx, batch); err != nil {
			return ended, err
		}
		before := ended
		for _, t := range batch {
			if t.Err == nil && t.Allowed {
				ended++
			}
		}
		if ended == before {
			break // others were faster, or it cannot be helped
		}
	}
	return ended, nil
}

// sweepAlways makes rounds until ctx is done: in each it ends the holds that are due, and walks on through the tables.
func (s *Store) sweepAlways(ctx context.Context, every time.Duration) {
	walks := []*walk{{part: "states"}, {part: "holds"}}
	failures := 0
	next := time.NewTimer(rand.N(every))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := s.sweepRound(ctx, walks, every)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
		} else if failures++; failures == 3 { // once is a lost connection
			s.log.Warn("pgstore: sweeping fails; expired rows stay until it works again", "error", err)
		}
		next.Reset(every + rand.N(every/8+1))
	}
}

// walk is where the background sweep of one table stands.
type walk struct {
	part  string
	page  int64
	pages int64 // read in this pass
	size  int64 // of the last pass, in pages
}

func (s *Store) sweepRound(ctx context.Context, walks []*walk, every time.Duration) error {
	limit, cancel := context.WithTimeout(ctx, max(10*every, 10*time.Second))
	defer cancel()
	if _, err := s.lapse(limit, 0, math.MaxInt); err != nil {
		return err
	}
	for _, w := range walks {
		if err := s.walk(limit, w, every); err != nil {
			return err
		}
	}
	return nil
}

// walk reads on through a table: as much as makes a pass of sweepPass, and further as long as it finds rows to remove.
func (s *Store) walk(ctx context.Context, w *walk, every time.Duration) error {
	share := w.size/max(1, int64(sweepPass/every)) + 1
	for read := int64(0); read < share; {
		began := time.Now()
		step, err := s.sweepStep(ctx, w.part, 0, w.page, sweepRows, true)
		if ctx.Err() != nil {
			return nil // the next round goes on
		}
		if err != nil || step.busy {
			return err
		}
		if step.rows == 0 {
			read += sweepPages
		}
		w.pages += sweepPages
		if w.page = step.page; w.page == 0 {
			w.size, w.pages = w.pages, 0
			if step.rows < sweepRows {
				return nil
			}
		}
		// Most of the time is the callers'.
		pause(ctx, min(3*time.Since(began), 100*time.Millisecond))
	}
	return nil
}
