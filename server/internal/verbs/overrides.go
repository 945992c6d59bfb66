package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// MaxOverrides is how many there can be in a namespace. Each server has them all in memory.
const MaxOverrides = 100_000

// wholeEvery is how often all are read anew: whatever got lost, in a fail-over or by a fault, is found then.
const wholeEvery = 10 * time.Minute

// firstRead is how long a start waits for the overrides.
const firstRead = 2 * time.Second

// overrides are those of a namespace, as this process knows them.
type overrides struct {
	docs  driver.Documents // nil: there can be none
	space string
	poll  time.Duration
	log   *slog.Logger

	reading sync.Mutex // one refresh at a time, which the next lines are for
	since   int64
	asked   time.Time // when the store answered last
	whole   time.Time // when all were read
	ends    time.Time // when the next one expires; zero: none does
	trouble bool      // was logged
	many    bool      // more than MaxOverrides; was logged

	mu    sync.Mutex
	byID  map[string]*Override // never changed, but replaced
	shift time.Duration        // the store's clock less this one
}

func (o *overrides) known() map[string]*Override {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID
}

// exception is an override made ready.
type exception struct {
	limit ration.Limit
	until time.Time
}

// OpenOverrides reads the overrides of the namespace, so far as the store answers within the Service's Timeout, and answers what
// keeps reading them, until its context is done: every poll, so that a change is in force everywhere within twice that. A poll of 0:
// there are no overrides. Call it before the first request.
func (s *Service) OpenOverrides(ctx context.Context, namespace string, poll time.Duration, log *slog.Logger) (follow func(context.Context)) {
	docs, ok := s.Store.(driver.Documents)
	if !ok || poll <= 0 {
		return func(context.Context) {}
	}
	o := &s.overrides
	o.docs, o.space, o.poll, o.log = docs, "overrides|"+url.QueryEscape(namespace), poll, log
	// A store that is down must not keep the server from its start.
	first, cancel := context.WithTimeout(ctx, firstRead)
	defer cancel()
	_ = s.refresh(first) // it logs
	return s.follow
}

func (s *Service) follow(ctx context.Context) {
	o := &s.overrides
	next := time.NewTimer(o.poll)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		wait := o.poll
		if err := s.refresh(ctx); errors.Is(err, driver.ErrNoDocuments) {
			wait = max(wait, 30*time.Second) // until somebody has migrated the store
		}
		next.Reset(wait)
	}
}

// refresh reads what has changed, and has decisions go by it.
func (s *Service) refresh(ctx context.Context) error {
	o := &s.overrides
	o.reading.Lock()
	defer o.reading.Unlock()
	changed, err := o.read(ctx, s.Timeout)
	switch {
	case err != nil && !o.trouble && !errors.Is(ctx.Err(), context.Canceled):
		o.trouble = true
		o.log.Warn("overrides cannot be read; those that are known stay in force", "error", err)
	case err == nil && o.trouble:
		o.trouble = false
		o.log.Info("overrides are read again")
	}
	if changed {
		s.rebuild()
	}
	return notApplied(err)
}

// page is one answer of the store.
func (o *overrides) page(ctx context.Context, since int64, timeout time.Duration) (driver.DocumentList, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return o.docs.DocumentsSince(ctx, o.space, since, driver.MaxDocuments)
}

