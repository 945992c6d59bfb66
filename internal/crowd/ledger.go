package crowd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// ledger is what the processes have said. Its methods are safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	open    map[string]*record // not ended, as far as was said
	route   string             // what stands before an id where it is found
	settled amounts            // acknowledged, and what stays of what was cancelled
	debts   []debt
	faults  []string
	counts  map[act]int
	above   int // settled above the reservation
}

// record is one reservation.
type record struct {
	last     act // of reserving, held, reporting, settling and cancelling
	ret      bool
	costs    amounts
	reported amounts // acknowledged
	next     amounts // of reporting and settling
	debt     int     // of reporting and settling: index into debts; −1: none
}

// debt is what a settle or a report may have charged beyond the reservation, from its call to its answer.
type debt struct {
	from, to int64
	more     amounts
}

func newLedger() *ledger { return &ledger{open: map[string]*record{}, counts: map[act]int{}} }

// enter takes down what a process said.
func (l *ledger) enter(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[e.Act]++
	if e.Act == reserving {
		l.open[e.ID] = &record{last: reserving, ret: e.Return, costs: e.Amounts, debt: -1}
		return
	}
	r := l.open[e.ID]
	if r == nil {
		l.faults = append(l.faults, fmt.Sprintf("%s of %q, which nobody reserved", e.Act, e.ID))
		return
	}
	switch e.Act {
	case refused:
		delete(l.open, e.ID)
	case held:
		r.last, l.route = held, strings.TrimSuffix(e.Full, e.ID)
	case reporting, settling:
		r.last, r.next = e.Act, e.Amounts
		l.borrow(r, e.At)
	case cancelling:
		r.last = cancelling
	case reported:
		r.last, r.reported = held, r.next
		l.repaid(r, e.At)
	case ended:
		l.end(r)
		l.repaid(r, e.At)
		delete(l.open, e.ID)
	case wrong:
		l.faults = append(l.faults, e.ID+": "+e.Text)
	}
}

// borrow notes what r may charge beyond what it has charged, from now on.
func (l *ledger) borrow(r *record, at int64) {
	d := debt{from: at, to: math.MaxInt64}
	counted := r.kept() // at least, be it expired or not
	for i, n := range r.next {
		d.more[i] = max(0, n-counted[i])
	}
	r.debt = -1
	if d.more != (amounts{}) {
		r.debt = len(l.debts)
		l.debts = append(l.debts, d)
	}
	for i, n := range r.next {
		if r.last == settling && n > r.costs[i] {
			l.above++
			break
		}
	}
}

func (l *ledger) repaid(r *record, at int64) {
	if r.debt >= 0 {
		l.debts[r.debt].to = at
	}
}

// end adds what stays of r, whose end was acknowledged.
func (l *ledger) end(r *record) {
	if r.last == settling {
		l.settled.add(r.next)
	} else {
		l.settled.add(r.reported)
	}
}

// charged is what r counts while it is open.
func (r *record) charged() amounts {
	n := r.costs
	for i := range n {
		n[i] = max(n[i], r.reported[i])
	}
	return n
}

// kept is what stays of r when it has expired.
func (r *record) kept() amounts {
	if r.ret {
		return r.reported
	}
	return r.charged()
}

func (a *amounts) add(b amounts) {
	for i := range a {
		a[i] += b[i]
	}
}

// sample is one look at what a budget counts.
type sample struct {
	budget        int
	before, after int64 // Unix time in ns
	used          int64
}

// beyond reports the samples in which more counts than was allowed: while the room is used up nothing is admitted, so what
// is above it are debts of since the last moment when it was not.
func (l *ledger) beyond(samples []sample) (faults []string) {
	var within [budgets]int64 // start of the last sample within the room
	for _, s := range samples {
		if s.used <= room {
			within[s.budget] = s.before
			continue
		}
		allowed := int64(room)
		for _, d := range l.debts {
			if d.to >= within[s.budget] && d.from <= s.after {
				allowed += d.more[s.budget]
			}
		}
		if s.used > allowed {
			faults = append(faults, fmt.Sprintf("budget %d counted %d of %d, and debts explain only %d", s.budget, s.used, int64(room), allowed-room))
		}
	}
	return faults
}

// unsettled are the ids of what was not ended, as far as was said.
func (l *ledger) unsettled() []string {
	ids := make([]string, 0, len(l.open))
	for id := range l.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
