package httplimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ration-go/ration"
)

// Options of New; nil is the zero value.
type Options struct {
	// Skip lets requests pass without being counted.
	Skip func(*http.Request) bool
	// Headers is the dialect in which answers tell what is left; default Draft11. Retry-After of a refusal is in all of them.
	Headers Headers
	// Refuse answers a refused request; default 429 with application/problem+json, or 503 if the Outcome is Degraded: a limit
	// that an outage made smaller is not the client's fault. Headers, with Retry-After, are set before. There is no Retry-After if
	// the Outcome is Never, since waiting does not help.
	Refuse func(http.ResponseWriter, *http.Request, ration.Outcome)
	// Error answers a request that could not be decided; default 503 with application/problem+json. The error is of the Limiter,
	// of Policy.For, or ErrNoKey.
	Error func(http.ResponseWriter, *http.Request, error)
	// Group places the keys of a request together (ration.Key.In), as Redis Cluster needs for more than one policy: a tenant,
	// say. It is part of the keys. "" is no group.
	Group func(*http.Request) string
}

// New makes a middleware that serves a request if all policies that apply to it have room, and charges all of them or none. The
// Limiter stays the caller's, who closes it. The middleware is safe for concurrent use and may guard several handlers.
//
// New fails on an invalid or nameless limit, a name used twice, or a missing Key: at the start, and not as a limit that is not
// there. What For returns is checked with each request.
//
// A Concurrency limit holds its slot until the handler returns, and keeps renewing it; if the slot is lost, because the store
// could not be reached for as long as a lease, the request's context ends.
//
// The handler's ResponseWriter can do what the one outside can (http.Flusher, http.Hijacker, http.Pusher,
// http.ResponseController). A redirect has no RateLimit fields, since they would be taken for those of where it leads.
func New(l *ration.Limiter, policies []Policy, opts *Options) (func(http.Handler) http.Handler, error) {
	g := &guard{limiter: l}
	if opts != nil {
		g.opts = *opts
	}
	if l == nil {
		return nil, fmt.Errorf("httplimit: the Limiter is nil")
	}
	if g.opts.Headers > None {
		return nil, fmt.Errorf("httplimit: an unknown dialect of headers")
	}
	var err error
	if g.policies, err = checked(policies); err != nil {
		return nil, err
	}
	if g.opts.Refuse == nil {
		g.opts.Refuse = refuse
	}
	if g.opts.Error == nil {
		g.opts.Error = unavailable
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
	}, nil
}

type guard struct {
	limiter  *ration.Limiter
	policies []policy
	opts     Options
	warn     sync.Once
}

func (g *guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if g.opts.Skip != nil && g.opts.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	group := ""
	if g.opts.Group != nil {
		group = g.opts.Group(r)
	}
	us, err := uses(g.policies, r, group)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	if len(us) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	var o ration.Outcome
	var reserved *ration.Reservation
	hold, slots := held(us)
	if hold {
		if reserved, err = g.limiter.Reserve(r.Context(), nil, charges(us)...); err == nil {
			o = reserved.Outcome
		}
	} else {
		o, err = take(r.Context(), g.limiter, us)
	}
	if err != nil {
		g.fail(w, r, err)
		return
	}
	es := g.opts.Headers.entries(us, o.Each)
	g.opts.Headers.set(w.Header(), es)
	if !o.Allowed {
		if !o.Never {
			w.Header()[fieldRetryAfter] = []string{strconv.FormatInt(seconds(o.RetryAfter), 10)}
		}
		g.opts.Refuse(w, r, o)
		return
	}
	if !hold {
		if len(es) > 0 {
			w, _ = wrap(w, r, g.opts.Headers, es)
		}
		next.ServeHTTP(w, r)
		return
	}
	g.serveHeld(w, r, next, es, reserved, us, slots)
}

// serveHeld serves a request whose charge is held until its answer is known.
func (g *guard) serveHeld(w http.ResponseWriter, r *http.Request, next http.Handler, es []entry, reserved *ration.Reservation, us []use, slots bool) {
	w, answer := wrap(w, r, g.opts.Headers, es)
	served, stop := r, context.CancelFunc(nil)
	if slots {
		var ctx context.Context
		ctx, stop = keepSlots(r.Context(), reserved)
		served = r.WithContext(ctx)
	} else {
		stop = keepLater(r.Context(), reserved)
	}
	returned := false
	defer func() { // a panic goes on through here
		if served != r { // what the server and handlers around this one look at later
			r.Pattern, r.Form, r.PostForm, r.MultipartForm = served.Pattern, served.Form, served.PostForm, served.MultipartForm
		}
		stop()
		status, unseen := answer.end(returned)
		charge := amounts(us, func(count func(int, http.Header) bool) bool { return unseen || count(status, answer.Header()) })
		// If this fails, the reservation expires and stays charged; the Limiter's Observer hears of it.
		_ = reserved.Settle(r.Context(), charge...)
	}()
	next.ServeHTTP(w, served)
	returned = true
}

// keepSlots renews until stop is called, also when ctx is done: a handler that does not look at it still runs. The context
// that it returns ends with ctx, and when the slots are lost.
func keepSlots(ctx context.Context, reserved *ration.Reservation) (_ context.Context, stop context.CancelFunc) {
	kept, stopKeeping := reserved.KeepAlive(context.WithoutCancel(ctx))
	ctx, end := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(kept, func() { end(context.Cause(kept)) })
	return ctx, func() {
		unlink()
		stopKeeping()
		end(context.Canceled)
	}
}

// keepAfter is when the renewing of a reservation without slots begins. Few requests last so long.
const keepAfter = 3 * time.Minute

// keepLater renews from then on, until stop is called.
func keepLater(ctx context.Context, reserved *ration.Reservation) (stop context.CancelFunc) {
	var mu sync.Mutex
	var stopKeeping context.CancelFunc
	stopped := false
	timer := time.AfterFunc(keepAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			_, stopKeeping = reserved.KeepAlive(context.WithoutCancel(ctx))
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		if stopKeeping != nil {
			stopKeeping()
		}
	}
}

// fail answers a request that could not be decided. That the program is wrong is logged, once: else only clients see it.
func (g *guard) fail(w http.ResponseWriter, r *http.Request, err error) {
	if input(err) {
		g.warn.Do(func() {
			slog.Default().Warn("httplimit: a request could not be decided; more like it are not logged", "error", err)
		})
	}
	g.opts.Error(w, r, err)
}

// take decides us in one step.
func take(ctx context.Context, l *ration.Limiter, us []use) (o ration.Outcome, err error) {
	if len(us) == 1 {
		d, err := l.Take(ctx, us[0].key, us[0].limit, us[0].cost)
		return ration.Outcome{Decision: d, Each: []ration.Decision{d}}, err
	}
	return l.TakeAll(ctx, charges(us)...)
}
