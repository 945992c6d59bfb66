package grpclimit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
)

// PacerOptions of a Pacer; nil is the zero value.
type PacerOptions struct {
	// MaxWait is how long one call may wait in all; default 1 min, negative: not at all.
	MaxWait time.Duration
	// Replays is how often a unary call is sent again that a server refused with a time to wait. Default none: only the caller
	// knows whether a server that refuses has done nothing yet. Each time is charged to the policies.
	Replays int
	// Group is as in Options.
	Group func(ctx context.Context, c Call) string
	// Scope says which calls a server counts together; default: those of one target, method and credentials (authorization and
	// x-api-key in the metadata).
	Scope func(ctx context.Context, target string, c Call) string
}

// A Pacer paces the calls of a client: by its own policies, which it shares with everybody on the Limiter's store, and by what
// servers answer (RetryInfo, grpc-retry-pushback-ms). Its methods are safe for concurrent use.
//
// A call waits for its turn before it is sent. If its turn is later than MaxWait allows, or than its context, it fails at once
// and nothing is sent: the error is a *ration.RefusedError, and RESOURCE_EXHAUSTED as a status. If the Limiter could not tell,
// it is UNAVAILABLE. A slot of a Concurrency limit is held until the call has ended.
type Pacer struct {
	limiter  *ration.Limiter
	policies []policy
	opts     PacerOptions
	pauses   pauses
}

// NewPacer makes a Pacer. Without policies the Limiter may be nil; it then only heeds servers. The Limiter stays the caller's,
// who closes it. NewPacer fails as NewGuard does.
func NewPacer(l *ration.Limiter, policies []Policy, opts *PacerOptions) (*Pacer, error) {
	ps, err := checked(l, policies)
	if err != nil {
		return nil, err
	}
	p := &Pacer{limiter: l, policies: ps}
	if opts != nil {
		p.opts = *opts
	}
	if p.opts.MaxWait == 0 {
		p.opts.MaxWait = time.Minute
	}
	if p.opts.Scope == nil {
		p.opts.Scope = scopeOf
	}
	return p, nil
}

// Unary is the interceptor for unary calls.
func (p *Pacer) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		c := Call{Method: method, Message: request}
		t := p.turn(ctx, cc.Target(), c)
		for try := 0; ; try++ {
			h, err := t.wait(ctx, unary, c)
			if err != nil {
				return err
			}
			sent := ctx
			if h != nil {
				sent = h.ctx
			}
			var trailer metadata.MD
			err = invoke(sent, method, request, reply, cc, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
			if h != nil {
				h.end(ctx, status.Code(err))
			}
			again := t.hear(err, trailer)
			if !again || try >= p.opts.Replays || !affordable(ctx, p.pauses.left(t.scope), t.left) {
				return err
			}
		}
	}
}

// Stream is the interceptor for streams.
func (p *Pacer) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		c := Call{Method: method}
		t := p.turn(ctx, cc.Target(), c)
		h, err := t.wait(ctx, opening, c)
		if err != nil {
			return nil, err
		}
		opened := ctx
		if h != nil {
			opened = h.ctx
		}
		stream, err := open(opened, desc, cc, method, opts...)
		if err != nil {
			if h != nil {
				h.end(ctx, status.Code(err))
			}
			t.hear(err, nil)
			return nil, err
		}
		s := &pacedStream{ClientStream: stream, turn: t, end: func(codes.Code) {}, method: method, single: !desc.ServerStreams}
		if h != nil {
			// Who does not receive to the end has to end the context.
			stop := context.AfterFunc(ctx, func() { h.end(ctx, codes.Canceled) })
			s.end = func(code codes.Code) {
				stop()
				h.end(ctx, code)
			}
		}
		return s, nil
	}
}

// pacedStream charges messages that are sent.
type pacedStream struct {
	grpc.ClientStream
	turn   *turn
	end    func(codes.Code)
	method string
	single bool // there is one answer
}

// SendMsg waits for the message's turn, and sends it.
func (s *pacedStream) SendMsg(m any) error {
	if _, err := s.turn.wait(s.Context(), message, Call{Method: s.method, Message: m}); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg receives a message, and hears what the server says at the end.
func (s *pacedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && !s.single {
		return nil
	}
	code := codes.OK
	if err != nil && !errors.Is(err, io.EOF) {
		code = status.Code(err)
		s.turn.hear(err, s.Trailer())
	}
	s.end(code)
	return err
}

// turn is one call on its way.
type turn struct {
	pacer *Pacer
	scope string
	left  time.Duration // of what it may wait
}

func (p *Pacer) turn(ctx context.Context, target string, c Call) *turn {
	return &turn{p, p.opts.Scope(ctx, target, c), max(0, p.opts.MaxWait)}
}

// scopeOf is the default of PacerOptions.Scope.
func scopeOf(ctx context.Context, target string, c Call) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	sum := sha256.New()
	for _, name := range []string{"authorization", "x-api-key"} {
		for _, value := range md.Get(name) {
			fmt.Fprintf(sum, "%s %d:%s", name, len(value), value)
		}
	}
	return target + " " + c.Method + " " + string(sum.Sum(nil))
}

