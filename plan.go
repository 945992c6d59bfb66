package ration

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
	"github.com/ration-go/ration/internal/calendar"
	"github.com/ration-go/ration/internal/instant"
)

// A plan is a limit made ready: checked, with its numbers as a store wants them and the Space of its keys. Making one
// costs microseconds, so the Limiter keeps those in use.
type plan struct {
	id  planID
	err error     // why the limit is invalid
	op  driver.Op // without key and cost
	cap driver.Caps
	cal *calendar.Calendar // Budget

	lease     int64 // the largest block; 0: not leased
	leaseLife time.Duration

	quick *instant.Bucket // Bucket: for a store that has a short way

	bounds atomic.Pointer[[4]driver.Micros] // Budget: around the time of the last call
}

// planID is a Limit as a comparable value.
type planID struct {
	name, zone       string
	size, n, lease   int64
	span             time.Duration
	month, day, hour int
	kind             driver.Kind
	period           Period
	onError          OnError
}

// idOf is limit as a value. It may only switch on types: a method call on limit, or a stored copy, would cost every
// caller of a verb an allocation.
func idOf(limit Limit) (id planID, ok bool) {
	if rule, isRule := limit.(Rule); isRule {
		id.name, id.onError, id.lease = rule.Name, rule.OnError, rule.Lease
		limit = rule.Limit
	}
	switch v := limit.(type) {
	case TokenBucket:
		id.kind, id.size, id.n, id.span = driver.Bucket, v.Burst, v.Refill.N, v.Refill.Per
	case SlidingWindow:
		id.kind, id.size, id.span = driver.Window, v.Limit, v.Window
	case FixedWindow:
		id.kind, id.size, id.span = driver.Counter, v.Limit, v.Window
	case Concurrency:
		id.kind, id.size, id.span = driver.Slots, v.Limit, v.Lease
	case Budget:
		id.kind, id.size, id.zone, id.period = driver.Budget, v.Limit, v.Zone, v.Period
		id.month, id.day, id.hour = int(v.Month), v.Day, v.Hour
	default:
		return id, false
	}
	return id, true
}

// limit is the Limit that id was made of.
func (id *planID) limit() Rule {
	r := Rule{Name: id.name, OnError: id.onError, Lease: id.lease}
	switch id.kind {
	case driver.Bucket:
		r.Limit = TokenBucket{id.size, Rate{id.n, id.span}}
	case driver.Window:
		r.Limit = SlidingWindow{id.size, id.span}
	case driver.Counter:
		r.Limit = FixedWindow{id.size, id.span}
	case driver.Slots:
		r.Limit = Concurrency{id.size, id.span}
	default:
		r.Limit = Budget{id.size, id.period, id.zone, time.Month(id.month), id.day, id.hour}
	}
	return r
}

func (id *planID) hash() uint64 {
	h := uint64(id.size)*0x9E3779B97F4A7C15 ^ uint64(id.span)*0xC2B2AE3D27D4EB4F ^ uint64(id.n)*0x165667B19E3779F9
	h ^= uint64(len(id.name))<<8 ^ uint64(id.kind)<<3 ^ uint64(id.period) ^ uint64(id.day)<<16
	if n := len(id.name); n > 0 {
		h ^= uint64(id.name[0])<<24 ^ uint64(id.name[n-1])<<32 ^ uint64(id.name[n/2])<<40
	}
	h *= 0xFF51AFD7ED558CCD
	return h >> 40
}

// plans keeps the plans in use: a small table, each plan in one of a few places by its hash, the older ones pushed out.
type plans struct {
	last  atomic.Pointer[plan] // one that is in use, to be looked at first
	table [1024]atomic.Pointer[plan]

	mu        sync.Mutex
	spaces    map[string]string // so that a Space is one and the same string each time
	calendars map[calendar.Spec]*calendar.Calendar
	next      uint64
}

const (
	planPlaces = 4
	// maxKept bounds what is kept of spaces and calendars. Both are few, unless a program makes names of its users' data.
	maxKept = 4096
)

