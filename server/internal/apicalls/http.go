package apicalls

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// HTTP counts the requests that next answers, and makes a span of each. Its route is the Pattern that next gave to the request.
func (c *Calls) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		a := &answer{ResponseWriter: w}
		inner := r
		var span trace.Span
		if c.tracer != nil && !quiet(r.URL.Path) {
			ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			ctx, span = c.tracer.Start(ctx, method(r), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(start))
			inner = r.WithContext(ctx)
		}
		ended := false
		defer func() {
			if !ended { // a panic, on its way to net/http, which cuts the connection
				a.status = http.StatusInternalServerError
			} else if a.status == 0 {
				a.status = http.StatusOK
			}
			route := cmp.Or(inner.Pattern, unknown)
			r.Pattern = inner.Pattern // for who is around
			c.note(inner.Context(), HTTP, route, strconv.Itoa(a.status), time.Since(start).Seconds())
			if span != nil {
				span.SetName(method(r) + " " + route)
				span.SetAttributes(attribute.String("http.request.method", method(r)), attribute.String("http.route", route),
					attribute.Int("http.response.status_code", a.status))
				if a.status >= http.StatusInternalServerError {
					span.SetStatus(codes.Error, "")
				}
				span.End()
			}
		}()
		next.ServeHTTP(a, inner)
		ended = true
	})
}

// quiet reports whether a path is asked for by machines all the time, and says nothing in a trace.
func quiet(path string) bool { return path == "/metrics" || path == "/healthz" }

// method is the request's, if it is one that is known; a caller may make up others.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "_OTHER"
}

// answer sees the status.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush is for handlers that do not know http.ResponseController.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() } // it has no way to tell of an error
