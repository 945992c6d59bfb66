package grpclimit_test

import (
	"context"
	"fmt"
	"io"
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
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/grpclimit"
	"github.com/ration-go/ration/memstore"
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

// service is grpc's own test service. Its answers are empty; code makes it fail.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	calls    atomic.Int64
	messages atomic.Int64
	code     atomic.Uint32
	came     chan struct{} // unary calls say so, if not nil
	block    chan struct{} // and wait for it
	trailer  metadata.MD
}

func (s *service) answer(ctx context.Context) error {
	s.calls.Add(1)
	if s.block != nil {
		s.came <- struct{}{}
		select {
		case <-s.block:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if s.trailer != nil {
		_ = grpc.SetTrailer(ctx, s.trailer)
	}
	return status.Error(codes.Code(s.code.Load()), "as asked")
}

func (s *service) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, s.answer(ctx)
}

func (s *service) UnaryCall(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{}, s.answer(ctx)
}

// FullDuplexCall answers each message with one.
func (s *service) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return status.Error(codes.Code(s.code.Load()), "as asked")
		} else if err != nil {
			return err
		}
		s.messages.Add(1)
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// StreamingInputCall receives to the end.
func (s *service) StreamingInputCall(stream testgrpc.TestService_StreamingInputCallServer) error {
	s.calls.Add(1)
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return stream.SendAndClose(&testgrpc.StreamingInputCallResponse{})
		} else if err != nil {
			return err
		}
		s.messages.Add(1)
	}
}

// serve serves s over loopback, and connects to it.
func serve(t testing.TB, s *service, server []grpc.ServerOption, client ...grpc.DialOption) testgrpc.TestServiceClient {
	t.Helper()
	srv := grpc.NewServer(server...)
	testgrpc.RegisterTestServiceServer(srv, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(client, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return testgrpc.NewTestServiceClient(conn)
}

// guarded serves s behind a guard.
func guarded(t testing.TB, s *service, g *grpclimit.Guard, client ...grpc.DialOption) testgrpc.TestServiceClient {
	t.Helper()
	return serve(t, s, []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.Unary()), grpc.ChainStreamInterceptor(g.Stream())}, client...)
}

// paced is a client of s that is paced.
func paced(t testing.TB, s *service, p *grpclimit.Pacer, server ...grpc.ServerOption) testgrpc.TestServiceClient {
	t.Helper()
	return serve(t, s, server, grpc.WithChainUnaryInterceptor(p.Unary()), grpc.WithChainStreamInterceptor(p.Stream()))
}

// failing is a store that can fail.
type failing struct {
	driver.Store
	err atomic.Pointer[error]
}

func (f *failing) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return f.Store.Apply(ctx, batch)
}

// Info is that of a store with a way to it, which can fail.
func (f *failing) Info() driver.Info {
	info := f.Store.Info()
	info.Instant = false
	return info
}

func newLimiter(t testing.TB, opts *ration.Options) (*ration.Limiter, *failing) {
	t.Helper()
	store := &failing{Store: memstore.New(nil)}
	l := ration.New(store, opts)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, store
}

func newGuard(t testing.TB, l *ration.Limiter, opts *grpclimit.Options, policies ...grpclimit.Policy) *grpclimit.Guard {
	t.Helper()
	g, err := grpclimit.NewGuard(l, policies, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newPacer(t testing.TB, l *ration.Limiter, opts *grpclimit.PacerOptions, policies ...grpclimit.Policy) *grpclimit.Pacer {
	t.Helper()
	p, err := grpclimit.NewPacer(l, policies, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fixed is a rule of so many in an hour.
func fixed(name string, n int64) ration.Rule {
	return ration.Rule{Name: name, Limit: ration.FixedWindow{Limit: n, Window: time.Hour}}
}

// everybody is one identity for all.
func everybody(context.Context, grpclimit.Call) string { return "everybody" }

// told is what an error says.
type told struct {
	code     codes.Code
	retry    time.Duration
	violated string
}

func of(err error) (f told) {
	st := status.Convert(err)
	f.code = st.Code()
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.RetryInfo:
			f.retry = d.RetryDelay.AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range d.Violations {
				f.violated += fmt.Sprintf("%s of %d;", v.QuotaId, v.QuotaValue)
			}
		}
	}
	return f
}
