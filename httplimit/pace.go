package httplimit

import (
	"net/http"
	"sync"
	"time"
)

// pace is what one server has told one caller, and what that caller sent it since.
type pace struct {
	mu      sync.Mutex
	changed chan struct{} // closed when there is news
	paused  time.Time     // the server wants to be left alone until then
	refused int           // answers in a row that were refusals without a time
	sent    uint64
	quotas  []quotaLeft
}

type quotaLeft struct {
	quota
	until  time.Time
	number uint64 // of the request whose answer told it
}

// Hints are about the next hour at most: they come in many dialects, and one of them misread should not be a stop for days.
const longestHint = time.Hour

// admit counts a request that may be sent now, and answers its number; or for how long it may not, and where news come.
func (p *pace) admit(now time.Time) (number uint64, wait time.Duration, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.wait(now); wait > 0 {
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		return 0, wait, p.changed
	}
	for i := range p.quotas {
		p.quotas[i].left -= p.quotas[i].cost
	}
	p.sent++
	return p.sent, 0, nil
}

// wait is how long nothing may be sent. It forgets what is over.
func (p *pace) wait(now time.Time) time.Duration {
	wait := p.paused.Sub(now)
	current := p.quotas[:0]
	for _, q := range p.quotas {
		if !q.until.After(now) {
			continue
		}
		current = append(current, q)
		if q.left < max(1, q.cost) {
			wait = max(wait, q.until.Sub(now))
		}
	}
	p.quotas = current
	return max(0, wait)
}

// waits is how long nothing may be sent.
func (p *pace) waits(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait(now)
}

// hear takes in the answer to a request. again says that the server refused it for now, rather than for good.
func (p *pace) hear(number uint64, status int, h http.Header, now time.Time) (again bool) {
	qs := heard(h, now)
	after, told := parseRetryAfter(h, now)
	refusal := status == http.StatusTooManyRequests
	told = told && (refusal || status == http.StatusServiceUnavailable || status == http.StatusForbidden) // 403: of GitHub, for one
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.wake()
	for _, q := range qs {
		p.note(number, q, now)
	}
	if !refusal && !told {
		p.refused = 0
		return false
	}
	switch {
	case told:
		// It says exactly what the others tell about.
		p.quotas = p.quotas[:0]
		p.refused = 0
		p.pause(now.Add(after))
	case p.wait(now) > 0:
		p.refused = 0
	default:
		p.refused++
		p.pause(now.Add(min(time.Second<<min(p.refused-1, 10), maxBackoff)))
	}
	return refusal || status == http.StatusServiceUnavailable
}

// note takes in one quota of an answer, unless a later request was told of it before.
func (p *pace) note(number uint64, q quota, now time.Time) {
	q.left -= int64(p.sent-number) * q.cost // what was sent after this request is not in its answer, or may not be
	next := quotaLeft{q, now.Add(min(q.reset, longestHint)), number}
	for i := range p.quotas {
		if old := &p.quotas[i]; old.name == q.name {
			if number > old.number {
				*old = next
			}
			return
		}
	}
	if len(p.quotas) < maxQuotas {
		p.quotas = append(p.quotas, next)
	}
}

const maxQuotas = 64

const maxBackoff = 30 * time.Second

func (p *pace) pause(until time.Time) {
	if until.After(p.paused) {
		p.paused = until
	}
}

func (p *pace) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// idle reports whether nothing is known that matters.
func (p *pace) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait(now) == 0 && len(p.quotas) == 0
}

// paces are those of all servers, by whose answers go together.
type paces struct {
	mu sync.Mutex
	by map[string]*pace
}

// maxPaces is how many servers and callers are kept apart.
const maxPaces = 4096

func (ps *paces) of(scope string, now time.Time) *pace {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.by[scope]; p != nil {
		return p
	}
	if ps.by == nil {
		ps.by = map[string]*pace{}
	}
	if len(ps.by) >= maxPaces {
		for s, p := range ps.by {
			if p.idle(now) {
				delete(ps.by, s)
			}
		}
		for s := range ps.by { // any one
			if len(ps.by) < maxPaces {
				break
			}
			delete(ps.by, s)
		}
	}
	p := new(pace)
	ps.by[scope] = p
	return p
}
