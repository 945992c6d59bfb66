package grpcapi

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Options of the service. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Limits are those that requests can name. Each has a name of its own.
	Limits []ration.Rule
	// Logger is told of the store's trouble, without keys; default slog.Default().
	Logger *slog.Logger
	// Timeout of what is asked of the store itself (health, lists); default 5 s. The Limiter has its own.
	Timeout time.Duration
	// Decide is what several protocols of one server share; nil: the service has its own. Only package server can make one. Its
	// limits go before Limits.
	Decide *verbs.Service
}

// New makes the service on l, which decides, and store, which is l's own. It fails if a limit has no name, a name that
// another one has, or is invalid.
//
// The service is safe for concurrent use. Register it with rationv1.RegisterRationServiceServer; close l only when no call
// is under way any more.
func New(l *ration.Limiter, store driver.Store, opts *Options) (rationv1.RationServiceServer, error) {
	if opts == nil {
		opts = new(Options)
	}
	decide := opts.Decide
	if decide == nil {
		var err error
		if decide, err = verbs.New(l, store, opts.Limits, opts.Timeout); err != nil {
			return nil, fmt.Errorf("grpcapi: %w", err)
		}
	}
	return &service{verbs: decide, failures: verbs.NewFailures(opts.Logger)}, nil
}

type service struct {
	rationv1.UnsafeRationServiceServer // an rpc that is missing here does not compile

	verbs    *verbs.Service
	failures *verbs.Failures
}

// chargeFields are those that say who, what and how much.
type chargeFields interface {
	message
	GetKey() *rationv1.Key
	GetLimit() string
}

// keyAndLimit is who and what. It fails if the caller may not do that.
func (s *service) keyAndLimit(ctx context.Context, may access.Verb, limits *verbs.Limits, r chargeFields, name *string) (key ration.Key, limit ration.Limit, err error) {
	if err = known(r); err != nil {
		return key, nil, err
	}
	if key, err = keyOf(r.GetKey()); err != nil {
		return key, nil, err
	}
	if r.GetLimit() == "" {
		return key, nil, verbs.At("/limit", verbs.Problem(codeMissing, "no limit; give the name of a configured one, or a limit's text, such as \"bucket 10/1m burst 20\""))
	}
	if limit, err = s.verbs.Limit(limits, key, r.GetLimit(), name); err == nil {
		err = verbs.May(ctx, may, r.GetLimit())
	}
	return key, limit, err
}

const codeMissing = wire.Code(strictjson.MissingField)

func (s *service) take(ctx context.Context, r *rationv1.TakeRequest) (d verbs.Decision, err error) {
	key, limit, err := s.keyAndLimit(ctx, access.Take, s.verbs.Limits(), r, r.Name)
	if err != nil {
		return d, err
	}
	return s.verbs.Take(ctx, r.Id, key, limit, verbs.Or(r.Cost, 1))
}

// shadowHeader tells which limits would have refused, if they were no shadows.
const shadowHeader = "ration-shadow"

// tell adds the names of shadows to the answer's headers.
func tell(ctx context.Context, names ...string) {
	if len(names) > 0 {
		_ = grpc.SetHeader(ctx, metadata.Pairs(shadowHeader, strings.Join(names, ","))) // outside of a server there is nobody to tell
	}
}

func shadowOf(d *verbs.Decision) []string {
	if d.Shadow {
		return []string{d.Name}
	}
	return nil
}

func shadowsOf(o *verbs.Outcome) (names []string) {
	for i, shadow := range o.Shadows {
		if shadow {
			names = append(names, o.Each[i].Name)
		}
	}
	return names
}

// Take is of the proto.
func (s *service) Take(ctx context.Context, r *rationv1.TakeRequest) (*rationv1.TakeResponse, error) {
	d, err := s.take(ctx, r)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	var a struct { // one allocation
		response rationv1.TakeResponse
		decision rationv1.Decision
	}
	tell(ctx, shadowOf(&d)...)
	fill(&a.decision, &d.Decision)
	a.response.Decision = &a.decision
	return &a.response, nil
}