func (l *Limiter) plan(limit Limit) (*plan, error) {
	if p := l.plans.last.Load(); p != nil && p.is(limit) {
		return p, p.err
	}
	id, ok := idOf(limit)
	if !ok {
		if rule, isRule := limit.(Rule); isRule {
			return nil, badLimit(rule.Limit)
		}
		return nil, badLimit(limit)
	}
	at := id.hash()
	for i := range uint64(planPlaces) {
		if p := l.plans.table[(at+i)%uint64(len(l.plans.table))].Load(); p != nil && p.id == id {
			if rand.Uint32()%64 == 0 { // now and then: several limits in use must not fight for the place
				l.plans.last.Store(p)
			}
			return p, p.err
		}
	}
	p := l.newPlan(id, at)
	return p, p.err
}

// is reports whether p is of limit. Like idOf it only switches on types.
func (p *plan) is(limit Limit) bool {
	name, onError, lease := "", OnError(0), int64(0)
	if rule, ok := limit.(Rule); ok {
		name, onError, lease, limit = rule.Name, rule.OnError, rule.Lease, rule.Limit
	}
	id := &p.id
	if id.name != name || id.onError != onError || id.lease != lease {
		return false
	}
	switch v := limit.(type) {
	case TokenBucket:
		return id.kind == driver.Bucket && id.size == v.Burst && id.n == v.Refill.N && id.span == v.Refill.Per
	case SlidingWindow:
		return id.kind == driver.Window && id.size == v.Limit && id.span == v.Window
	case FixedWindow:
		return id.kind == driver.Counter && id.size == v.Limit && id.span == v.Window
	}
	return false
}

func (l *Limiter) newPlan(id planID, at uint64) *plan {
	// The caller's strings may be parts of something large.
	id.name, id.zone = strings.Clone(id.name), strings.Clone(id.zone)
	p := &plan{id: id}
	rule := id.limit()
	p.err = rule.Validate()
	if p.err == nil {
		p.err = l.fill(p)
	}
	l.plans.mu.Lock()
	defer l.plans.mu.Unlock()
	l.plans.next++
	slot := at + l.plans.next%planPlaces
	for i := range uint64(planPlaces) {
		if l.plans.table[(at+i)%uint64(len(l.plans.table))].Load() == nil {
			slot = at + i
			break
		}
	}
	l.plans.table[slot%uint64(len(l.plans.table))].Store(p)
	return p
}

// fill completes p for a valid limit.
func (l *Limiter) fill(p *plan) (err error) {
	id, op := &p.id, &p.op
	op.Kind, op.Size = id.kind, id.size
	calendarText := ""
	switch id.kind {
	case driver.Bucket:
		p.cap = driver.CapBucket
		op.Rate, op.Span = id.n, micros(id.span)
		if op.Gain, op.Unit, op.Tick, err = driver.Units(op.Size, op.Rate, op.Span); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
		}
	case driver.Window:
		p.cap = driver.CapWindow
		op.Span = micros(id.span)
	case driver.Counter:
		p.cap = driver.CapCounter
		op.Span = micros(id.span)
	case driver.Slots:
		p.cap = driver.CapSlots
		op.Span = micros(id.span)
	case driver.Budget:
		p.cap = driver.CapBudget
		spec := id.limit().Limit.(Budget).spec().Normal()
		if p.cal, err = l.calendar(spec); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
		}
		calendarText = spec.String()
	}
	if id.lease > 0 && !l.info.Instant && l.opts.Clock == nil {
		if err := p.leaseOf(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
		}
	}
	if !l.info.Caps.Has(p.cap) {
		return fmt.Errorf("%w: the %s store does not keep this kind of limit", ErrUnsupported, l.info.Kind)
	}
	op.Key.Space = l.space(id.kind, id.name, calendarText)
	if l.memory != nil && id.kind == driver.Bucket {
		if quick, ok := l.memory.Bucket(op.Key.Space, op.Size, arith.Rate{Gain: op.Gain, Unit: op.Unit, Tick: int64(op.Tick)}); ok {
			p.quick = &quick
		}
	}
	return nil
}

