package ration

import (
	"time"

	"github.com/ration-go/ration/driver"
)

// A Decision was true in one step, at At by the store's clock. The zero Decision refuses.
type Decision struct {
	Allowed  bool   // charged (Take), or would have been (Peek)
	Never    bool   // the cost is greater than the limit: it can never pass
	Degraded bool   // answered by the outage policy, not by the store
	Name     string // of the Rule; "" for a bare limit

	Limit     int64 // the size: burst or limit
	Used      int64 // what counts against it after this call, rounded up; may exceed Limit after a debt or a lowered limit
	Remaining int64 // Limit − Used, at least 0

	// RetryAfter is how long until this cost would pass if nothing else happened; 0 if it passed. Who waits exactly that
	// long, alone, is admitted. If Never, it is the time in which the limit becomes unused.
	RetryAfter time.Duration
	// ResetAfter is how long until the limit is unused again if nothing more is taken: bucket full, last use over, window
	// over, period turned.
	ResetAfter time.Duration
	// At is the store's time of the decision, in UTC. Give it to Refund.
	At time.Time
}

// RetryAt is when this cost passes: At + RetryAfter.
func (d Decision) RetryAt() time.Time { return d.At.Add(d.RetryAfter) }

// ResetAt is when the limit is unused again: At + ResetAfter. To say "try again at", use RetryAt.
func (d Decision) ResetAt() time.Time { return d.At.Add(d.ResetAfter) }

// An Outcome answers several charges, made all or none. Its Decision is about charge Index: if refused, the refusal to
// wait longest for (one that can Never pass comes first); else the limit with the smallest part left.
type Outcome struct {
	Decision
	Index int
	Each  []Decision // in the order given; Allowed: it alone would have passed
}

// fill sets d to what op was answered at at.
func (d *Decision) fill(name string, op *driver.Op, at driver.Micros) {
	r := &op.Result
	d.Allowed, d.Never, d.Name = r.Allowed, r.Never, name
	d.Limit, d.Used = op.Size, r.Used
	d.Remaining = max(0, op.Size-r.Used)
	d.RetryAfter = r.RetryAfter.Duration()
	d.ResetAfter = (r.ResetAt - at).Duration()
	d.At = at.Time()
}
