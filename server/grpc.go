package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/envoyrls"
	"github.com/ration-go/ration/server/grpcapi"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	"github.com/ration-go/ration/server/internal/apicalls"
)

// Bounds of gRPC, beside those of connections.
const (
	maxReceived = 4 << 20  // bytes of a message; as much as /v1/apply takes
	maxSent     = 16 << 20 // bytes of a message: a page of reservations with many charges
	maxStreams  = 4096     // calls of one connection at a time
	window      = 1 << 20  // bytes that a connection may send ahead
	minPing     = 10 * time.Second
)

// services are what is served over gRPC.
type services struct {
	api    rationv1.RationServiceServer
	envoy  *envoyrls.Service               // nil: none
	config atomic.Pointer[envoyrls.Config] // nil: none
	health *grpcapi.Health
}

// load reads the configurations; nil if there are none.
func (c *EnvoyConfig) load() (*envoyrls.Config, error) {
	if len(c.Configs) == 0 {
		return nil, nil
	}
	cfg, err := envoyrls.Load(c.Configs, c.Merge)
	if err != nil {
		return nil, envoyFaults(err)
	}
	return cfg, nil
}

// envoyFaults are the faults of err as those of this package.
func envoyFaults(err error) error {
	var faults []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			faults = append(faults, envoyFaults(one))
		}
		return errors.Join(faults...)
	}
	if one, ok := errors.AsType[*envoyrls.Fault](err); ok {
		return fault{file: one.File, line: one.Line, name: one.Name, err: one.Err}
	}
	return err
}

func newServices(s *Server, store driver.Store) (r *services, err error) {
	r = new(services)
	opts := &grpcapi.Options{Decide: s.decide, Logger: s.log, Timeout: s.cfg.Timeout}
	if r.api, err = grpcapi.New(s.limiter, store, opts); err != nil {
		return nil, err
	}
	config, err := s.cfg.Envoy.load()
	if err != nil {
		return nil, err
	}
	r.config.Store(config)
	names := []string{rationv1.RationService_ServiceDesc.ServiceName}
	if config != nil {
		envoy := &envoyrls.Options{
			DynamicMetadata: s.cfg.Envoy.DynamicMetadata, Shadow: s.cfg.Envoy.ShadowMode, Quota: s.cfg.Envoy.QuotaMode,
			Logger: s.log, Timeout: s.cfg.Timeout, Activity: s.activity,
		}
		if s.cfg.Envoy.ResponseHeaders {
			envoy.Headers = new(envoyrls.Headers)
		}
		if r.envoy, err = envoyrls.New(s.limiter, store, config, envoy); err != nil {
			return nil, err
		}
		names = append(names, rlsv3.RateLimitService_ServiceDesc.ServiceName)
	}
	r.health, err = grpcapi.NewHealth(s.limiter, store, opts, names...)
	return r, err
}

// domains is how many of Envoy's there are.
func (r *services) domains() int {
	config := r.config.Load()
	if config == nil {
		return 0
	}
	return len(config.Domains())
}

// RegisterGRPC adds the services of the configuration to a gRPC server of your own: ration.v1.RationService, Envoy's rate
// limit service if it is configured, and the standard health service. It does nothing if the configuration has no
// GRPC.Listen.
func (s *Server) RegisterGRPC(r grpc.ServiceRegistrar) {
	if s.rpc == nil {
		return
	}
	rationv1.RegisterRationServiceServer(r, s.rpc.api)
	if s.rpc.envoy != nil {
		rlsv3.RegisterRateLimitServiceServer(r, s.rpc.envoy)
	}
	grpc_health_v1.RegisterHealthServer(r, s.rpc.health)
}

// ListenGRPC opens the address of the configuration for gRPC; nil if there is none. It fails like Listen.
func (s *Server) ListenGRPC(ctx context.Context) (net.Listener, error) {
	if s.rpc == nil {
		return nil, nil
	}
	return s.listen(ctx, settingNamed("grpc.listen"))
}

