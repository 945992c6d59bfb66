package grpcapi_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/grpcapi"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

// TestMain fails if goroutines outlive the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left over:\n\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked is the stacks of goroutines that are neither this one nor the runtime's, after a while in which they may end.
func leaked() string {
	deadline := time.Now().Add(10 * time.Second)
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for i, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && !strings.Contains(stack, "created by testing.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}

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
	conn    *grpc.ClientConn
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
	server := grpc.NewServer()
	rationv1.RegisterRationServiceServer(server, service)
	grpc_health_v1.RegisterHealthServer(server, health)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := errors.Join(<-served, l.Close()); err != nil {
			t.Error(err)
		}
	})
	return &env{rationv1.NewRationServiceClient(conn), conn, grpc_health_v1.NewHealthClient(conn), health, store}
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
