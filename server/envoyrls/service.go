package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/activity"
	"github.com/ration-go/ration/server/internal/verbs"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Options of a Service. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Headers, if not nil, are added to responses.
	Headers *Headers
	// DynamicMetadata sends domain, descriptors, and quotas that were exceeded along with the answer.
	DynamicMetadata bool
	// Shadow makes every answer OK. What is counted stays the same.
	Shadow bool
	// Quota makes every rule one of quota_mode.
	Quota bool
	// Logger is told of the store's trouble, without keys; default slog.Default().
	Logger *slog.Logger
	// Timeout of what is asked of the store itself; default 5 s. The Limiter has its own.
	Timeout time.Duration
	// Activity is told of decisions. It is the server's own; default nil: nobody is told.
	Activity *activity.Recorder
}

// Headers are the names of headers that Envoy adds to the response, each a number of the tightest limit. "" is the default
// in its comment.
type Headers struct {
	Limit     string // RateLimit-Limit
	Remaining string // RateLimit-Remaining
	Reset     string // RateLimit-Reset: in seconds, rounded up
}

// Service is Envoy's rate limit service. Its methods are safe for concurrent use.
type Service struct {
	rlsv3.UnimplementedRateLimitServiceServer

	opts     Options
	verbs    *verbs.Service
	failures *verbs.Failures
	state    atomic.Pointer[state]
	calls    sync.Pool // of *call
}

// state is what Update changes.
type state struct {
	config   *Config
	detailed detailed
}

// New makes a Service on l, which decides, and store, which is l's own. Close l only when no call is under way any more.
func New(l *ration.Limiter, store driver.Store, cfg *Config, opts *Options) (*Service, error) {
	if cfg == nil {
		return nil, errors.New("envoyrls: New needs a Config")
	}
	s := &Service{calls: sync.Pool{New: func() any { return new(call) }}}
	if opts != nil {
		s.opts = *opts
	}
	if h := s.opts.Headers; h != nil {
		filled := Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
		for _, one := range []struct{ to, from *string }{{&filled.Limit, &h.Limit}, {&filled.Remaining, &h.Remaining}, {&filled.Reset, &h.Reset}} {
			if *one.from != "" {
				*one.to = *one.from
			}
		}
		s.opts.Headers = &filled
	}
	var err error
	if s.verbs, err = verbs.New(l, store, nil, s.opts.Timeout); err != nil {
		return nil, fmt.Errorf("envoyrls: %w", err)
	}
	s.verbs.Activity = s.opts.Activity
	s.failures = verbs.NewFailures(s.opts.Logger)
	s.state.Store(&state{config: cfg})
	return s, nil
}

// Update makes cfg the configuration of calls from now on. Counts stay: those of a rule whose unit changed begin anew. Stats
// begin anew.
func (s *Service) Update(cfg *Config) { s.state.Store(&state{config: cfg}) }

// Bounds of a request.
const (
	maxDescriptors = driver.MaxOps // what one decision may charge
	maxEntries     = 64            // of a descriptor
)

// ShouldRateLimit decides a request. A refusal is OVER_LIMIT; an error means that nobody could tell: INVALID_ARGUMENT if the
// request is wrong, else UNAVAILABLE, and then Envoy does what its failure_mode_deny says.
func (s *Service) ShouldRateLimit(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	if r.GetDomain() == "" {
		return nil, status.Error(codes.InvalidArgument, "the domain is empty")
	}
	if n := len(r.GetDescriptors()); n < 1 || n > maxDescriptors {
		return nil, status.Errorf(codes.InvalidArgument, "%d descriptors are not between 1 and %d", n, maxDescriptors)
	}
	if err := access.Allow(ctx, access.Take, "envoy/"+r.GetDomain()); err != nil {
		return nil, access.Status(err)
	}
	c := s.calls.Get().(*call)
	defer func() {
		*c = call{} // keys are not kept
		s.calls.Put(c)
	}()
	if err := c.prepare(s, r); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := c.decide(ctx); err != nil {
		return nil, s.failed(ctx, err)
	}
	return c.answer(r), nil
}