// wait waits until the call may be sent, by the server and by our own limits, and charges these.
func (t *turn) wait(ctx context.Context, w when, c Call) (*hold, error) {
	p, group := t.pacer, ""
	if p.opts.Group != nil {
		group = p.opts.Group(ctx, c)
	}
	us, err := uses(ctx, p.policies, w, c, group)
	if err != nil {
		return nil, undecided(ctx, err)
	}
	// First what costs nothing to ask, so that who is too late for the server is not charged.
	if w != message {
		for pause := p.pauses.left(t.scope); pause > 0; pause = p.pauses.left(t.scope) {
			if !affordable(ctx, pause, t.left) {
				return nil, tooLate(ration.Decision{Name: "", RetryAfter: pause, At: time.Now()})
			}
			if err := t.sleep(ctx, pause); err != nil {
				return nil, err
			}
		}
	}
	if len(us) == 0 {
		return nil, nil
	}
	begin := time.Now()
	defer func() { t.left = max(0, t.left-time.Since(begin)) }()
	return t.charge(ctx, us)
}

// charge waits for our own limits, and charges them.
func (t *turn) charge(ctx context.Context, us []use) (h *hold, err error) {
	l, hold := t.pacer.limiter, held(us)
	if !hold && (len(us) > 1 || t.left == 0) {
		return nil, t.takeInTime(ctx, us)
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if t.left > 0 {
		waiting, cancel = context.WithTimeout(ctx, t.left)
	}
	defer cancel()
	if !hold {
		err = l.Wait(waiting, us[0].key, us[0].limit, us[0].cost)
	} else {
		var r *ration.Reservation
		if r, err = l.Reserve(waiting, &ration.ReserveOptions{Wait: t.left > 0}, charges(us)...); err == nil {
			if !r.Allowed {
				return nil, tooLate(r.Decision)
			}
			h = newHold(ctx, r, us)
		}
	}
	if err == nil {
		return h, nil
	}
	if no, ok := errors.AsType[*ration.RefusedError](err); ok {
		return nil, tooLate(no.Decision)
	}
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil && !errors.Is(err, ration.ErrOutcomeUnknown) {
		return nil, tooLate(ration.Decision{Name: us[0].policy.name, At: time.Now()}) // its turn in the line did not come
	}
	return nil, undecided(ctx, err)
}

// takeInTime charges several limits at once as soon as all have room.
func (t *turn) takeInTime(ctx context.Context, us []use) error {
	for until := time.Now().Add(t.left); ; {
		o, err := take(ctx, t.pacer.limiter, us)
		switch left := time.Until(until); {
		case err != nil:
			return undecided(ctx, err)
		case o.Allowed:
			return nil
		case o.Never || !affordable(ctx, o.RetryAfter, left):
			return tooLate(o.Decision)
		default:
			if err := sleep(ctx, jittered(o.RetryAfter, left)); err != nil {
				return err
			}
		}
	}
}

// sleep waits a little more than d, so that those who wait for one moment do not come all at once.
func (t *turn) sleep(ctx context.Context, d time.Duration) error {
	d = jittered(d, t.left)
	t.left = max(0, t.left-d)
	return sleep(ctx, d)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// jittered is wait and a little more, within most.
func jittered(wait, most time.Duration) time.Duration {
	return max(wait, min(most, wait+rand.N(min(wait/5, time.Second)+1)))
}

// affordable reports whether a wait fits into what is left and ends before ctx does.
func affordable(ctx context.Context, wait, left time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return wait <= left && (!ok || wait < time.Until(deadline))
}

// tooLate is a turn that comes later than may be waited for, or never.
func tooLate(d ration.Decision) error {
	d.Allowed = false
	o := ration.Outcome{Decision: d}
	st, _ := refusal(&o)
	who := "the server admits this call"
	if d.Name != "" {
		who = "the limit " + d.Name + " admits this call"
	}
	if d.Never {
		who = fmt.Sprintf("the limit %s of %d can never admit this call", d.Name, d.Limit)
		return &statusError{st, &refusedError{who, &ration.RefusedError{Decision: d}}}
	}
	return &statusError{st, &refusedError{fmt.Sprintf("%s in %v at the earliest, later than may be waited for", who, d.RetryAfter), &ration.RefusedError{Decision: d}}}
}

// refusedError is a RefusedError in other words.
type refusedError struct {
	text    string
	refused *ration.RefusedError
}

func (e *refusedError) Error() string { return "grpclimit: " + e.text }
func (e *refusedError) Unwrap() error { return e.refused }
