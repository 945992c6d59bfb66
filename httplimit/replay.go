package httplimit

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/ration-go/ration"
)

// replayable reports whether r may be sent again after a server has refused it.
func replayable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
	default:
		if r.Header.Get("Idempotency-Key") == "" && r.Header.Get("X-Idempotency-Key") == "" {
			return false
		}
	}
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// replay is r once more, with its body from the start.
func replay(r *http.Request) (*http.Request, error) {
	next := r.WithContext(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		next.Body = body
	}
	return next, nil
}

// drain lets the connection be used again, unless there is much to read.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10) // if it fails, the connection is closed
	_ = body.Close()
}

// lease is a reservation for one request that is under way. A nil lease is none.
type lease struct {
	reserved *ration.Reservation
	us       []use
	slots    bool
	alive    context.Context
	stop     context.CancelFunc
	once     sync.Once
}

func newLease(ctx context.Context, reserved *ration.Reservation, us []use, slots bool) *lease {
	l := &lease{reserved: reserved, us: us, slots: slots}
	l.alive, l.stop = reserved.KeepAlive(ctx)
	return l
}

// cancel is for a request that is not sent.
func (l *lease) cancel(ctx context.Context) {
	if l != nil {
		l.stop()
		_ = l.reserved.Cancel(ctx) // if it fails, the reservation expires and stays charged
	}
}

// end settles what a request is charged; answer is nil if there was none.
func (l *lease) end(ctx context.Context, answer *http.Response) {
	l.once.Do(func() {
		l.stop()
		charge := amounts(l.us, func(count func(int, http.Header) bool) bool {
			return answer == nil || count(answer.StatusCode, answer.Header)
		})
		_ = l.reserved.Settle(ctx, charge...) // as for cancel
	})
}

// send sends r, and ends l when the answer is there; if it has slots, when that was read.
func (t *Transport) send(r *http.Request, l *lease) (*http.Response, error) {
	if l == nil {
		return t.base().RoundTrip(r)
	}
	ctx := r.Context()
	if l.slots {
		r = r.WithContext(l.alive) // ends if the slot is lost
	}
	answer, err := t.base().RoundTrip(r)
	if err != nil {
		l.end(ctx, nil)
		return nil, err
	}
	if !l.slots || answer.Body == nil || answer.Body == http.NoBody {
		l.end(ctx, answer)
		return answer, nil
	}
	body := &heldBody{ReadCloser: answer.Body, end: func() { l.end(ctx, answer) }}
	answer.Body = body
	if w, ok := body.ReadCloser.(io.Writer); ok { // after 101 it is the connection
		answer.Body = struct {
			*heldBody
			io.Writer
		}{body, w}
	}
	return answer, nil
}

// heldBody calls end when it was read or closed.
type heldBody struct {
	io.ReadCloser
	end func()
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *heldBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