func (l *Limiter) calendar(spec calendar.Spec) (*calendar.Calendar, error) {
	l.plans.mu.Lock()
	cal := l.plans.calendars[spec]
	l.plans.mu.Unlock()
	if cal != nil {
		return cal, nil
	}
	cal, err := calendar.New(spec)
	if err != nil {
		return nil, err
	}
	l.plans.mu.Lock()
	defer l.plans.mu.Unlock()
	if len(l.plans.calendars) < maxKept {
		l.plans.calendars[spec] = cal
	}
	return cal, nil
}

// space is namespace|kind|rule name|calendar. Only the namespace can hold a | or a %, and is escaped.
func (l *Limiter) space(kind driver.Kind, name, calendarText string) string {
	s := l.namespace + "|" + [...]string{driver.Bucket: "b", driver.Window: "w", driver.Counter: "c", driver.Budget: "m", driver.Slots: "s"}[kind] +
		"|" + name + "|" + calendarText
	l.plans.mu.Lock()
	defer l.plans.mu.Unlock()
	if same, ok := l.plans.spaces[s]; ok {
		return same
	}
	if len(l.plans.spaces) < maxKept {
		l.plans.spaces[s] = s
	}
	return s
}

func escapeNamespace(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7F || c == '|' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// boundsAt is the periods around at, as a store wants them.
func (p *plan) boundsAt(at driver.Micros) [4]driver.Micros {
	if b := p.bounds.Load(); b != nil && b[1] <= at && at < b[2] {
		return *b
	}
	b := boundsOf(p.cal, at)
	p.bounds.Store(&b)
	return b
}

// takeable is an error for slots, which have to be held.
func (p *plan) takeable() error {
	if p.id.kind == driver.Slots {
		return invalidf(ErrInvalidLimit, "a Concurrency limit has to be let go of: use Reserve, then Settle or Cancel")
	}
	return nil
}

// bound sets the Bounds of the budgets among ops to the periods around at.
func (l *Limiter) bound(ops []driver.Op, at driver.Micros) {
	for i := range ops {
		if ops[i].Kind != driver.Budget {
			continue
		}
		spec, err := calendar.Parse(ops[i].Key.Space[strings.LastIndexByte(ops[i].Key.Space, '|')+1:])
		if err != nil {
			continue
		}
		if cal, err := l.calendar(spec); err == nil {
			ops[i].Bounds = boundsOf(cal, at)
		}
	}
}

// rebound is ops with Bounds for now.
func (l *Limiter) rebound(ops []driver.Op) []driver.Op {
	ops = append([]driver.Op(nil), ops...)
	l.bound(ops, l.now())
	return ops
}

// ruleName is the rule's name in a Space.
func ruleName(space string) string {
	parts := strings.SplitN(space, "|", 4)
	if len(parts) < 4 {
		return ""
	}
	return parts[2]
}

func boundsOf(cal *calendar.Calendar, at driver.Micros) (b [4]driver.Micros) {
	for i, n := range cal.Bounds(int64(at)) {
		b[i] = driver.Micros(n)
	}
	return b
}

// ready sets op to p for one key and cost, at the caller's time.
func (l *Limiter) ready(op *driver.Op, p *plan, key Key, cost int64) {
	*op = p.op
	op.Key.Group, op.Key.ID = key.group, key.id
	if l.hashes {
		op.Key.ID = l.hashed('k', key.id)
		if key.group != "" {
			op.Key.Group = l.hashed('g', key.group)
		}
	}
	op.Cost = cost
	if p.cal != nil {
		op.Bounds = p.boundsAt(l.now())
	}
}

// hashed is HMAC-SHA-256 of s, apart for keys and groups.
func (l *Limiter) hashed(what byte, s string) string {
	h := hmac.New(sha256.New, l.opts.KeySecret)
	h.Write([]byte{what})
	h.Write([]byte(s))
	return string(h.Sum(nil))
}
