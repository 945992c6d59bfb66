package apicalls

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Unary counts calls over gRPC, and makes a span of each. gRPC knows the methods that there are; calls of others do not get
// here.
func (c *Calls) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	ctx, span := c.begin(ctx, info.FullMethod, start)
	answer, err := handler(ctx, request)
	c.end(ctx, span, info.FullMethod, start, err)
	return answer, err
}

// Stream is Unary for streams.
func (c *Calls) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	start := time.Now()
	ctx, span := c.begin(stream.Context(), info.FullMethod, start)
	err := handler(server, &traced{stream, ctx})
	c.end(ctx, span, info.FullMethod, start, err)
	return err
}

type traced struct {
	grpc.ServerStream
	ctx context.Context
}

func (t *traced) Context() context.Context { return t.ctx }

func (c *Calls) begin(ctx context.Context, method string, start time.Time) (context.Context, trace.Span) {
	if c.tracer == nil || strings.HasPrefix(method, "/grpc.") { // health and reflection
		return ctx, nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return c.tracer.Start(propagator.Extract(ctx, carrier(md)), strings.TrimPrefix(method, "/"),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(start))
}

func (c *Calls) end(ctx context.Context, span trace.Span, method string, start time.Time, err error) {
	code := status.Code(err)
	c.note(ctx, GRPC, method, code.String(), time.Since(start).Seconds())
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", strings.TrimPrefix(method, "/")),
		attribute.String("rpc.response.status_code", code.String()))
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		span.SetStatus(otelcodes.Error, "") // the server's fault, as OpenTelemetry has it
	}
	span.End()
}

// carrier is metadata, to be read only.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set is of propagation.TextMapCarrier; nothing is sent.
func (c carrier) Set(string, string) {}

// Keys is of propagation.TextMapCarrier.
func (c carrier) Keys() (keys []string) {
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
