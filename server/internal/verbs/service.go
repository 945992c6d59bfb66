package verbs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/internal/activity"
)

// Service decides for all protocols. It is safe for concurrent use.
type Service struct {
	Limiter *ration.Limiter
	Store   driver.Store // the Limiter's own
	Info    driver.Info
	Timeout time.Duration // of what is asked of the Store itself
	// Activity is told of decisions; nil: nobody is.
	Activity *activity.Recorder

	limits atomic.Pointer[Limits] // configured, with overrides
	texts  texts

	building   sync.Mutex
	configured *Limits
	overrides  overrides
}

// New makes a Service on l and its store. It fails if a limit has no name, a name that another one has, or is invalid. A
// timeout of 0 or less is 5 s.
func New(l *ration.Limiter, store driver.Store, limits []ration.Rule, timeout time.Duration) (*Service, error) {
	if l == nil || store == nil {
		return nil, errors.New("a Limiter and its store are needed")
	}
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	s := &Service{Limiter: l, Store: store, Info: store.Info(), Timeout: timeout}
	named, err := NewLimits(limits)
	if err != nil {
		return nil, err
	}
	s.SetLimits(named)
	return s, nil
}

// Limits are the configured ones. They may change from one call to the next: a request that names several limits asks once.
func (s *Service) Limits() *Limits { return s.limits.Load() }

// SetLimits makes l the configured limits of requests from now on.
func (s *Service) SetLimits(l *Limits) {
	s.building.Lock()
	defer s.building.Unlock()
	l.keep(s.configured)
	s.configured = l
	s.build()
}

// Limit is what a request about key means by text, the name of one of the limits of l or a limit's text, and the name for the
// latter.
func (s *Service) Limit(l *Limits, key ration.Key, text string, name *string) (ration.Limit, error) {
	if !strings.Contains(text, " ") {
		limit, ok := l.asked[text]
		switch {
		case !ok:
			return nil, At("/limit", Problem(CodeUnknownLimit, "no limit of this name is configured; GET /v1/limits lists them, and a limit's text reads like \"bucket 10/1m burst 20\""))
		case name != nil:
			return nil, At("/limit", Problem(wire.CodeInvalidLimit, "a configured limit has its own name; leave out \"name\""))
		}
		if other := s.excepted(l, text, key); other != nil {
			return other, nil
		}
		return limit, nil
	}
	limit, err := s.texts.parse(text)
	if err != nil {
		return nil, At("/limit", err)
	}
	if name == nil || *name == "" {
		return limit, nil
	}
	return ration.Rule{Name: *name, Limit: limit}, nil
}

// Health asks the store for a count that nobody makes, and so leaves it as it is.
func (s *Service) Health(ctx context.Context) error {
	_, err := s.Probe(ctx)
	return err
}

// Probe is Health, and answers when that was by the store's clock; the zero Time if it did not say.
func (s *Service) Probe(ctx context.Context) (at time.Time, err error) {
	kind, ok := s.healthKind()
	if !ok {
		return at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	const second = 1_000_000
	t := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{{
		Key: driver.Key{Space: "|health||", ID: "health"}, Kind: kind, Size: 1, Rate: 1, Span: second, Cost: 1,
	}}}
	if err = wire.Check(t, &s.Info); err == nil {
		err = s.Store.Apply(ctx, []*driver.Txn{t})
	}
	if err == nil {
		err = t.Err
	}
	if err != nil {
		return at, notApplied(err)
	}
	return t.At.Time(), nil
}

// notApplied is err of what can have changed nothing.
func notApplied(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, driver.ErrNotApplied)
}

// healthKind is a kind that the store keeps and that needs no calendar.
func (s *Service) healthKind() (driver.Kind, bool) {
	switch {
	case s.Info.Caps.Has(driver.CapBucket):
		return driver.Bucket, true
	case s.Info.Caps.Has(driver.CapWindow):
		return driver.Window, true
	case s.Info.Caps.Has(driver.CapCounter):
		return driver.Counter, true
	}
	return 0, false
}