// ServeGRPC answers gRPC on l until ctx is done, with reflection. Then it takes no new calls, lets those under way end, for at
// most the configuration's ShutdownTimeout, and returns nil, or an error if some had to be cut off. It closes l, but not the
// Server.
func (s *Server) ServeGRPC(ctx context.Context, l net.Listener) error {
	if s.rpc == nil {
		return errors.Join(errors.New("grpc: the configuration has no grpc.listen"), l.Close())
	}
	options := s.grpcOptions()
	if s.secure(l) {
		options = append(options, grpc.Creds(credentials.NewTLS(s.tls.Config())))
	}
	gs := grpc.NewServer(options...)
	s.RegisterGRPC(gs)
	reflection.Register(gs)
	failed := make(chan error, 1)
	go func() { failed <- gs.Serve(s.instruments.calls.Listener(bounded(l, maxConns), apicalls.GRPC)) }()
	select {
	case err := <-failed:
		return fmt.Errorf("grpc: %w", err)
	case <-ctx.Done():
	}
	s.rpc.health.Shutdown()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		gs.GracefulStop()
	}()
	timer := time.NewTimer(s.cfg.ShutdownTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-ended:
	case <-timer.C:
		err = fmt.Errorf("grpc: calls were cut off after %v", s.cfg.ShutdownTimeout)
		gs.Stop()
		<-ended
	}
	<-failed
	return err
}

func (s *Server) grpcOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(headerTimeout),
		grpc.MaxRecvMsgSize(maxReceived),
		grpc.MaxSendMsgSize(maxSent),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		// A peer that is gone without a word is noticed; one that is idle costs nothing.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idleTimeout, Timeout: headerTimeout}),
		grpc.NumStreamWorkers(s.workers()),
		grpc.SharedWriteBuffer(true),
		grpc.WaitForHandlers(true),
		// Fixed windows: to find out better ones grpc pings its peer, with nearly each message of a busy connection.
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.ForceServerCodecV2(envoyrls.Codec()),
		grpc.ChainUnaryInterceptor(s.instruments.calls.Unary, s.unary, s.guard.Unary(methods)),
		grpc.ChainStreamInterceptor(s.instruments.calls.Stream, s.recoverStream, s.guard.Stream(methods)),
	}
}

// methods says what callers must be allowed to do. What is not listed is for admins.
var methods = access.Methods{
	rationv1.RationService_Take_FullMethodName:             access.Take,
	rationv1.RationService_TakeBatch_FullMethodName:        access.Take,
	rationv1.RationService_TakeAll_FullMethodName:          access.Take,
	rationv1.RationService_Peek_FullMethodName:             access.Read,
	rationv1.RationService_Refund_FullMethodName:           access.Take,
	rationv1.RationService_Reset_FullMethodName:            access.Reset,
	rationv1.RationService_Forget_FullMethodName:           access.Reset,
	rationv1.RationService_Hit_FullMethodName:              access.Take,
	rationv1.RationService_Reserve_FullMethodName:          access.Take,
	rationv1.RationService_Settle_FullMethodName:           access.Take,
	rationv1.RationService_Cancel_FullMethodName:           access.Take,
	rationv1.RationService_Renew_FullMethodName:            access.Take,
	rationv1.RationService_Progress_FullMethodName:         access.Take,
	rationv1.RationService_ListReservations_FullMethodName: access.Read,
	rationv1.RationService_ListLimits_FullMethodName:       access.Read,

	rlsv3.RateLimitService_ShouldRateLimit_FullMethodName: access.Take,

	grpc_health_v1.Health_Check_FullMethodName: 0,
	grpc_health_v1.Health_List_FullMethodName:  0,
	grpc_health_v1.Health_Watch_FullMethodName: 0,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      access.Read,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": access.Read,
}

// workers is how many goroutines stand ready for calls, with stacks that have grown: to grow one anew for each call is a tenth
// of its cost. A call that waits for its store keeps one; what finds none gets a new goroutine.
func (s *Server) workers() uint32 {
	if s.info.Instant {
		return uint32(4 * runtime.GOMAXPROCS(0))
	}
	return 256
}

// unary answers a call whose handler panics, and tells of each call at level debug: what and how long, not for whom.
func (s *Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = nil, s.panicked(info.FullMethod, cause)
		}
	}()
	if !s.log.Enabled(ctx, slog.LevelDebug) {
		return handler(ctx, request)
	}
	start := time.Now()
	answer, err = handler(ctx, request)
	s.log.Debug("call", "method", info.FullMethod, "status", status.Code(err).String(), "duration", time.Since(start))
	return answer, err
}

func (s *Server) recoverStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = s.panicked(info.FullMethod, cause)
		}
	}()
	return handler(server, stream)
}

// panicked is the answer to a call whose handler panicked, which net/http bears and grpc does not.
func (s *Server) panicked(method string, cause any) error {
	s.log.Error("panic in a handler", "method", method, "panic", cause, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "a fault of the server; it may have been charged")
}
