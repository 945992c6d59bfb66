package respapi

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/server/access"
)

// Bounds of a connection.
const (
	idleTimeout  = 10 * time.Minute // between two commands
	helloTimeout = 5 * time.Second  // for TLS to say hello
	readTimeout  = 15 * time.Second // from a command's first byte to its last
	writeTimeout = 15 * time.Second

	firstBuffer = 4 << 10        // bytes that are read at once, at first
	maxBuffer   = 2 * maxCommand // at most
	maxReplies  = 4 * maxBuffer  // bytes of answers, before they are sent
)

// conn is a connection. One goroutine reads what has come, decides all of it, and answers all of it; then it reads again.
type conn struct {
	replies
	service *Service
	net     net.Conn
	id      int64
	name    string // as the client calls itself
	from    string // its address
	caller  *access.Caller
}

// serve answers commands until the client or stopping ends it.
func (s *Service) serve(ctx context.Context, nc net.Conn, stopping *atomic.Bool) {
	defer func() {
		if cause := recover(); cause != nil {
			s.opts.Logger.Error("panic in a command", "protocol", "resp", "panic", cause, "stack", string(debug.Stack()))
		}
	}()
	c := &conn{service: s, net: nc, id: s.ids.Add(1), replies: replies{proto: 2}}
	if !c.connected(ctx) {
		return
	}
	buf := make([]byte, 0, firstBuffer)
	var begun time.Time // when the command came that is not whole
	for {
		n, last := c.handle(ctx, buf)
		if last || c.flush() != nil {
			return
		}
		if n > 0 {
			buf = buf[:copy(buf, buf[n:])]
			begun = time.Time{}
		}
		now := time.Now()
		deadline := now.Add(idleTimeout)
		if len(buf) > 0 {
			if begun.IsZero() {
				begun = now
			}
			deadline = begun.Add(readTimeout)
		}
		_ = nc.SetReadDeadline(deadline) // if it fails, so does reading
		if stopping.Load() {
			return
		}
		got, err := nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+got]
		if got == 0 && err != nil {
			return
		}
		if len(buf) == cap(buf) && cap(buf) < maxBuffer { // there is more; what is decided together is decided faster
			buf = append(make([]byte, 0, maxBuffer), buf...)
		}
	}
}

// step is a command of a batch, or what is wrong with it.
type step struct {
	spec     *spec
	args     [][]byte
	err      error
	throttle *throttle
	ends     bool // the connection is closed after it
}

// handle answers the commands that buf holds whole, n bytes of it. last says that the connection ends with them.
func (c *conn) handle(ctx context.Context, buf []byte) (n int, last bool) {
	steps, throttles, n, err := c.readAll(buf)
	if len(steps) == 0 && err == nil {
		return n, false
	}
	start := time.Now()
	if len(throttles) > 0 {
		c.service.decide(ctx, throttles)
	}
	for i := range steps {
		if last = c.answer(ctx, &steps[i]); last {
			break
		}
		if len(c.buf) > maxReplies && c.flush() != nil {
			return n, true
		}
	}
	c.log(ctx, steps, start)
	if err != nil {
		c.fail(kindError, err.Error())
		last = true
	}
	if last {
		_ = c.flush() // the client may be gone
	}
	return n, last
}

// readAll reads the commands in buf, up to one that ends the connection.
func (c *conn) readAll(buf []byte) (steps []step, throttles []*throttle, n int, err error) {
	if len(buf) > 0 {
		c.recheck()
	}
	var args [][]byte
	for {
		from := len(args)
		var size int
		if args, size, err = parse(buf[n:], args); size == 0 || err != nil {
			return steps, throttles, n, err
		}
		n += size
		if len(args) == from {
			continue
		}
		one := step{args: args[from:]}
		one.spec, one.err = c.service.find(one.args)
		c.leave(&one)
		if one.err == nil && one.spec.run == nil {
			var t throttle
			if t, one.err = c.service.read(one.args[1:]); one.err == nil {
				one.err = c.mayThrottle(one.args[1:])
			}
			if one.err == nil {
				one.throttle = &t
				throttles = append(throttles, &t)
			}
		}
		steps = append(steps, one)
		if one.ends || one.spec != nil && one.spec.name == "QUIT" {
			return steps, throttles, n, nil
		}
	}
}

func (c *conn) answer(ctx context.Context, one *step) (last bool) {
	switch {
	case one.err != nil:
		c.service.fail(ctx, &c.replies, one.err)
		return one.ends
	case one.throttle != nil:
		one.throttle.answer(ctx, c.service, &c.replies)
	default:
		return one.spec.run(c, one.args[1:])
	}
	return false
}

// flush sends the answers.
func (c *conn) flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	err := c.net.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = c.net.Write(c.buf)
	}
	if c.buf = c.buf[:0]; cap(c.buf) > maxBuffer {
		c.buf = nil
	}
	return err
}

// log tells of each command at level debug: which and how long, not for whom.
func (c *conn) log(ctx context.Context, steps []step, start time.Time) {
	log := c.service.opts.Logger
	if len(steps) == 0 || !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	duration := time.Since(start)
	for i := range steps {
		name := "unknown"
		if steps[i].spec != nil {
			name = steps[i].spec.name
		}
		log.DebugContext(ctx, "call", "protocol", "resp", "command", name, "together", len(steps), "duration", duration)
	}
}
