package otlp

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// teller logs when sending begins to fail and when it works again. OpenTelemetry's own way is a global handler.
type teller struct {
	what   string
	log    *slog.Logger
	failed atomic.Bool
}

func (e *Export) teller(what string) *teller { return &teller{what: what, log: e.cfg.Logger} }

func (t *teller) note(ctx context.Context, err error) {
	if failed := err != nil; t.failed.Swap(failed) == failed {
		return
	}
	if err != nil {
		t.log.WarnContext(ctx, "what is to be sent to the collector is lost until it can be reached", "what", t.what, "cause", err)
		return
	}
	t.log.InfoContext(ctx, "the collector can be reached again", "what", t.what)
}

type spans struct {
	sdktrace.SpanExporter
	*teller
}

func (s *spans) ExportSpans(ctx context.Context, all []sdktrace.ReadOnlySpan) error {
	s.note(ctx, s.SpanExporter.ExportSpans(ctx, all))
	return nil
}

type points struct {
	metric.Exporter
	*teller
}

func (p *points) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	p.note(ctx, p.Exporter.Export(ctx, all))
	return nil
}
