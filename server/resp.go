package server

import (
	"context"
	"errors"
	"net"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/internal/apicalls"
	"github.com/ration-go/ration/server/respapi"
)

// suggestedRESP is where Redis's protocol may be served, in examples.
const suggestedRESP = "127.0.0.1:7533"

// RESPConfig says where CL.THROTTLE is served over Redis's protocol. See package respapi.
type RESPConfig struct {
	Listen string // host:port, or unix: and a path; "", the default: nowhere
}

func newRESP(s *Server, store driver.Store) (*respapi.Service, error) {
	return respapi.New(s.limiter, store, &respapi.Options{
		Decide: s.decide, Guard: s.guard, Logger: s.log, MaxConns: maxConns, ShutdownTimeout: s.cfg.ShutdownTimeout,
	})
}

// ListenRESP opens the address of the configuration for Redis's protocol; nil if there is none. It fails like Listen.
func (s *Server) ListenRESP(ctx context.Context) (net.Listener, error) {
	if s.resp == nil {
		return nil, nil
	}
	return s.listen(ctx, settingNamed("resp.listen"))
}

// ServeRESP answers CL.THROTTLE on l until ctx is done. Then it takes no new commands, answers those that have come, for at
// most the configuration's ShutdownTimeout, and returns nil, or an error if some had to be cut off. It closes l, but not the
// Server.
func (s *Server) ServeRESP(ctx context.Context, l net.Listener) error {
	if s.resp == nil {
		return errors.Join(errors.New("resp: the configuration has no resp.listen"), l.Close())
	}
	return s.resp.Serve(ctx, s.overTLS(s.instruments.calls.Listener(l, apicalls.RESP)))
}
