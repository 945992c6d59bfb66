package httplimit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/ration-go/ration"
)

// Transport is an http.RoundTripper that paces itself: by its own Policies, which it shares with everybody on the Limiter's
// store, and by what servers answer (Retry-After, RateLimit and its elder relatives). Set its fields before the first use; it
// is then safe for concurrent use, and must not be copied. The zero value only heeds servers.
//
// A request waits for its turn before it is sent. If its turn is later than MaxWait allows, or than its context, it fails at
// once with a *ration.RefusedError, which also is context.DeadlineExceeded unless the cost can never pass; nothing is sent
// then. A request without an answer is charged without asking Policy.Count. A slot of a Concurrency limit is held until the
// answer's body was read or closed.
//
// What a server answers is kept by scheme, host and credentials of the request, in memory.
type Transport struct {
	Base     http.RoundTripper // default http.DefaultTransport
	Limiter  *ration.Limiter   // nil: only what servers answer
	Policies []Policy
	// MaxWait is how long one call of RoundTrip may wait in all; default 1 min, negative: not at all.
	MaxWait time.Duration
	// Replays is how often a request that a server refused for now (429, or 503 with Retry-After) is sent again, if that does
	// no harm: its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE, or it has an Idempotency-Key; and its body, if any, can be
	// had again (http.Request.GetBody). Default 2; negative: none. Each time is charged to the Policies. A request that may not
	// wait so long gets the server's answer.
	Replays int
	// Group is as in Options.
	Group func(*http.Request) string
	// Scope says which requests a server counts together; default: those of one scheme, host and credentials (Authorization,
	// X-Api-Key, Api-Key, Cookie).
	Scope func(*http.Request) string

	once     sync.Once
	err      error
	policies []policy
	paces    paces
}

func (t *Transport) start() error {
	t.once.Do(func() {
		if t.policies, t.err = checked(t.Policies); t.err == nil && len(t.policies) > 0 && t.Limiter == nil {
			t.err = errors.New("httplimit: a Transport with Policies needs a Limiter")
		}
	})
	return t.err
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// CloseIdleConnections closes those of Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends r when its turn has come. Errors are those of Base, a *ration.RefusedError, those of the Limiter (it could
// not tell, so nothing was sent), or of r's context.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.start(); err != nil {
		return nil, failed(r, err)
	}
	left, replays := t.MaxWait, t.Replays
	if left == 0 {
		left = time.Minute
	}
	if replays == 0 {
		replays = 2
	}
	left = max(0, left)
	p := t.paces.of(t.scope(r), time.Now())
	request := r
	for try := 0; ; try++ {
		reserved, number, err := t.turn(request, p, &left)
		if err != nil {
			return nil, failed(request, err)
		}
		answer, err := t.send(request, reserved)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		again := p.hear(number, answer.StatusCode, answer.Header, now)
		if !again || try >= replays || !replayable(r) || !affordable(r.Context(), p.waits(now), left) {
			return answer, nil
		}
		next, err := replay(r)
		if err != nil {
			return answer, nil // which is more than an error says
		}
		drain(answer.Body)
		request = next
	}
}

// failed closes the body, as a RoundTripper must.
func failed(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was read of it
	}
	return err
}

// scope is whose limits at which server r counts against.
func (t *Transport) scope(r *http.Request) string {
	if t.Scope != nil {
		return t.Scope(r)
	}
	sum := sha256.New()
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie"} {
		for _, line := range r.Header[name] {
			_, _ = io.WriteString(sum, joined(name, line)) // a hash takes everything
		}
	}
	return joined(r.URL.Scheme, r.URL.Host, string(sum.Sum(nil)))
}

// turn waits until r may be sent, by the server and by our own limits, and charges these. It takes what it waited off left.
func (t *Transport) turn(r *http.Request, p *pace, left *time.Duration) (reserved *lease, number uint64, err error) {
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	// First what costs nothing to ask, so that who is too late for the server is not charged.
	if wait := p.waits(time.Now()); !affordable(ctx, wait, *left) {
		return nil, 0, tooLate(ration.Decision{RetryAfter: wait, At: time.Now()})
	}
	if len(t.policies) > 0 {
		if reserved, err = t.charge(r, left); err != nil {
			return nil, 0, err
		}
	}
	for {
		number, wait, news := p.admit(time.Now())
		if wait == 0 {
			return reserved, number, nil
		}
		if !affordable(ctx, wait, *left) {
			reserved.cancel(ctx)
			return nil, 0, tooLate(ration.Decision{RetryAfter: wait, At: time.Now()})
		}
		if err := sleep(ctx, jittered(wait, *left), news, left); err != nil {
			reserved.cancel(ctx)
			return nil, 0, err
		}
	}
}