// read asks the store for what is new. What it has understood before an error stays.
func (o *overrides) read(ctx context.Context, timeout time.Duration) (changed bool, err error) {
	now := time.Now()
	all, since := o.known(), o.since
	whole := now.Sub(o.asked) > driver.DocumentMark/2 || now.Sub(o.whole) > wholeEvery
	if whole {
		since, all = 0, map[string]*Override{}
	}
	for copied := whole; ; {
		l, err := o.page(ctx, since, timeout)
		if err != nil {
			return false, err
		}
		at := time.Now()
		if l.Last < since { // the store has lost some, or all
			since, all, whole, copied = 0, map[string]*Override{}, true, true
			if l.Last > 0 {
				continue
			}
		}
		if len(l.Documents) > 0 && !copied {
			all, copied = maps.Clone(all), true // the one before may be listed just now
		}
		for i := range l.Documents {
			o.note(all, &l.Documents[i], l.Now, at)
			since = l.Documents[i].Revision
		}
		if l.More {
			continue
		}
		changed = copied
		if copied || !o.ends.IsZero() && !at.Before(o.ends) {
			if !copied {
				all, changed = maps.Clone(all), true
			}
			o.ends = expire(all, at)
		}
		if o.since, o.asked = max(since, l.Last), at; whole {
			o.whole = at
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.byID, o.shift = all, time.Duration(int64(l.Now)-at.UnixMicro())*time.Microsecond
		return changed, nil
	}
}

// expire removes those of all that are over, and answers when the next one will be.
func expire(all map[string]*Override, at time.Time) (next time.Time) {
	for id, one := range all {
		switch {
		case one.over(at):
			delete(all, id)
		case !one.until.IsZero() && (next.IsZero() || one.until.Before(next)):
			next = one.until
		}
	}
	return next
}

// note adds a document to all, or removes what it marks as removed.
func (o *overrides) note(all map[string]*Override, d *driver.Document, now driver.Micros, at time.Time) {
	if len(d.Value) == 0 {
		delete(all, d.Name)
		return
	}
	if _, known := all[d.Name]; !known && len(all) >= MaxOverrides {
		if !o.many {
			o.log.Error("there are more overrides than a server keeps; further ones are not in force", "most", MaxOverrides)
		}
		o.many = true
		return
	}
	one, err := overrideOf(d, now, at)
	if err != nil {
		delete(all, d.Name)
		o.log.Warn("an override cannot be read, and is not in force", "error", err)
		return
	}
	all[d.Name] = one
}

// rebuild makes the limits of requests from now on of the configured ones and the overrides.
func (s *Service) rebuild() {
	s.building.Lock()
	defer s.building.Unlock()
	s.build()
}

// build is called with building locked, so that the last one has seen both of the last changes. Overrides of one limit by one
// text share what is decided by.
func (s *Service) build() {
	if s.configured == nil {
		return
	}
	next := *s.configured
	next.exceptions = map[string]map[[16]byte]exception{}
	type same struct{ limit, set string }
	made := map[same]ration.Limit{}
	for _, one := range s.overrides.known() {
		id := same{one.Limit, one.Set}
		limit, known := made[id]
		if !known {
			if rule, ok := next.rule(one.Limit); ok {
				limit, _ = overriding(rule, one.Set) // nil if it is of another kind now
			}
			made[id] = limit
		}
		if limit == nil {
			continue
		}
		of := next.exceptions[one.Limit]
		if of == nil {
			of = map[[16]byte]exception{}
			next.exceptions[one.Limit] = of
		}
		of[one.Fingerprint] = exception{limit, one.until}
	}
	s.limits.Store(&next)
}

// For is the limit of this name for key, with what overrides say.
func (s *Service) For(l *Limits, name string, key ration.Key) ration.Limit {
	if other := s.excepted(l, name, key); other != nil {
		limit, _ := untried(other)
		return limit
	}
	return l.Named(name)
}

// excepted is the limit for key in place of the one of this name; nil if there is no override.
func (s *Service) excepted(l *Limits, name string, key ration.Key) ration.Limit {
	of := l.exceptions[name]
	if len(of) == 0 {
		return nil
	}
	f, err := s.Limiter.Fingerprint(key)
	if err != nil {
		return nil // the verb says what is wrong
	}
	e, ok := of[f]
	if !ok || !e.until.IsZero() && !time.Now().Before(e.until) {
		return nil
	}
	if t := l.trials[name]; t != nil {
		return onTrial{e.limit.(ration.Rule), t}
	}
	return e.limit
}

// noOverrides is the error of a server that has none.
func (s *Service) noOverrides() error {
	if s.overrides.docs == nil {
		return fmt.Errorf("%w: this server keeps no overrides: its store cannot, or overrides.poll is 0s", ration.ErrUnsupported)
	}
	return nil
}

// overrideError is err of a store that was asked for documents.
func overrideError(err error) error {
	if errors.Is(err, driver.ErrNoDocuments) {
		return fmt.Errorf("%w: the store's schema has no place for overrides yet; migrate it (%w)", ration.ErrUnsupported, err)
	}
	return err
}

// target finds the limit and the fingerprint that an override is about.
func (s *Service) target(key ration.Key, limit string) (rule ration.Rule, f [16]byte, err error) {
	if err := s.noOverrides(); err != nil {
		return rule, f, err
	}
	if f, err = s.Limiter.Fingerprint(key); err != nil {
		return rule, f, At("/key", err)
	}
	rule, ok := s.Limits().rule(limit)
	if !ok {
		what := "no limit of this name is configured; GET /v1/limits lists them"
		if strings.Contains(limit, " ") {
			what = "this is the text of a limit; only configured ones, by their name, can be overridden"
		}
		return rule, f, At("/limit", Problem(CodeUnknownLimit, what))
	}
	return rule, f, nil
}

// SetOverride makes o, whose Limit, Set, Note and Key are given, the override of its limit for key, in place of one that there
// may be: for so long, or, if life is 0, until o.Expires, or for ever. It answers it as it is kept.
func (s *Service) SetOverride(ctx context.Context, key ration.Key, o Override, life time.Duration) (*Override, error) {
	rule, f, err := s.target(key, o.Limit)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, err
	}
	if _, err := overriding(rule, o.Set); err != nil {
		return nil, At("/override", err)
	}
	o.Fingerprint = f
	if err := s.refresh(ctx); err != nil { // it also tells the store's time
		return nil, overrideError(err)
	}
	now, known := s.overrides.state(o.ID())
	switch {
	case life > 0:
		o.Expires = now + driver.Micros(life.Microseconds())
	case o.Expires != 0 && o.Expires <= now:
		return nil, At("/expires_at_us", Problem(wire.CodeInvalidTime, "this is over already, by the store's clock"))
	}
	if o.Expires < 0 || o.Expires > driver.MaxNow {
		return nil, At("/expires_at_us", Problem(wire.CodeInvalidTime, "an override ends before 2155, or never"))
	}
	if known >= MaxOverrides {
		return nil, fmt.Errorf("%w: there are %d overrides, as many as there can be", driver.ErrFull, MaxOverrides)
	}
	d, err := o.document()
	if err != nil {
		return nil, err
	}
	put, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	revision, err := s.overrides.docs.PutDocument(put, s.overrides.space, d)
	if err != nil {
		return nil, overrideError(err)
	}
	o.Changed = driver.Micros(revision)
	_ = s.refresh(ctx) // else the next one: it is kept, whatever becomes of this
	return s.shown(&o), nil
}

