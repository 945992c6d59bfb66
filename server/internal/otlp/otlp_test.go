package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ration-go/ration/server/internal/otlp"
)

func TestMain(m *testing.M) {
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for deadline := time.Now().Add(10 * time.Second); code == 0 && runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// collector is one of OpenTelemetry's, as far as a sender can tell.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []string
	metrics map[string]float64
	service string
	headers http.Header
}

func newCollector(t *testing.T) *collector {
	c := &collector{metrics: map[string]float64{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		data, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = r.Header
		switch r.URL.Path {
		case "/base/v1/traces":
			m := new(coltrace.ExportTraceServiceRequest)
			if err := proto.Unmarshal(data, m); err != nil {
				t.Error(err)
			}
			for _, rs := range m.GetResourceSpans() {
				for _, a := range rs.GetResource().GetAttributes() {
					if a.GetKey() == "service.name" {
						c.service = a.GetValue().GetStringValue()
					}
				}
				for _, ss := range rs.GetScopeSpans() {
					for _, s := range ss.GetSpans() {
						c.spans = append(c.spans, s.GetName())
					}
				}
			}
		case "/base/v1/metrics":
			m := new(colmetrics.ExportMetricsServiceRequest)
			if err := proto.Unmarshal(data, m); err != nil {
				t.Error(err)
			}
			for _, rm := range m.GetResourceMetrics() {
				for _, sm := range rm.GetScopeMetrics() {
					for _, one := range sm.GetMetrics() {
						for _, p := range one.GetSum().GetDataPoints() {
							c.metrics[one.GetName()] = p.GetAsDouble()
						}
						for _, p := range one.GetHistogram().GetDataPoints() {
							c.metrics[one.GetName()] = float64(p.GetCount())
						}
					}
				}
			}
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

func TestMetricsAndTracesAreSent(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	e, err := otlp.Start(t.Context(), &otlp.Config{Endpoint: c.URL + "/base/", Sample: 1, Version: "v1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	total := prometheus.NewCounter(prometheus.CounterOpts{Name: "ration_decisions_total", Help: "."})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ration_decision_duration_seconds", Help: "."})
	reg.MustRegister(total, took)
	total.Add(3)
	took.Observe(1)
	if err := e.Metrics(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	_, span := e.Tracer().Start(t.Context(), "POST /v1/take")
	span.End()
	e.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spans) != 1 || c.spans[0] != "POST /v1/take" || c.service != "ration" {
		t.Errorf("spans %q of %q", c.spans, c.service)
	}
	if c.metrics["ration_decisions_total"] != 3 || c.metrics["ration_decision_duration_seconds"] != 1 {
		t.Errorf("%v", c.metrics)
	}
}

func TestSampling(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	e, err := otlp.Start(t.Context(), &otlp.Config{Endpoint: c.URL + "/base", Sample: 0, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	_, span := e.Tracer().Start(t.Context(), "POST /v1/take")
	span.End()
	e.Close()
	if len(c.spans) != 0 {
		t.Errorf("%q", c.spans)
	}
}

// A collector that is not there costs one line in the log, and holds up the end for some seconds at most.
func TestNoCollector(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	log := new(bytes.Buffer)
	e, err := otlp.Start(t.Context(), &otlp.Config{Endpoint: "http://" + address, Sample: 1, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Metrics(t.Context(), prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	_, span := e.Tracer().Start(context.Background(), "POST /v1/take")
	span.End()
	start := time.Now()
	e.Close()
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the end took %v", took)
	}
	if got := log.String(); strings.Count(got, "what=traces") != 1 || strings.Count(got, "\n") > 2 {
		t.Errorf("the log says:\n%s", got)
	}
}

func TestWrongEndpoints(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "127.0.0.1:4318", "localhost:4318", "grpc://127.0.0.1:4317", "http://", "http://a:b@127.0.0.1", "http://127.0.0.1?x", "http://[", "http://127.0.0.1/#x"} {
		err := otlp.CheckEndpoint(text)
		if err == nil {
			t.Errorf("%q passes", text)
		}
		if _, started := otlp.Start(t.Context(), &otlp.Config{Endpoint: text}); started == nil {
			t.Errorf("%q starts", text)
		}
	}
	for _, text := range []string{"http://127.0.0.1:4318", "https://otlp.example.com/base/"} {
		if err := otlp.CheckEndpoint(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
