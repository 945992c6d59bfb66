package grpcapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Health is the standard health service: SERVING if the store answers. It is safe for concurrent use.
type Health struct {
	grpc_health_v1.UnimplementedHealthServer

	ask      func(context.Context) error
	services []string
	stop     sync.Once
	stopping chan struct{}
}

// watchEvery is how often Watch looks.
const watchEvery = 5 * time.Second

// NewHealth answers for the whole server, whose name is "", and for services of these names. store is l's own; of the
// options it uses Timeout.
func NewHealth(l *ration.Limiter, store driver.Store, opts *Options, services ...string) (*Health, error) {
	if opts == nil {
		opts = new(Options)
	}
	s, err := verbs.New(l, store, nil, opts.Timeout)
	if err != nil {
		return nil, err
	}
	return &Health{ask: s.Health, services: append([]string{""}, services...), stopping: make(chan struct{})}, nil
}

// Shutdown makes the answer NOT_SERVING and ends every Watch, so that the server can stop. Later calls do nothing.
func (h *Health) Shutdown() { h.stop.Do(func() { close(h.stopping) }) }

func (h *Health) status(ctx context.Context) grpc_health_v1.HealthCheckResponse_ServingStatus {
	select {
	case <-h.stopping:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	default:
	}
	if h.ask(ctx) != nil {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

// Check asks the store.
func (h *Health) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if !slices.Contains(h.services, r.Service) {
		return nil, status.Error(codes.NotFound, "there is no such service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: h.status(ctx)}, nil
}

// List asks the store, for all services at once.
func (h *Health) List(ctx context.Context, _ *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	a := &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{}}
	now := h.status(ctx)
	for _, service := range h.services {
		a.Statuses[service] = &grpc_health_v1.HealthCheckResponse{Status: now}
	}
	return a, nil
}

// Watch tells of every change that it sees, looking every few seconds, until Shutdown.
func (h *Health) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for ctx := stream.Context(); ; {
		now := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		if slices.Contains(h.services, r.Service) {
			now = h.status(ctx)
		}
		if now != last {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-h.stopping:
			if last == grpc_health_v1.HealthCheckResponse_SERVING {
				_ = stream.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}) // the caller may be gone
			}
			return status.Error(codes.Unavailable, "the server is stopping")
		case <-ticker.C:
		}
	}
}
