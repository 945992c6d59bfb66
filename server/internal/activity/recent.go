package activity

import (
	"time"

	"github.com/ration-go/ration"
)

// Bounds of the last decisions: of each second a shard keeps so many, and of all so many as its ring has.
const (
	ringSize         = 32
	refusedPerSecond = 4 // failures too
	allowedPerSecond = 1
)

// recent is the ring of a shard's last decisions. Under load it holds a sample: the first few of each second.
type recent struct {
	ring    [ringSize]event
	next    int
	second  int64
	kept    [2]int // in that second: allowed, others
	leftOut int64
}

type event struct {
	row   *row // nil: none
	key   ration.Key
	since time.Duration
	cost  int64
	how   outcome
	d     shown
}

// shown is what is kept of a decision.
type shown struct {
	never, degraded bool
	limit, used     int64
	retryAfter      time.Duration
}

func (r *recent) add(since time.Duration, row *row, key ration.Key, cost int64, how outcome, d *ration.Decision) {
	if now := int64(since / time.Second); now != r.second {
		r.second, r.kept = now, [2]int{}
	}
	kind, most := 1, refusedPerSecond
	if how == allowed {
		kind, most = 0, allowedPerSecond
	}
	if r.kept[kind] >= most {
		r.leftOut++
		return
	}
	r.kept[kind]++
	e := &r.ring[r.next%ringSize]
	r.next++
	*e = event{row: row, key: key, since: since, cost: cost, how: how}
	if d != nil {
		e.d = shown{d.Never, d.Degraded, d.Limit, d.Used, d.RetryAfter}
	}
}

func (r *recent) forget(key ration.Key) {
	for i := range r.ring {
		if r.ring[i].key == key {
			r.ring[i] = event{}
		}
	}
}