// failed is err of a decision as an answer.
func (s *Service) failed(ctx context.Context, err error) error {
	code := wire.CodeOf(err)
	switch code {
	case wire.CodeInvalidKey, wire.CodeInvalidLimit, wire.CodeInvalidCost, wire.CodeCrossGroup:
		return status.Error(codes.InvalidArgument, wire.Explain(err))
	}
	s.failures.Failed(ctx, code, err, "protocol", "envoy")
	return status.Error(codes.Unavailable, wire.Explain(err))
}

// call is one request on its way.
type call struct {
	s        *Service
	apart    bool
	items    []item
	refused  bool
	first    [2]item // room for most requests
	violated []int   // quotas that were exceeded, while the request passes
}

// item is one descriptor of a request.
type item struct {
	rule     *rule // nil: no limit
	key      ration.Key
	cost     int64
	back     bool // is given back, not charged
	shadow   bool
	quota    bool
	asked    bool // d is about it
	d        ration.Decision
	counters *counters
}

// charged reports whether i is to be charged, whatever it decides.
func (i *item) charged() bool { return i.rule != nil && !i.rule.unlimited && !i.back }

// enforced reports whether i refuses by itself.
func (i *item) enforced() bool { return i.charged() && !i.shadow && !i.quota }

// prepare finds the rules of a request.
func (c *call) prepare(s *Service, r *rlsv3.RateLimitRequest) error {
	c.s = s
	if n := len(r.Descriptors); n <= len(c.first) {
		c.items = c.first[:n]
	} else {
		c.items = make([]item, n)
	}
	for i, descriptor := range r.Descriptors {
		if n := len(descriptor.GetEntries()); n > maxEntries {
			return fmt.Errorf("descriptors[%d]: %d entries are more than %d", i, n, maxEntries)
		}
	}
	state := s.state.Load()
	d := state.config.domains[r.Domain]
	if d == nil {
		return nil
	}
	c.apart = d.apart
	group := s.verbs.Info.OneGroup && !d.apart
	for i, descriptor := range r.Descriptors {
		if err := s.item(&c.items[i], state, d, r, descriptor, group); err != nil {
			return fmt.Errorf("descriptors[%d]: %w", i, err)
		}
	}
	c.replace()
	return nil
}

func (s *Service) item(one *item, state *state, d *domain, r *rlsv3.RateLimitRequest, descriptor *commonv3.RateLimitDescriptor, group bool) (err error) {
	if len(descriptor.GetEntries()) == 0 {
		return errors.New("no entries")
	}
	if o := descriptor.GetLimit(); o != nil {
		if one.rule, err = override(o); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "ration: "))
		}
	} else if one.rule = d.find(descriptor.GetEntries()); one.rule == nil {
		return nil
	}
	rule := one.rule
	if rule.counters != nil {
		one.counters = state.detailed.of(rule, descriptor.GetEntries())
	}
	if one.cost, err = cost(r, descriptor); err != nil {
		return err
	}
	one.back = descriptor.GetIsNegativeHits()
	one.shadow = rule.shadow
	one.quota = !rule.shadow && (rule.quota || s.opts.Quota && descriptor.GetLimit() == nil)
	one.key = d.keyOf(descriptor.GetEntries(), rule, group)
	return nil
}

// cost is how many hits a descriptor adds.
func cost(r *rlsv3.RateLimitRequest, descriptor *commonv3.RateLimitDescriptor) (int64, error) {
	hits := uint64(max(1, r.GetHitsAddend()))
	if own := descriptor.GetHitsAddend(); own != nil {
		hits = own.GetValue()
	}
	if hits > math.MaxInt64 || int64(hits) > ration.MaxCount {
		return 0, fmt.Errorf("%d hits are more than 2^53 − 1", hits)
	}
	return int64(hits), nil
}

// replace takes out the limits that others in the request replace. What is replaced replaces too.
func (c *call) replace() {
	var names []string
	for i := range c.items {
		if r := c.items[i].rule; r != nil {
			names = append(names, r.replaces...)
		}
	}
	for i := range c.items {
		if r := c.items[i].rule; r != nil && r.name != "" && slices.Contains(names, r.name) {
			c.items[i] = item{}
		}
	}
}
