package respapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Options of the service. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Limits are those that commands can name. Each has a name of its own.
	Limits []ration.Rule
	// Guard asks connections who they are, by AUTH, HELLO or a client certificate; nil: whoever connects may do everything.
	Guard *access.Guard
	// Logger is told of the store's trouble, without keys; at level debug also of each command; default slog.Default().
	Logger *slog.Logger
	// MaxConns is how many connections there can be at a time; further ones are told so and closed. Default 4096.
	MaxConns int
	// ShutdownTimeout is for how long a stop waits for commands under way; default 10 s.
	ShutdownTimeout time.Duration
	// Decide is what several protocols of one server share; nil: the service has its own. Only package server can make one. Its
	// limits go before Limits.
	Decide *verbs.Service
}

// Service answers commands. Its methods are safe for concurrent use.
type Service struct {
	*verbs.Service
	opts     Options
	failures *verbs.Failures
	specs    map[string]*spec
	ids      atomic.Int64
}

// New makes a Service that decides on l, whose store is store. It fails if a limit has no name, a name that another one has, or
// is invalid. The Limiter stays the caller's, who closes it when nothing is served any more.
func New(l *ration.Limiter, store driver.Store, opts *Options) (*Service, error) {
	s := &Service{specs: table()}
	if opts != nil {
		s.opts = *opts
	}
	if s.Service = s.opts.Decide; s.Service == nil {
		var err error
		if s.Service, err = verbs.New(l, store, s.opts.Limits, 0); err != nil {
			return nil, fmt.Errorf("respapi: %w", err)
		}
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	if s.opts.MaxConns <= 0 {
		s.opts.MaxConns = 4096
	}
	if s.opts.ShutdownTimeout <= 0 {
		s.opts.ShutdownTimeout = 10 * time.Second
	}
	s.failures = verbs.NewFailures(s.opts.Logger)
	return s, nil
}

// Serve answers on l until ctx is done. Then it takes no new commands, answers those that have come, for at most
// Options.ShutdownTimeout, and returns nil, or an error if some were cut off. It closes l.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	open := &connections{conns: map[net.Conn]struct{}{}}
	failed := make(chan error, 1)
	go func() { failed <- s.accept(ctx, l, open) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		l.Close()
		<-failed
	}
	// Those that wait for a command, or for the rest of one, stop waiting.
	open.stop(func(c net.Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	ended := make(chan struct{})
	go func() {
		open.served.Wait()
		close(ended)
	}()
	timer := time.NewTimer(s.opts.ShutdownTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		err = errors.Join(err, fmt.Errorf("respapi: commands were cut off after %v", s.opts.ShutdownTimeout))
		open.stop(func(c net.Conn) { c.Close() })
		<-ended
	}
	return err
}

// accept serves connections until l is closed. The error says why it could not go on.
func (s *Service) accept(ctx context.Context, l net.Listener, open *connections) error {
	// Commands that have come are answered also when ctx is done.
	serving := context.WithoutCancel(ctx)
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case err != nil && passing(err):
			s.opts.Logger.Warn("a connection could not be accepted", "protocol", "resp", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		case err != nil:
			return fmt.Errorf("respapi: %w", err)
		default:
			if !open.add(c, s.opts.MaxConns) {
				s.turnAway(c)
				continue
			}
			go func() {
				defer open.remove(c)
				s.serve(serving, c, &open.stopping)
			}()
		}
	}
}

// passing reports whether a listener can go on after err: a client that is gone already, or too many open files.
func passing(err error) bool {
	for _, one := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// turnAway must not wait: it stands in the way of all others.
func (s *Service) turnAway(c net.Conn) {
	r := replies{proto: 2}
	r.fail(kindError, "there are too many connections; try again later")
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	_, _ = c.Write(r.buf) // the client may be gone
	c.Close()
}

// connections are those that are served.
type connections struct {
	stopping atomic.Bool
	served   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (o *connections) add(c net.Conn, most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.conns) >= most {
		return false
	}
	o.conns[c] = struct{}{}
	o.served.Add(1)
	return true
}

func (o *connections) remove(c net.Conn) {
	c.Close()
	o.mu.Lock()
	delete(o.conns, c)
	o.mu.Unlock()
	o.served.Done()
}

// stop does how to each. A connection that sets a deadline of its own afterwards sees that stopping is set.
func (o *connections) stop(how func(net.Conn)) {
	o.stopping.Store(true)
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.conns {
		how(c)
	}
}
