package ration

import (
	"sync"
	"sync/atomic"
	"time"
)

// refusals remember for a moment what the store refused, so that an attack costs it nothing.
type refusals struct {
	life time.Duration // 0: nothing is remembered

	mu    sync.RWMutex
	young map[leaseKey]remembered
	old   map[leaseKey]remembered // from before the last turn
	turn  time.Time

	repeated atomic.Int64
}

type remembered struct {
	d     Decision
	cost  int64
	until time.Time
	sent  time.Time
}

// mostRefusals are remembered at a time, twice.
const mostRefusals = 1 << 16

// knows answers d if the store would surely refuse.
func (rs *refusals) knows(p *plan, key Key, cost int64, d *Decision) bool {
	k := leaseKey{p, key.group, key.id}
	rs.mu.RLock()
	r, ok := rs.young[k]
	if !ok {
		r, ok = rs.old[k]
	}
	rs.mu.RUnlock()
	if !ok || cost < r.cost || cost > r.d.Limit {
		return false
	}
	now := time.Now()
	if !now.Before(r.until) {
		return false
	}
	*d = r.d
	gone := now.Sub(r.sent).Truncate(time.Microsecond) // so that RetryAt is never before its time
	d.At = d.At.Add(gone)
	d.RetryAfter -= gone
	d.ResetAfter = max(0, d.ResetAfter-gone)
	rs.repeated.Add(1)
	return true
}

// note remembers a refusal by the store, which was asked at sent.
func (rs *refusals) note(p *plan, key Key, cost int64, d *Decision, sent time.Time) {
	if d.Allowed || d.Never || d.Degraded || d.RetryAfter <= 0 {
		return
	}
	k := leaseKey{p, key.group, key.id}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if sent.Sub(rs.turn) > rs.life {
		rs.old, rs.young, rs.turn = rs.young, map[leaseKey]remembered{}, sent
	}
	if r, ok := rs.young[k]; !ok && len(rs.young) >= mostRefusals || ok && r.cost < cost && sent.Before(r.until) {
		return
	}
	// The store decided after sent, so it passes after that at the earliest.
	rs.young[k] = remembered{*d, cost, sent.Add(min(d.RetryAfter, rs.life)), sent}
}

// forget forgets all of it: there may be room again.
func (rs *refusals) forget() {
	if rs.life == 0 {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	clear(rs.young)
	clear(rs.old)
}
