// Package otlp sends metrics and traces to a collector of OpenTelemetry.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config says what is sent where.
type Config struct {
	Endpoint string  // URL, to which /v1/traces and /v1/metrics are added
	Sample   float64 // part of the traces that begin here, 0 to 1
	Version  string  // of the program
	Logger   *slog.Logger
}

// CheckEndpoint says what is wrong with the URL of a collector.
func CheckEndpoint(text string) error {
	u, err := url.Parse(text)
	if err == nil && u.User != nil {
		return errors.New("a name and a password have no place in this URL; OTEL_EXPORTER_OTLP_HEADERS has headers for the collector")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("this is not the URL of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318")
	}
	return nil
}

// Export is what is sent. Close it in the end.
type Export struct {
	traces  *sdktrace.TracerProvider
	metrics *metric.MeterProvider
	res     *resource.Resource
	cfg     Config
}

// Start makes ready to send; it connects to nobody yet. The variables of OpenTelemetry for headers, TLS, time-outs, intervals,
// samplers and the resource are obeyed; the protocol is http/protobuf.
func Start(ctx context.Context, cfg *Config) (*Export, error) {
	if err := CheckEndpoint(cfg.Endpoint); err != nil {
		return nil, err
	}
	if p := os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; this program speaks http/protobuf, for which collectors listen on port 4318", p)
	}
	e := &Export{cfg: *cfg}
	var err error
	// Later ones win: the environment says what the service is called.
	e.res, err = resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "ration"), attribute.String("service.version", cfg.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var opts []otlptracehttp.Option
	if os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		opts = append(opts, otlptracehttp.WithEndpointURL(e.url("/v1/traces")))
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, err
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithBatcher(&spans{exporter, e.teller("traces")}), sdktrace.WithResource(e.res),
	}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Sample))))
	}
	e.traces = sdktrace.NewTracerProvider(options...)
	return e, nil
}

func (e *Export) url(path string) string { return strings.TrimSuffix(e.cfg.Endpoint, "/") + path }

// Metrics begins to send what from gathers, every minute or as OTEL_METRIC_EXPORT_INTERVAL says. Call it once at most.
func (e *Export) Metrics(ctx context.Context, from prometheus.Gatherer) error {
	var opts []otlpmetrichttp.Option
	if os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") == "" {
		opts = append(opts, otlpmetrichttp.WithEndpointURL(e.url("/v1/metrics")))
	}
	exporter, err := otlpmetrichttp.New(ctx, opts...)
	if err != nil {
		return err
	}
	reader := metric.NewPeriodicReader(&points{exporter, e.teller("metrics")}, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from))))
	e.metrics = metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(e.res))
	return nil
}

// Tracer makes spans that are sent.
func (e *Export) Tracer() trace.Tracer { return e.traces.Tracer("github.com/ration-go/ration/server") }

// closeTime bounds how long a collector that does not answer holds up the end.
const closeTime = 3 * time.Second

// Close sends what is left, for at most three seconds, and ends. What could not be sent is lost; that was logged.
func (e *Export) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = e.traces.Shutdown(ctx)
	if e.metrics != nil {
		_ = e.metrics.Shutdown(ctx)
	}
}
