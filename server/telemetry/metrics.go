package telemetry

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// Options of Metrics. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Limits are the names of the limits that have a label of their own. nil, the default: the first 100 names that are used;
	// empty and not nil: none. Set them if names come from callers.
	Limits []string
	// Tracer, if not nil, makes a span of each call to the store whose caller is traced.
	Tracer trace.Tracer
}

// Metrics are those of one Limiter: a prometheus.Collector. For several Limiters register each with
// prometheus.WrapRegistererWith, which adds a label. Its methods are safe for concurrent use.
type Metrics struct {
	limits limits
	tracer trace.Tracer

	duration  *prometheus.HistogramVec
	durations [outcomes]prometheus.Observer
	calls     *prometheus.CounterVec
	byVerb    map[string]*verbCounters

	storeDuration        *prometheus.HistogramVec
	storeOK, storeFailed prometheus.Observer
	batch                prometheus.Histogram
	operations, joined   prometheus.Counter
	down, up             prometheus.Counter

	watched atomic.Pointer[watched]
	all     []prometheus.Collector
}

// verbCounters are those of one verb; of an outcome that there was not yet, nil.
type verbCounters struct {
	decides bool
	calls   [outcomes]atomic.Pointer[prometheus.Counter]
}

// verbs are those of ration.Event, and whether they decide.
var verbs = map[string]bool{
	"take": true, "wait": true, "take-all": true, "take-once": true, "reserve": true,
	"peek": false, "refund": false, "reset": false, "forget": false, "hit": false,
	"settle": false, "cancel": false, "progress": false, "renew": false,
}

// New makes Metrics. nil options are the defaults.
func New(opts *Options) *Metrics {
	var o Options
	if opts != nil {
		o = *opts
	}
	m := &Metrics{tracer: o.Tracer, byVerb: map[string]*verbCounters{}}
	m.limits.init(o.Limits)
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ration_decision_duration_seconds", Help: "How long decisions took, but for those of Wait, by outcome.",
		Buckets: []float64{1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5},
	}, []string{"outcome"})
	for how := range m.durations {
		m.durations[how] = m.duration.WithLabelValues(outcome(how).String())
	}
	m.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ration_calls_total", Help: "Calls of each verb, by outcome; what decides nothing is allowed when it is done.",
	}, []string{"verb", "outcome"})
	for verb, decides := range verbs {
		m.byVerb[verb] = &verbCounters{decides: decides}
	}
	m.storeDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ration_store_call_duration_seconds", Help: "How long calls to the store took, by outcome. A store in memory has none.",
		Buckets: []float64{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5},
	}, []string{"outcome"})
	m.storeOK, m.storeFailed = m.storeDuration.WithLabelValues(outcomeOfStore(nil)), m.storeDuration.WithLabelValues(failed.String())
	m.batch = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ration_store_batch_size", Help: "Transactions in a call to the store.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	})
	m.operations = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ration_store_operations_total", Help: "Keys that calls to the store were about.",
	})
	m.joined = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ration_store_joined_calls_total", Help: "Calls that waited until a call to the store took them along.",
	})
	changes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ration_store_changes_total", Help: "How often the store was found down, and up again.",
	}, []string{"state"})
	m.down, m.up = changes.WithLabelValues("down"), changes.WithLabelValues("up")
	m.all = []prometheus.Collector{
		m.limits.decisions, m.limits.degraded, m.duration, m.calls, m.storeDuration, m.batch, m.operations, m.joined, changes,
	}
	return m
}

// SetLimits is Options.Limits from now on. What was counted of limits that stay is kept.
func (m *Metrics) SetLimits(names []string) { m.limits.set(names) }

// Watch adds figures of l and its store, which are read when the metrics are. Of several calls the last counts.
func (m *Metrics) Watch(l *ration.Limiter, store driver.Store) { m.watched.Store(&watched{l, store}) }

// Describe is of prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(descs)
	}
	for _, f := range figures {
		descs <- f.desc
	}
}

// Collect is of prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(metrics)
	}
	if w := m.watched.Load(); w != nil {
		w.collect(metrics)
	}
}

// Observer is for ration.Options.
func (m *Metrics) Observer() *ration.Observer {
	return &ration.Observer{Decided: m.decided, StoreChanged: m.storeChanged, Stored: m.stored}
}

func (m *Metrics) decided(ctx context.Context, e ration.Event) {
	how := outcomeOf(&e.Decision, e.Err)
	of := m.byVerb[e.Verb]
	if of == nil {
		return // a verb that was added since
	}
	m.countCall(of, e.Verb, how)
	if !of.decides {
		return
	}
	if e.Verb != "wait" {
		observe(ctx, m.durations[how], e.Duration.Seconds())
	}
	span := trace.SpanFromContext(ctx)
	if e.Each == nil {
		m.countDecision(span, e.Name, how, e.Decision.Degraded)
		return
	}
	for i := range e.Each {
		// Of a list that was refused those limits count that refused it.
		if d := &e.Each[i]; how != refused || !d.Allowed {
			m.countDecision(span, d.Name, how, d.Degraded)
		}
	}
}

func (m *Metrics) countCall(of *verbCounters, verb string, how outcome) {
	c := of.calls[how].Load()
	if c == nil {
		made := m.calls.WithLabelValues(verb, how.String())
		of.calls[how].Store(&made)
		c = &made
	}
	(*c).Inc()
}

func (m *Metrics) countDecision(span trace.Span, name string, how outcome, degraded bool) {
	c := m.limits.of(name)
	c.decisions[how].Inc()
	if degraded && how <= refused {
		c.degraded[how].Inc()
	}
	if span.IsRecording() {
		span.AddEvent("decision", trace.WithAttributes(attribute.String("ration.limit", c.label), attribute.String("ration.outcome", how.String()),
			attribute.Bool("ration.degraded", degraded)))
	}
}

func (m *Metrics) storeChanged(up bool, _ error) {
	if up {
		m.up.Inc()
	} else {
		m.down.Inc()
	}
}

// observe notes seconds, with the trace as an exemplar if there is one.
func observe(ctx context.Context, o prometheus.Observer, seconds float64) {
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() {
		if with, ok := o.(prometheus.ExemplarObserver); ok {
			with.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": sc.TraceID().String(), "span_id": sc.SpanID().String()})
			return
		}
	}
	o.Observe(seconds)
}
