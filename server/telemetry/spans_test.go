package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/telemetry"
)

// tracing notes all spans.
func tracing() (trace.Tracer, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	return sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test"), exporter
}

// held is a store whose calls wait until they may go on.
type held struct {
	*distant
	gate chan struct{}
}

func (h *held) Apply(ctx context.Context, batch []*driver.Txn) error {
	<-h.gate
	return h.distant.Apply(ctx, batch)
}

func TestSpansOfStoreCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracer, exported := tracing()
		store := &held{&distant{Store: memstore.New(&memstore.Options{SweepEvery: -1})}, make(chan struct{})}
		s := newScene(t, store, &telemetry.Options{Limits: []string{"chat"}, Tracer: tracer}, nil)
		defer s.limiter.Close()
		var work sync.WaitGroup
		callers := make([]trace.SpanContext, 4)
		for i := range callers {
			traced, span := tracer.Start(ctx, fmt.Sprint("caller ", i))
			callers[i] = span.SpanContext()
			if i == 3 {
				traced = ctx // is not traced
			}
			work.Go(func() {
				s.limiter.Take(traced, key, chat, 1)
				span.End()
			})
			synctest.Wait() // the first goes alone, the others together
		}
		close(store.gate)
		work.Wait()

		var calls tracetest.SpanStubs
		events := 0
		for _, span := range exported.GetSpans() {
			if span.Name == "ration.store" {
				calls = append(calls, span)
			}
			events += len(span.Events)
		}
		if len(calls) != 2 || events != 3 {
			t.Fatalf("%d spans of calls to the store, %d events of decisions", len(calls), events)
		}
		if c := calls[0]; c.Parent.SpanID() != callers[0].SpanID() || len(c.Links) != 0 || c.SpanKind != trace.SpanKindClient {
			t.Errorf("alone: %+v", c)
		}
		c := calls[1]
		if c.Parent.SpanID() != callers[1].SpanID() || len(c.Links) != 2 || c.Links[1].SpanContext.SpanID() != callers[2].SpanID() {
			t.Errorf("together: parent %v, links %v, callers %v", c.Parent, c.Links, callers)
		}
		want := map[attribute.Key]attribute.Value{
			"ration.store.transactions": attribute.IntValue(1), "ration.store.operations": attribute.IntValue(1),
			"ration.store.callers": attribute.IntValue(3), "ration.store.kind": attribute.StringValue("distant"),
		}
		for _, a := range c.Attributes {
			if want[a.Key] != a.Value {
				t.Errorf("%s is %v", a.Key, a.Value)
			}
			delete(want, a.Key)
		}
		if len(want) > 0 {
			t.Errorf("the span lacks %v", want)
		}

		exported.Reset()
		dead := fmt.Errorf("%w: dial tcp: secret.example refused somebody", driver.ErrNotApplied)
		store.down.Store(&dead)
		traced, span := tracer.Start(ctx, "caller")
		s.limiter.Take(traced, key, chat, 1)
		span.End()
		failed := exported.GetSpans()[0]
		if failed.Status.Code != codes.Error || !strings.Contains(fmt.Sprint(failed.Attributes), "unavailable") {
			t.Errorf("%+v", failed)
		}
		if text := fmt.Sprintf("%+v", exported.GetSpans()); strings.Contains(text, "secret.example") || strings.Contains(text, "somebody") {
			t.Errorf("too much is said: %s", text)
		}
	})
}

// Who is traced finds the trace by an exemplar, in the format that has them.
func TestExemplars(t *testing.T) {
	t.Parallel()
	tracer, _ := tracing()
	s := newScene(t, &distant{Store: memstore.New(nil)}, &telemetry.Options{Tracer: tracer}, nil)
	traced, span := tracer.Start(ctx, "caller")
	s.limiter.Take(traced, key, chat, 1)
	span.End()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	promhttp.HandlerFor(s.reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	id := span.SpanContext().TraceID().String()
	for _, name := range []string{"ration_decision_duration_seconds_bucket", "ration_store_call_duration_seconds_bucket"} {
		found := false
		for line := range strings.Lines(w.Body.String()) {
			found = found || strings.HasPrefix(line, name) && strings.Contains(line, `trace_id="`+id+`"`)
		}
		if !found {
			t.Errorf("no line of %s has the trace %s:\n%s", name, id, w.Body)
		}
	}
}