// state is the store's time, and how many overrides there are beside the one of an id.
func (o *overrides) state(id string) (now driver.Micros, others int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	others = len(o.byID)
	if o.byID[id] != nil {
		others--
	}
	return driver.MicrosOf(time.Now().Add(o.shift)), others
}

// Override is the one of a limit for key.
func (s *Service) Override(ctx context.Context, key ration.Key, limit string) (*Override, error) {
	_, f, err := s.target(key, limit)
	if err != nil {
		return nil, err
	}
	if err := s.refresh(ctx); err != nil {
		return nil, overrideError(err)
	}
	id := Override{Limit: limit, Fingerprint: f}
	found := s.overrides.find(id.ID())
	if found == nil {
		return nil, Problem(CodeNoOverride, "this limit has no override for this key")
	}
	return s.shown(found), nil
}

// find is the override of an id; nil if there is none.
func (o *overrides) find(id string) *Override {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.byID[id]
	if one == nil || one.over(time.Now()) {
		return nil
	}
	return one
}

// shown is o with what depends on the limits that there are now.
func (s *Service) shown(o *Override) *Override {
	one := *o
	if rule, ok := s.Limits().rule(o.Limit); ok {
		_, err := overriding(rule, o.Set)
		one.Applies = err == nil
	}
	return &one
}

// RemoveOverride ends the override of a limit for key, and reports whether there was one.
func (s *Service) RemoveOverride(ctx context.Context, key ration.Key, limit string) (existed bool, err error) {
	if err := s.noOverrides(); err != nil {
		return false, err
	}
	f, err := s.Limiter.Fingerprint(key) // of a limit that is configured no more, too
	if err != nil {
		return false, At("/key", err)
	}
	one := Override{Limit: limit, Fingerprint: f}
	ending, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if existed, err = s.overrides.docs.DeleteDocument(ending, s.overrides.space, one.ID()); err != nil {
		return existed, overrideError(err)
	}
	_ = s.refresh(ctx) // else the next one
	return existed, nil
}

// Overrides are the first most of all, by id, of those after an id, and whether there are more.
func (s *Service) Overrides(ctx context.Context, after string, most int) (list []Override, more bool, err error) {
	if err := s.noOverrides(); err != nil {
		return nil, false, err
	}
	if err := s.refresh(ctx); err != nil {
		return nil, false, overrideError(err)
	}
	all, now := s.overrides.known(), time.Now()
	list, more, err = Page(func(yield func(Override, error) bool) {
		for _, one := range all {
			if !one.over(now) && !yield(*one, nil) {
				return
			}
		}
	}, (*Override).ID, after, most)
	for i := range list {
		list[i] = *s.shown(&list[i])
	}
	return list, more, err
}

// Within is how soon a change of an override is in force in every server.
func (s *Service) Within() time.Duration { return 2 * s.overrides.poll }
