package grpcapi_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	for _, name := range []string{"", "ration.v1.RationService"} {
		if a, err := e.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil || a.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, a, err)
		}
	}
	if _, err := e.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "x"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	broken := errors.New("broken")
	e.store.fail.Store(&broken)
	if a, err := e.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil || a.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := e.health.List(ctx, &grpc_health_v1.HealthListRequest{}); err != nil || len(a.Statuses) != 2 || a.Statuses[""].Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", a, err)
	}
}

// TestWatchEnds: a server that stops does not wait for those who watch it.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	watch := func(name string, want grpc_health_v1.HealthCheckResponse_ServingStatus) grpc_health_v1.Health_WatchClient {
		t.Helper()
		w, err := e.health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := w.Recv(); err != nil || a.Status != want {
			t.Fatalf("%q: %v, %v", name, a, err)
		}
		return w
	}
	all := watch("", grpc_health_v1.HealthCheckResponse_SERVING)
	other := watch("x", grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN)
	e.watched.Shutdown()
	e.watched.Shutdown()
	if a, err := all.Recv(); err != nil || a.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", a, err)
	}
	for _, w := range []grpc_health_v1.Health_WatchClient{all, other} {
		if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("it goes on: %v", err)
		}
	}
}