// Peek is of the proto.
func (s *service) Peek(ctx context.Context, r *rationv1.PeekRequest) (*rationv1.PeekResponse, error) {
	key, limit, err := s.keyAndLimit(ctx, access.Read, s.verbs.Limits(), r, r.Name)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	d, err := s.verbs.Peek(ctx, key, limit, verbs.Or(r.Cost, 1))
	if err != nil {
		return nil, s.status(ctx, err)
	}
	tell(ctx, shadowOf(&d)...)
	return &rationv1.PeekResponse{Decision: decisionOf(&d.Decision)}, nil
}

// TakeAll is of the proto.
func (s *service) TakeAll(ctx context.Context, r *rationv1.TakeAllRequest) (*rationv1.TakeAllResponse, error) {
	charges, err := s.charges(ctx, r, r.Charges)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	o, err := s.verbs.TakeAll(ctx, r.Id, charges)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	tell(ctx, shadowsOf(&o)...)
	return &rationv1.TakeAllResponse{Outcome: outcomeOf(&o.Outcome)}, nil
}

// charges are those of the request r.
func (s *service) charges(ctx context.Context, r message, list []*rationv1.Charge) ([]verbs.Charge, error) {
	if err := known(r); err != nil {
		return nil, err
	}
	charges, limits := make([]verbs.Charge, len(list)), s.verbs.Limits()
	for i, c := range list {
		key, limit, err := s.keyAndLimit(ctx, access.Take, limits, c, c.Name)
		if err != nil {
			return nil, verbs.Within(fmt.Sprintf("/charges/%d", i), err)
		}
		charges[i] = verbs.Charge{Key: key, Limit: limit, Cost: verbs.Or(c.Cost, 1)}
	}
	return charges, nil
}

// Refund is of the proto.
func (s *service) Refund(ctx context.Context, r *rationv1.RefundRequest) (*rationv1.RefundResponse, error) {
	key, limit, err := s.keyAndLimit(ctx, access.Take, s.verbs.Limits(), r, r.Name)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	given, err := s.verbs.Refund(ctx, key, limit, verbs.Or(r.Cost, 1), r.AtUs)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	return &rationv1.RefundResponse{Given: given}, nil
}

// Reset is of the proto.
func (s *service) Reset(ctx context.Context, r *rationv1.ResetRequest) (*rationv1.ResetResponse, error) {
	key, limit, err := s.keyAndLimit(ctx, access.Reset, s.verbs.Limits(), r, r.Name)
	if err == nil {
		err = s.verbs.Reset(ctx, key, limit, r.GetLimit())
	}
	return &rationv1.ResetResponse{}, s.status(ctx, err)
}

// Forget is of the proto.
func (s *service) Forget(ctx context.Context, r *rationv1.ForgetRequest) (*rationv1.ForgetResponse, error) {
	key, err := s.keyAlone(r)
	if err == nil {
		err = s.verbs.Forget(ctx, key)
	}
	return &rationv1.ForgetResponse{}, s.status(ctx, err)
}

// keyAlone is the key of a request without a limit.
func (s *service) keyAlone(r interface {
	message
	GetKey() *rationv1.Key
}) (ration.Key, error) {
	if err := known(r); err != nil {
		return ration.Key{}, err
	}
	return keyOf(r.GetKey())
}

// Hit is of the proto.
func (s *service) Hit(ctx context.Context, r *rationv1.HitRequest) (*rationv1.HitResponse, error) {
	key, err := s.keyAlone(r)
	if err == nil {
		err = verbs.MayAll(ctx, access.Take)
	}
	if err != nil {
		return nil, s.status(ctx, err)
	}
	count, left, err := s.verbs.Hit(ctx, key, r.WindowMs, verbs.Or(r.N, 1))
	if err != nil {
		return nil, s.status(ctx, err)
	}
	return &rationv1.HitResponse{Count: count, LeftMs: verbs.Millis(left)}, nil
}

// ListLimits is of the proto.
func (s *service) ListLimits(ctx context.Context, r *rationv1.ListLimitsRequest) (*rationv1.ListLimitsResponse, error) {
	if err := known(r); err != nil {
		return nil, s.status(ctx, err)
	}
	a := new(rationv1.ListLimitsResponse)
	for _, rule := range verbs.Readable(ctx, s.verbs.Limits().Rules()) {
		one := &rationv1.Limit{Name: rule.Name, Limit: rule.String()}
		if rule.OnError != 0 {
			one.OnError = rule.OnError.String()
		}
		a.Limits = append(a.Limits, one)
	}
	return a, nil
}
