package grpclimit

import (
	"context"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
)

// Options of a Guard; nil is the zero value.
type Options struct {
	// Skip lets calls pass without being counted, such as those of health checks.
	Skip func(ctx context.Context, c Call) bool
	// Group places the keys of a call together (ration.Key.In), as Redis Cluster needs for more than one policy: a tenant, say. It
	// is part of the keys. "" is no group.
	Group func(ctx context.Context, c Call) string
	// Refused makes the error of a refused call; default RESOURCE_EXHAUSTED with details, or UNAVAILABLE if the Outcome is
	// Degraded. The trailer is set in any case.
	Refused func(ctx context.Context, c Call, o ration.Outcome) error
	// Logger is told of calls that could not be decided; default slog.Default().
	Logger *slog.Logger
}

// A Guard limits the calls that a server answers. Its methods are safe for concurrent use.
type Guard struct {
	limiter  *ration.Limiter
	policies []policy
	opts     Options
	messages bool
	warn     sync.Once
}

// NewGuard makes a Guard that has a call answered if all policies that apply to it have room, and charges all of them or none.
// The Limiter stays the caller's, who closes it.
//
// NewGuard fails on an invalid or nameless limit, a name used twice, or a missing Key: at the start, and not as a limit that is
// not there. What For returns is checked with each call.
//
// A Concurrency limit holds its slot until the handler returns, and keeps renewing it; if the slot is lost, because the store
// could not be reached for as long as a lease, the call's context ends.
func NewGuard(l *ration.Limiter, policies []Policy, opts *Options) (*Guard, error) {
	ps, err := checked(l, policies)
	if err != nil {
		return nil, err
	}
	g := &Guard{limiter: l, policies: ps}
	if opts != nil {
		g.opts = *opts
	}
	for i := range ps {
		g.messages = g.messages || ps[i].Messages
	}
	return g, nil
}

// Unary is the interceptor for unary calls.
func (g *Guard) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		c := Call{Method: info.FullMethod, Message: request}
		h, err := g.charge(ctx, unary, c, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }) // it fails outside of a server only
		if err != nil {
			return nil, err
		}
		if h == nil {
			return handler(ctx, request)
		}
		code := codes.Unknown // of a panic, which goes on through here
		defer func() { h.end(ctx, code) }()
		answer, err := handler(h.ctx, request)
		code = status.Code(err)
		return answer, err
	}
}

// Stream is the interceptor for streams.
func (g *Guard) Stream() grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, c := stream.Context(), Call{Method: info.FullMethod}
		if g.opts.Skip != nil && g.opts.Skip(ctx, c) {
			return handler(server, stream)
		}
		h, err := g.charge(ctx, opening, c, stream.SetTrailer)
		if err != nil {
			return err
		}
		if h == nil && !g.messages {
			return handler(server, stream)
		}
		guarded := &guardedStream{ServerStream: stream, guard: g, ctx: ctx, method: info.FullMethod}
		if h == nil {
			return handler(server, guarded)
		}
		guarded.ctx = h.ctx
		code := codes.Unknown
		defer func() { h.end(ctx, code) }()
		err = handler(server, guarded)
		code = status.Code(err)
		return err
	}
}

// charge charges a call or a message, or answers the error that it gets. It has something to hold if h is not nil.
func (g *Guard) charge(ctx context.Context, w when, c Call, trailer func(metadata.MD)) (h *hold, err error) {
	if w == unary && g.opts.Skip != nil && g.opts.Skip(ctx, c) {
		return nil, nil
	}
	group := ""
	if g.opts.Group != nil {
		group = g.opts.Group(ctx, c)
	}
	us, err := uses(ctx, g.policies, w, c, group)
	if err != nil || len(us) == 0 {
		return nil, g.undecided(ctx, err)
	}
	var o ration.Outcome
	if held(us) {
		var r *ration.Reservation
		if r, err = g.limiter.Reserve(ctx, nil, charges(us)...); err == nil {
			if o = r.Outcome; o.Allowed {
				return newHold(ctx, r, us), nil
			}
		}
	} else {
		o, err = take(ctx, g.limiter, us)
	}
	if err != nil || o.Allowed {
		return nil, g.undecided(ctx, err)
	}
	st, md := refusal(&o)
	trailer(md)
	if g.opts.Refused != nil {
		return nil, g.opts.Refused(ctx, c, o)
	}
	return nil, st.Err()
}

// undecided is err as an answer; nil is nil. The first one is logged: else only callers would see that a program is wrong.
func (g *Guard) undecided(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		g.warn.Do(func() {
			logger := g.opts.Logger
			if logger == nil {
				logger = slog.Default()
			}
			logger.WarnContext(ctx, "grpclimit: a call could not be decided; more like it are not logged", "error", err)
		})
	}
	return undecided(ctx, err)
}

// guardedStream charges messages that are received.
type guardedStream struct {
	grpc.ServerStream
	guard  *Guard
	ctx    context.Context
	method string
	err    error // once a message was refused; RecvMsg is called by one goroutine at a time
}

// Context is that of the call; it ends if a slot is lost.
func (s *guardedStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message, and charges it. After a refusal there are no more.
func (s *guardedStream) RecvMsg(m any) error {
	if s.err != nil {
		return s.err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.guard.messages {
		return err
	}
	_, s.err = s.guard.charge(s.ctx, message, Call{Method: s.method, Message: m}, s.SetTrailer)
	return s.err
}

// hold is a charge whose end depends on the outcome.
type hold struct {
	ctx      context.Context // of the call
	reserved *ration.Reservation
	stop     context.CancelFunc
	uses     []use
	once     sync.Once
}

// newHold keeps r until its end, also when ctx is done: a handler that does not look at it still runs.
func newHold(ctx context.Context, r *ration.Reservation, us []use) *hold {
	kept, stopKeeping := r.KeepAlive(context.WithoutCancel(ctx))
	h := &hold{ctx: ctx, reserved: r, stop: stopKeeping, uses: us}
	for i := range us {
		if !us[i].slots {
			continue
		}
		alive, end := context.WithCancelCause(ctx)
		unlink := context.AfterFunc(kept, func() { end(context.Cause(kept)) })
		h.ctx = alive
		h.stop = func() {
			unlink()
			stopKeeping()
			end(context.Canceled)
		}
		break
	}
	return h
}

// end settles; of several ends the first. If it fails, the reservation expires and stays charged; the Limiter's Observer hears
// of it.
func (h *hold) end(ctx context.Context, code codes.Code) {
	h.once.Do(func() {
		h.stop()
		givenUp := ctx.Err() != nil
		amounts := make([]int64, len(h.uses))
		for i := range h.uses {
			if u := &h.uses[i]; u.policy.Count == nil || givenUp || u.policy.Count(code) {
				amounts[i] = u.cost
			}
		}
		_ = h.reserved.Settle(ctx, amounts...)
	})
}
