package memstore

import (
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// single decides a Txn of one op by Take, Peek or Hit: what most calls are. It is list with all in one place, so that
// state and view stay on the stack. t.At is set.
func (s *Store) single(t *driver.Txn) {
	op := &t.Ops[0]
	num, tag := s.place(&op.Key)
	sh := &s.shards[num]
	need := s.evaluateOne(t, op, sh, tag)
	for range tries {
		if need == (room{}) {
			return
		}
		if !s.findRoom(t, []cell{{shard: num, tag: tag}}, need) {
			break
		}
		need = s.evaluateOne(t, op, sh, tag)
	}
	if need != (room{}) {
		refuseFull(t)
	}
}

// evaluateOne is evaluate for one op.
func (s *Store) evaluateOne(t *driver.Txn, op *driver.Op, sh *shard, tag uint32) (need room) {
	var lim arith.Limit
	if err := driver.LimitOf(op, &lim); err != nil {
		t.Err = err
		return room{}
	}
	hit := t.Verb == driver.Hit
	times := max(op.Times, 1)

	sh.mu.Lock()
	s.inOrder(sh, t)
	now := int64(t.At)
	var st arith.State
	r, flags := s.load(sh, &op.Key, tag, now, &st, sh.one[:])
	v, ok := arith.Open(&st, &lim, now)
	fit := int64(0)
	if hit {
		ok = v.Hit(op.Cost)
	} else if ok {
		fit = v.FitsTimes(op.Cost, times)
	}
	if !ok {
		sh.mu.Unlock()
		if t.Err = driver.ErrClock; hit {
			t.Err = driver.ErrOverflow
		}
		return room{}
	}
	write := op.Cost != 0 && (hit || t.Verb == driver.Take && fit > 0)
	if write {
		if r == nil || op.Kind == driver.Window {
			if need = s.admitOne(op, r != nil, now, &st); need != (room{}) {
				sh.mu.Unlock()
				return need
			}
			if r == nil {
				r = s.add(sh, &op.Key, tag)
			}
		}
		if hit {
			flags = flagHit
		} else {
			v.Charge(op.Cost * fit)
			answer(op, &v, fit == times)
			if flags = changed(op, flags); fit < times {
				flags |= flagRefused
			}
		}
		s.save(sh, r, &st, flags|injected(t))
	} else if !hit {
		answer(op, &v, fit == times)
		if fit < times && r != nil && t.Verb == driver.Take {
			r[atMeta] |= flagRefused
		}
	}
	t.Allowed = hit || fit == times
	op.Result.Allowed, op.Result.Times = t.Allowed, fit
	if hit {
		op.Result.Used, op.Result.ResetAt = v.Used(), driver.Micros(v.ResetAt())
	}
	sh.mu.Unlock()
	return room{}
}
