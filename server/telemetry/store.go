package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/wire"
)

func (m *Metrics) stored(ctx context.Context, c ration.StoreCall) {
	traced := links(&c)
	if len(traced) > 0 && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, traced[0].SpanContext)
	}
	o := m.storeOK
	if c.Err != nil {
		o = m.storeFailed
	}
	observe(ctx, o, c.Duration.Seconds())
	m.batch.Observe(float64(c.Transactions))
	m.operations.Add(float64(c.Operations))
	m.joined.Add(float64(len(c.Callers)))
	if m.tracer != nil && trace.SpanContextFromContext(ctx).IsSampled() {
		m.span(ctx, &c, traced)
	}
}

// maxLinks is what OpenTelemetry keeps of a span's links, unless told otherwise.
const maxLinks = 128

// links are to those who travelled together and are traced.
func links(c *ration.StoreCall) (traced []trace.Link) {
	for _, caller := range c.Callers {
		if sc := trace.SpanContextFromContext(caller); sc.IsSampled() && len(traced) < maxLinks {
			traced = append(traced, trace.Link{SpanContext: sc})
		}
	}
	return traced
}

// span tells of a call to the store that has ended. If it was made for several, it is a part of the first one's trace, and
// links to the others.
func (m *Metrics) span(ctx context.Context, c *ration.StoreCall, traced []trace.Link) {
	attributes := []attribute.KeyValue{
		attribute.Int("ration.store.transactions", c.Transactions),
		attribute.Int("ration.store.operations", c.Operations),
		attribute.Int("ration.store.callers", max(1, len(c.Callers))),
	}
	if w := m.watched.Load(); w != nil && w.store != nil {
		attributes = append(attributes, attribute.String("ration.store.kind", w.store.Info().Kind))
	}
	_, span := m.tracer.Start(ctx, "ration.store", trace.WithTimestamp(c.Start), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attributes...), trace.WithLinks(traced...))
	if c.Err != nil {
		// Not its text, which may have the store's answer in it.
		span.SetAttributes(attribute.String("error.type", string(wire.CodeOf(c.Err))))
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(c.Start.Add(c.Duration)))
}
