package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/apicalls"
	"github.com/ration-go/ration/server/internal/otlp"
	"github.com/ration-go/ration/server/telemetry"
)

// MetricsConfig says where Prometheus finds metrics. Callers need the scope read, if callers are asked who they are.
type MetricsConfig struct {
	Enabled bool   // at /metrics; true by default
	Listen  string // host:port of a port for them alone; "", the default: that of the API
}

// OTelConfig says to which collector metrics and traces are sent, over OTLP.
type OTelConfig struct {
	// Endpoint is the URL of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318; "", the default: none. Load
	// takes OTEL_EXPORTER_OTLP_ENDPOINT if nothing else says it.
	Endpoint string
	// Sample is which part of the traces that begin here is kept, 0 to 1; 1 by default. A caller that is traced decides for its
	// own.
	Sample float64
}

// suggestedMetrics is where metrics may be served, in examples.
const suggestedMetrics = "127.0.0.1:7534"

// metricsPath is where Prometheus looks.
const metricsPath = "/metrics"

// envCollector is OpenTelemetry's own name of the setting otel.endpoint.
const envCollector = "OTEL_EXPORTER_OTLP_ENDPOINT"

var telemetrySettings = []*setting{
	boolean("metrics.enabled", "whether Prometheus finds metrics at "+metricsPath, func(c *Config) *bool { return &c.Metrics.Enabled }),
	{
		name: "metrics.listen", value: "HOST:PORT", help: "where to serve them instead of with the API, such as " + suggestedMetrics,
		set: func(c *Config, text string) error {
			if c.Metrics.Listen = text; text == "" {
				return nil
			}
			return checkListen(text)
		},
		get: func(c *Config) string { return c.Metrics.Listen },
	},
	{
		name: "otel.endpoint", value: "URL", help: "collector of OpenTelemetry to send metrics and traces to, over HTTP",
		set: func(c *Config, text string) error {
			if c.OTel.Endpoint = text; text == "" {
				return nil
			}
			return otlp.CheckEndpoint(text)
		},
		get: func(c *Config) string { return c.OTel.Endpoint },
	},
	{
		name: "otel.sample", value: "PART", help: "part of the traces that begin here which is kept, 0 to 1",
		set: func(c *Config, text string) (err error) {
			c.OTel.Sample, err = strconv.ParseFloat(text, 64)
			if err != nil || !(c.OTel.Sample >= 0 && c.OTel.Sample <= 1) {
				return fmt.Errorf("%q is not a number from 0 to 1, such as 0.01", text)
			}
			return nil
		},
		get: func(c *Config) string { return strconv.FormatFloat(c.OTel.Sample, 'g', -1, 64) },
	},
}

// collectorIn is the collector that OpenTelemetry's own variable names.
func collectorIn(env []string) (endpoint string) {
	for _, pair := range env {
		if name, text, _ := strings.Cut(pair, "="); name == envCollector {
			endpoint = text
		}
	}
	return endpoint
}

// instruments are a server's metrics and traces.
type instruments struct {
	registry *prometheus.Registry
	limits   *telemetry.Metrics
	calls    *apicalls.Calls
	export   *otlp.Export // nil: nothing is sent
}

