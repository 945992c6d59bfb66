package grpcapi_test

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/grpcapi"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	"github.com/ration-go/ration/server/internal/rpctest"
)

// TestMain fails if goroutines outlive the tests.
func TestMain(m *testing.M) { rpctest.Main(m) }

// counted is a store that counts how often it is asked, and can be told to fail.
type counted struct {
	driver.Store
	calls  atomic.Int64
	fail   atomic.Pointer[error] // in place of the call
	joined bool                  // as a store over a network says
}

func (c *counted) Apply(ctx context.Context, batch []*driver.Txn) error {
	c.calls.Add(1)
	if err := c.fail.Load(); err != nil {
		return *err
	}
	return c.Store.Apply(ctx, batch)
}

func (c *counted) Info() driver.Info {
	info := c.Store.Info()
	if c.joined {
		info.Instant, info.MaxBatch, info.InFlight = false, 128, 1
	}
	return info
}

func (c *counted) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return c.Store.(driver.HoldLister).Holds(ctx)
}

var configured = []ration.Rule{
	{Name: "day", Limit: ration.Budget{Limit: 100, Period: ration.Day}, OnError: ration.AllowOnError},
	{Name: "chat", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}},
}

// env is the service over a store in memory, and its callers.
type env struct {
	rationv1.RationServiceClient
	health  grpc_health_v1.HealthClient
	watched *grpcapi.Health
	store   *counted
}

func newEnv(t testing.TB, change ...func(*counted)) *env {
	t.Helper()
	store := &counted{Store: memstore.New(nil)}
	for _, c := range change {
		c(store)
	}
	l := ration.New(store, nil)
	opts := &grpcapi.Options{Limits: configured, Logger: slog.New(slog.DiscardHandler)}
	service, err := grpcapi.New(l, store, opts)
	if err != nil {
		t.Fatal(err)
	}
	health, err := grpcapi.NewHealth(l, store, opts, rationv1.RationService_ServiceDesc.ServiceName)
	if err != nil {
		t.Fatal(err)
	}
	conn := rpctest.Serve(t, func(server *grpc.Server) {
		rationv1.RegisterRationServiceServer(server, service)
		grpc_health_v1.RegisterHealthServer(server, health)
	}, l.Close)
	return &env{rationv1.NewRationServiceClient(conn), grpc_health_v1.NewHealthClient(conn), health, store}
}

func key(parts ...string) *rationv1.Key { return &rationv1.Key{Parts: parts} }

func ptr[T any](v T) *T { return &v }

// failure is what a status says.
type failure struct {
	code            codes.Code
	reason, charged string
	field           string
	retry           time.Duration
}

func failureOf(t testing.TB, err error) (f failure) {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok || err == nil {
		t.Fatalf("no status: %v", err)
	}
	f.code = st.Code()
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			f.reason, f.charged = d.Reason, d.Metadata["charged"]
			if d.Domain != "ration" {
				t.Errorf("the domain is %q", d.Domain)
			}
		case *errdetails.BadRequest:
			f.field = d.FieldViolations[0].Field
		case *errdetails.RetryInfo:
			f.retry = d.RetryDelay.AsDuration()
		}
	}
	return f
}
