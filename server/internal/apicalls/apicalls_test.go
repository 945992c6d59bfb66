package apicalls_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration/server/internal/apicalls"
)

func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); code == 0 && runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

func tracing() (trace.Tracer, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	return sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test"), exporter
}

func registry(t *testing.T, c *apicalls.Calls) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	return r
}

// api is a handler that knows some routes.
var api = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/take":
		r.Pattern = "/v1/take"
	case "/stream":
		r.Pattern = "/stream"
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, trace.SpanContextFromContext(r.Context()).TraceID().String())
	case "/panic":
		r.Pattern = "/panic"
		panic(http.ErrAbortHandler)
	case "/down":
		r.Pattern = "/down"
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		http.NotFound(w, r)
	}
})

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func get(t *testing.T, url string, header http.Header) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(r)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

func TestRequestsAreCountedByRoute(t *testing.T) {
	t.Parallel()
	c := apicalls.New(nil)
	reg := registry(t, c)
	s := httptest.NewServer(c.HTTP(api))
	defer s.Close()
	for i := range 3 {
		get(t, s.URL+"/v1/take", nil)
		get(t, fmt.Sprint(s.URL, "/somebody-", i), nil) // whatever they make up
	}
	get(t, s.URL+"/panic", nil)
	get(t, s.URL+"/down", nil)
	want := `
# HELP ration_api_requests_total Requests, by protocol, route and status.
# TYPE ration_api_requests_total counter
ration_api_requests_total{code="200",protocol="http",route="/v1/take"} 3
ration_api_requests_total{code="404",protocol="http",route="unknown"} 3
ration_api_requests_total{code="500",protocol="http",route="/panic"} 1
ration_api_requests_total{code="503",protocol="http",route="/down"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "ration_api_requests_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestSpansOfRequests(t *testing.T) {
	t.Parallel()
	tracer, exported := tracing()
	s := httptest.NewServer(apicalls.New(tracer).HTTP(api))
	defer s.Close()
	if got := get(t, s.URL+"/stream", http.Header{"Traceparent": {traceparent}}); got != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the handler's trace is %q", got)
	}
	get(t, s.URL+"/down", nil)
	get(t, s.URL+"/secret-of-somebody", http.Header{"Traceparent": {"00-" + strings.Repeat("z", 32) + "-1-01"}})
	get(t, s.URL+"/healthz", nil)
	spans := exported.GetSpans()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	if one := spans[0]; one.Name != "GET /stream" || one.Parent.SpanID().String() != "00f067aa0ba902b7" || one.SpanKind != trace.SpanKindServer ||
		!strings.Contains(fmt.Sprint(one.Attributes), "http.response.status_code") {
		t.Errorf("%+v", one)
	}
	if one := spans[1]; one.Name != "GET /down" || one.Parent.IsValid() || one.Status.Code != codes.Error {
		t.Errorf("%+v", one)
	}
	if one := spans[2]; one.Name != "GET unknown" || one.Parent.IsValid() || strings.Contains(fmt.Sprintf("%+v", one), "secret") {
		t.Errorf("%+v", one)
	}
}

func TestCallsOverGRPC(t *testing.T) {
	t.Parallel()
	tracer, exported := tracing()
	c := apicalls.New(tracer)
	reg := registry(t, c)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("traceparent", traceparent))
	info := &grpc.UnaryServerInfo{FullMethod: "/ration.v1.RationService/Take"}
	for _, err := range []error{nil, status.Error(grpccodes.Unavailable, "down"), status.Error(grpccodes.InvalidArgument, "wrong")} {
		answer, got := c.Unary(ctx, "asked", info, func(ctx context.Context, request any) (any, error) {
			return trace.SpanContextFromContext(ctx).TraceID().String(), err
		})
		if answer != "4bf92f3577b34da6a3ce929d0e0e4736" || got != err {
			t.Errorf("got %v, %v", answer, got)
		}
	}
	health := &grpc.UnaryServerInfo{FullMethod: "/grpc.health.v1.Health/Check"}
	_, _ = c.Unary(ctx, nil, health, func(context.Context, any) (any, error) { return nil, nil })
	err := c.Stream(nil, stream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/s/S"}, func(_ any, s grpc.ServerStream) error {
		if !trace.SpanContextFromContext(s.Context()).IsValid() {
			t.Error("a stream has no span")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	want := `
# HELP ration_api_requests_total Requests, by protocol, route and status.
# TYPE ration_api_requests_total counter
ration_api_requests_total{code="InvalidArgument",protocol="grpc",route="/ration.v1.RationService/Take"} 1
ration_api_requests_total{code="OK",protocol="grpc",route="/grpc.health.v1.Health/Check"} 1
ration_api_requests_total{code="OK",protocol="grpc",route="/ration.v1.RationService/Take"} 1
ration_api_requests_total{code="OK",protocol="grpc",route="/s/S"} 1
ration_api_requests_total{code="Unavailable",protocol="grpc",route="/ration.v1.RationService/Take"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "ration_api_requests_total"); err != nil {
		t.Error(err)
	}
	spans := exported.GetSpans()
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	for i, code := range []codes.Code{codes.Unset, codes.Error, codes.Unset} { // a wrong call is no fault of the server
		if one := spans[i]; one.Status.Code != code || one.Name != "ration.v1.RationService/Take" || one.Parent.SpanID().String() != "00f067aa0ba902b7" {
			t.Errorf("%+v", one)
		}
	}
}

type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

func TestOpenConnections(t *testing.T) {
	t.Parallel()
	c := apicalls.New(nil)
	reg := registry(t, c)
	open := func(want float64) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "ration_api_connections" && f.GetMetric()[0].GetGauge().GetValue() != want {
				t.Errorf("%v connections are open, not %v", f.GetMetric()[0].GetGauge().GetValue(), want)
			}
		}
	}
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := c.Listener(inner, apicalls.RESP)
	defer l.Close()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	open(1)
	conn.Close()
	conn.Close()
	open(0)
}
