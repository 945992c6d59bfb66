// Package apicalls counts what is asked of a server, over each protocol, and traces it.
package apicalls

import (
	"context"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Calls are those to one server: a prometheus.Collector. Its methods are safe for concurrent use.
type Calls struct {
	tracer   trace.Tracer // nil: nothing is traced
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	open     *prometheus.GaugeVec
}

// The protocols.
const (
	HTTP = "http"
	GRPC = "grpc"
	RESP = "resp"
)

// unknown is the route of what is asked for and not there: its path is the caller's.
const unknown = "unknown"

// propagator reads and writes the header traceparent of the W3C.
var propagator propagation.TraceContext

// New makes Calls. A tracer of nil traces nothing.
func New(tracer trace.Tracer) *Calls {
	return &Calls{
		tracer: tracer,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ration_api_requests_total", Help: "Requests, by protocol, route and status.",
		}, []string{"protocol", "route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ration_api_request_duration_seconds", Help: "How long requests took, by protocol.",
			Buckets: []float64{1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"protocol"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ration_api_connections", Help: "Connections that are open, by protocol.",
		}, []string{"protocol"}),
	}
}

// Describe is of prometheus.Collector.
func (c *Calls) Describe(descs chan<- *prometheus.Desc) {
	for _, one := range []prometheus.Collector{c.requests, c.duration, c.open} {
		one.Describe(descs)
	}
}

// Collect is of prometheus.Collector.
func (c *Calls) Collect(metrics chan<- prometheus.Metric) {
	for _, one := range []prometheus.Collector{c.requests, c.duration, c.open} {
		one.Collect(metrics)
	}
}

// note counts a request that has ended.
func (c *Calls) note(ctx context.Context, protocol, route, code string, seconds float64) {
	c.requests.WithLabelValues(protocol, route, code).Inc()
	o := c.duration.WithLabelValues(protocol)
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() {
		o.(prometheus.ExemplarObserver).ObserveWithExemplar(seconds,
			prometheus.Labels{"trace_id": sc.TraceID().String(), "span_id": sc.SpanID().String()})
		return
	}
	o.Observe(seconds)
}

// Listener counts the connections of l as of a protocol.
func (c *Calls) Listener(l net.Listener, protocol string) net.Listener {
	return &listener{l, c.open.WithLabelValues(protocol)}
}

type listener struct {
	net.Listener
	open prometheus.Gauge
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Inc()
	return &conn{Conn: c, closed: sync.OnceFunc(l.open.Dec)}, nil
}

type conn struct {
	net.Conn
	closed func()
}

func (c *conn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