// newInstruments makes those of a server. Nothing is sent before begin.
func newInstruments(ctx context.Context, cfg *Config, version string, log *slog.Logger) (*instruments, error) {
	in := &instruments{registry: prometheus.NewRegistry()}
	var tracer trace.Tracer
	if cfg.OTel.Endpoint != "" {
		var err error
		in.export, err = otlp.Start(ctx, &otlp.Config{Endpoint: cfg.OTel.Endpoint, Sample: cfg.OTel.Sample, Version: version, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("otel.endpoint: %w", err)
		}
		tracer = in.export.Tracer()
	}
	in.limits = telemetry.New(&telemetry.Options{Limits: namesOf(cfg.Limits), Tracer: tracer})
	in.calls = apicalls.New(tracer)
	in.registry.MustRegister(in.limits, in.calls, telemetry.BuildInfo(version),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return in, nil
}

// namesOf are the names of limits; never nil, which would be all names.
func namesOf(limits []ration.Rule) []string {
	names := make([]string, len(limits))
	for i := range limits {
		names[i] = limits[i].Name
	}
	return names
}

// begin adds what s is made of, and begins to send.
func (in *instruments) begin(ctx context.Context, s *Server, store driver.Store) error {
	in.limits.Watch(s.limiter, store)
	in.registry.MustRegister(reloads{s}, envoyRules{s})
	if in.export == nil {
		return nil
	}
	return in.export.Metrics(ctx, in.registry)
}

func (in *instruments) close() {
	if in != nil && in.export != nil {
		in.export.Close()
	}
}

// maxScrapes is how many may be answered at a time.
const maxScrapes = 8

// page answers Prometheus, if the caller may read.
func (in *instruments) page(log *slog.Logger) http.Handler {
	page := promhttp.HandlerFor(in.registry, promhttp.HandlerOpts{
		EnableOpenMetrics:   true, // for exemplars
		MaxRequestsInFlight: maxScrapes,
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
	})
	return access.Require(access.Read)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metrics are for GET", http.StatusMethodNotAllowed)
			return
		}
		page.ServeHTTP(w, r)
	}))
}

// ListenMetrics opens the address of the configuration for metrics; nil if they have none of their own. It fails like Listen.
func (s *Server) ListenMetrics(ctx context.Context) (net.Listener, error) {
	if !s.cfg.Metrics.Enabled || s.cfg.Metrics.Listen == "" {
		return nil, nil
	}
	return s.listen(ctx, settingNamed("metrics.listen"))
}

// ServeMetrics answers GET /metrics on l, and nothing else, until ctx is done. It closes l, but not the Server.
func (s *Server) ServeMetrics(ctx context.Context, l net.Listener) error {
	handler := s.guard.Handler(sameOrigin(&pages{
		at:  map[string]http.Handler{metricsPath: s.instruments.page(s.log)},
		api: http.NotFoundHandler(),
	}))
	if onLoopback(l) {
		handler = knownHost(s.cfg.Hosts, handler)
	}
	hs := &http.Server{
		Handler:           s.instruments.calls.HTTP(s.logged(handler)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&faultLog{log: s.log}, "", 0),
	}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(s.overTLS(bounded(l, maxScrapes*8))) }()
	select {
	case err := <-failed:
		return fmt.Errorf("metrics: %w", err)
	case <-ctx.Done():
	}
	// A scrape that is cut off is made again; to wait for one would hold up the end.
	err := hs.Close()
	if got := <-failed; !errors.Is(got, http.ErrServerClosed) {
		err = errors.Join(err, got)
	}
	return err
}

// reloads are the metrics of Server.Reloads.
type reloads struct{ *Server }

var (
	reloadsDesc = prometheus.NewDesc("ration_config_reloads_total", "How often the configuration was read anew, by whether it was applied.", []string{"outcome"}, nil)
	reloadDesc  = prometheus.NewDesc("ration_config_last_reload_timestamp_seconds", "When a configuration was applied last; 0 if only that of the start was.", nil, nil)
)

func (reloads) Describe(descs chan<- *prometheus.Desc) {
	descs <- reloadsDesc
	descs <- reloadDesc
}

func (r reloads) Collect(metrics chan<- prometheus.Metric) {
	counts, last := r.Reloads(), 0.0
	if !counts.LastOK.IsZero() {
		last = float64(counts.LastOK.UnixMilli()) / 1000
	}
	metrics <- prometheus.MustNewConstMetric(reloadsDesc, prometheus.CounterValue, float64(counts.OK), "ok")
	metrics <- prometheus.MustNewConstMetric(reloadsDesc, prometheus.CounterValue, float64(counts.Failed), "error")
	metrics <- prometheus.MustNewConstMetric(reloadDesc, prometheus.GaugeValue, last)
}
