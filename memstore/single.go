package memstore

import (
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// single decides a Txn of one op by Take, Peek or Hit: what most calls are. It is list with all in one place, so that
// state and view stay on the stack. t.At is set.
func (s *Store) single(t *driver.Txn) {
	op := &t.Ops[0]
	num, hash := s.place(&op.Key)
	sh := &s.shards[num]
	need := s.evaluateOne(t, op, sh, hash)
	for range tries {
		if need == (room{}) {
			return
		}
		if !s.findRoom(t, []cell{{shard: num, hash: hash}}, need) {
			break
		}
		need = s.evaluateOne(t, op, sh, hash)
	}
	if need != (room{}) {
		refuseFull(t)
	}
}

// evaluateOne is evaluate for one op.
func (s *Store) evaluateOne(t *driver.Txn, op *driver.Op, sh *shard, hash uint32) (need room) {
	var lim arith.Limit
	if err := driver.LimitOf(op, &lim); err != nil {
		t.Err = err
		return room{}
	}
	now, hit := int64(t.At), t.Verb == driver.Hit
	times := max(op.Times, 1)

	sh.mu.Lock()
	var st arith.State
	ref, flags := sh.load(op, hash, now, &st, sh.one[:])
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
		if ref == 0 || op.Kind == driver.Window {
			if need = s.admitOne(op, ref, now, &st); need != (room{}) {
				sh.mu.Unlock()
				return need
			}
			if ref == 0 {
				ref = sh.add(&op.Key, hash)
			}
		}
		if hit {
			flags = flagHit
		} else {
			v.Charge(op.Cost * fit)
			if flags = changed(op, flags, v.Used()); fit < times {
				flags |= flagRefused
			}
		}
		if t.Now != 0 {
			flags |= flagInjected
		}
		s.save(sh, ref, &st, flags)
	} else if fit < times && ref != 0 && t.Verb == driver.Take {
		sh.row(ref)[atFlags] |= flagRefused
	}
	t.Allowed = hit || fit == times
	if op.Result.Allowed = t.Allowed; hit {
		op.Result.Used, op.Result.ResetAt = v.Used(), driver.Micros(v.ResetAt())
	} else {
		if t.Verb == driver.Peek || t.Allowed || write {
			op.Result.Times = fit
		}
		answer(op, &v)
	}
	sh.mu.Unlock()
	return room{}
}