// affordable reports whether a wait fits into what is left and ends before ctx does.
func affordable(ctx context.Context, wait, left time.Duration) bool {
	if wait <= 0 {
		return true
	}
	deadline, ok := ctx.Deadline()
	return wait <= left && (!ok || wait < time.Until(deadline))
}

// jittered is wait and a little more, so that those who wait for one moment do not come all at once; within most.
func jittered(wait, most time.Duration) time.Duration {
	return max(wait, min(most, wait+rand.N(min(wait/5, time.Second)+1)))
}

// sleep waits for d or for news, and takes what it took off left.
func sleep(ctx context.Context, d time.Duration, news <-chan struct{}, left *time.Duration) error {
	begin := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	defer func() { *left = max(0, *left-time.Since(begin)) }()
	select {
	case <-timer.C:
		return nil
	case <-news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lateError says that a turn comes later than may be waited for.
type lateError struct{ refused *ration.RefusedError }

func (e *lateError) Error() string {
	who, when := "the server admits it", "later than may be waited for"
	if e.refused.Name != "" {
		who = "the limit " + e.refused.Name + " admits it"
	}
	if e.refused.RetryAfter > 0 {
		when = fmt.Sprintf("in %v at the earliest, ", e.refused.RetryAfter) + when
	}
	return "httplimit: not sent: " + who + " " + when
}

func (e *lateError) Unwrap() []error { return []error{e.refused, context.DeadlineExceeded} }

// Timeout is for net.Error, which is how http.Client tells of timeouts.
func (e *lateError) Timeout() bool { return true }

func tooLate(d ration.Decision) error {
	return &lateError{&ration.RefusedError{Decision: d}}
}

// charge waits for our own limits, and charges them.
func (t *Transport) charge(r *http.Request, left *time.Duration) (*lease, error) {
	ctx, group := r.Context(), ""
	if t.Group != nil {
		group = t.Group(r)
	}
	us, err := uses(t.policies, r, group)
	if err != nil || len(us) == 0 {
		return nil, err
	}
	hold, slots := held(us)
	if !hold && (len(us) > 1 || *left == 0) {
		return nil, t.takeInTime(ctx, us, left)
	}
	begin := time.Now()
	defer func() { *left = max(0, *left-time.Since(begin)) }()
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if *left > 0 {
		waiting, cancel = context.WithTimeout(ctx, *left)
	}
	defer cancel()
	var reserved *lease
	if hold {
		var rv *ration.Reservation
		rv, err = t.Limiter.Reserve(waiting, &ration.ReserveOptions{Wait: *left > 0}, charges(us)...)
		switch {
		case err != nil:
		case !rv.Allowed:
			return nil, refused(rv.Outcome)
		default:
			reserved = newLease(ctx, rv, us, slots)
		}
	} else {
		err = t.Limiter.Wait(waiting, us[0].key, us[0].limit, us[0].cost)
	}
	if no, ok := errors.AsType[*ration.RefusedError](err); ok {
		return nil, refused(ration.Outcome{Decision: no.Decision})
	}
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil && !errors.Is(err, ration.ErrOutcomeUnknown) {
		return nil, tooLate(ration.Decision{Name: us[0].shown.name, At: time.Now()}) // its turn in the line did not come
	}
	return reserved, err
}

// takeInTime charges several limits at once as soon as all have room.
func (t *Transport) takeInTime(ctx context.Context, us []use, left *time.Duration) error {
	for {
		o, err := take(ctx, t.Limiter, us)
		switch {
		case err != nil || o.Allowed:
			return err
		case o.Never || !affordable(ctx, o.RetryAfter, *left):
			return refused(o)
		}
		if err := sleep(ctx, jittered(o.RetryAfter, *left), nil, left); err != nil {
			return err
		}
	}
}

// refused is o as an error.
func refused(o ration.Outcome) error {
	if o.Never {
		return &ration.RefusedError{Decision: o.Decision}
	}
	return tooLate(o.Decision)
}
