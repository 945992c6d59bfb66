package memstore

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

const (
	sweepAtOnce = 256     // rows under one lock
	sweepLeast  = 1 << 16 // rows in one step of the background sweep; an eighth of all, if that is more
)

// Sweep ends the holds that are due and removes states that have ended, at most max of both. now is the time for those that
// an injected clock changed last; for those of the process's clock it is that clock or now, whichever is earlier, so that
// nothing goes that still counts. It waits for a sweep that is under way, stops when ctx is done, with its error, and
// answers driver.ErrClosed after Close.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, max int) (dropped int, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	if s.closed.Load() {
		return 0, driver.ErrClosed
	}
	defer func() { s.noteSweep(dropped) }()
	wall, other := int64(s.clock.now()), s.injected.floor()
	if now != 0 {
		wall, other = min(wall, int64(now)), int64(now)
	}
	if dropped = s.sweepHolds(wall, other, max); dropped >= max {
		return dropped, nil
	}
	for range s.shards {
		if err := ctx.Err(); err != nil {
			return dropped, err
		}
		_, n := s.sweepShard(s.cursor, wall, other, max-dropped)
		if dropped += n; dropped >= max {
			break // and go on with what is left of this shard
		}
		s.cursor = (s.cursor + 1) % len(s.shards)
	}
	return dropped, nil
}

// sweepShard removes at most most ended rows, in short holds of the lock.
func (s *Store) sweepShard(num int, wall, other int64, most int) (seen, dropped int) {
	sh := &s.shards[num]
	for width, at := minWidth, 0; width <= maxWidth && dropped < most; {
		sh.mu.Lock()
		for range sweepAtOnce {
			t := sh.table(width)
			if t == nil || at >= t.end(width) {
				if t != nil {
					t.fit(width) // not before: places change
				}
				if width, at = width+widthStep, 0; width > maxWidth {
					break
				}
				continue
			}
			r := t.row(at, width)
			m := r.meta()
			if empty(m) {
				at += width
				continue
			}
			seen++
			now := wall
			if m&flagInjected != 0 {
				now = other
			}
			if r.expires() > now {
				at += width
				continue
			}
			s.drop(sh, t, at, width) // another row may be there now
			if dropped++; dropped == most {
				break
			}
		}
		sh.mu.Unlock()
	}
	return seen, dropped
}

// arm starts the background sweep, which runs as long as there is something to sweep. It is a timer and no goroutine of
// its own, so that a store which nobody closes costs nothing once it is empty.
func (s *Store) arm() {
	if s.armed.Swap(true) {
		return
	}
	s.timing.Lock()
	defer s.timing.Unlock()
	if !s.closed.Load() {
		s.timer = time.AfterFunc(s.every, s.tick)
	}
}

func (s *Store) tick() {
	s.step()
	if s.bytes.Load() > 0 {
		s.timing.Lock()
		defer s.timing.Unlock()
		if !s.closed.Load() {
			s.timer.Reset(s.every)
		}
		return
	}
	// A new key is counted before it looks whether a timer runs, so one of the two sees the other.
	s.armed.Store(false)
	if s.bytes.Load() > 0 {
		s.arm()
	}
}

// step is one step of the background sweep: all shards of a small store, a part of a large one, more of it as long as
// there is much to remove.
func (s *Store) step() {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	now := s.clock.now()
	s.injected.turn(now)
	wall, other := int64(now), s.injected.floor()
	removed := s.sweepHolds(wall, other, sweepLeast)
	defer func() { s.noteSweep(removed) }()
	rows := max(sweepLeast, int(s.keys.Load())/8)
	for range s.shards {
		if rows <= 0 || s.closed.Load() {
			return
		}
		seen, dropped := s.sweepShard(s.cursor, wall, other, math.MaxInt)
		removed += dropped
		if dropped*8 < seen {
			rows -= seen
		}
		s.cursor = (s.cursor + 1) % len(s.shards)
	}
}

// line is what is known of injected clocks: the lowest time they showed lately. A state of theirs has surely ended for all
// of them when it has ended by that time. Not the greatest: an injected clock may go back, and there may be several. Not
// the lowest of all time: nothing would ever be removed.
type line struct {
	low    atomic.Int64 // since turned; MaxInt64: no injected clock was used
	before atomic.Int64 // in the time before; 0: none was
	turned driver.Micros
}

const lately driver.Micros = 60 * 1e6

func (l *line) saw(now int64) {
	for low := l.low.Load(); now < low; low = l.low.Load() {
		if l.low.CompareAndSwap(low, now) {
			return
		}
	}
}

// floor is the lowest time of the last minute or two in which an injected clock was used.
func (l *line) floor() int64 { return min(l.before.Load(), l.low.Load()) }

// turn forgets the times before the last minute. While no injected clock is used, nothing is known of how they go on.
func (l *line) turn(now driver.Micros) {
	if low := l.low.Load(); low != math.MaxInt64 && (now-l.turned >= lately || now < l.turned) {
		if l.turned != 0 {
			l.before.Store(low)
			l.low.Store(math.MaxInt64)
		}
		l.turned = now
	}
}
