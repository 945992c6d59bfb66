package access

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Methods says what a caller of a gRPC method must be allowed to do to something; 0 lets everybody call it. The key is the full
// name, as in "/ration.v1.RationService/Take". A method that is not in it is for admins.
type Methods map[string]Verb

// Unary asks who is calling before a call is handled. The caller is in its context then.
func (g *Guard) Unary(methods Methods) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, err := g.called(ctx, methods, info.FullMethod)
		if err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
}

// Stream is Unary for streams.
func (g *Guard) Stream(methods Methods) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, err := g.called(stream.Context(), methods, info.FullMethod)
		if err != nil {
			return err
		}
		return handler(server, &callerStream{stream, ctx})
	}
}

type callerStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *callerStream) Context() context.Context { return s.ctx }

// called is ctx with the caller. The error is a status.
func (g *Guard) called(ctx context.Context, methods Methods, method string) (context.Context, error) {
	verb, known := methods[method]
	if !known {
		verb = Admin
	}
	caller, err := g.inContext(ctx, verb == 0)
	if err == nil && verb != 0 {
		err = g.Count(caller, 1)
	}
	ctx = With(ctx, caller)
	if err == nil && verb != 0 {
		err = AllowSome(ctx, verb)
	}
	if err != nil {
		return nil, Status(err)
	}
	return ctx, nil
}

func (g *Guard) inContext(ctx context.Context, open bool) (*Caller, error) {
	from := ""
	p, ok := peer.FromContext(ctx)
	if ok {
		from = Address(p.Addr.String())
	}
	if !g.on || open {
		return g.Nobody(from), nil
	}
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) > 0 {
		token, ok := bearer(values)
		if !ok {
			return nil, g.Missing(from)
		}
		return g.Identify(token, from)
	}
	if ok {
		if info, is := p.AuthInfo.(credentials.TLSInfo); is {
			if c := g.ofCertificate(&info.State, from); c != nil {
				return c, nil
			}
		}
	}
	return nil, g.Missing(from)
}

// Status is err, if it is a *Refusal, as a status of gRPC.
func Status(err error) error {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		return err
	}
	code := codes.PermissionDenied
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: strings.ToUpper(r.Code), Domain: "ration", Metadata: map[string]string{"charged": "no"}}}
	switch r.Status {
	case http.StatusUnauthorized:
		code = codes.Unauthenticated
	case http.StatusTooManyRequests:
		code = codes.ResourceExhausted
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	st, failed := status.New(code, r.Detail).WithDetails(details...)
	if failed != nil {
		panic(failed) // the details are made here, and the code is not OK
	}
	return st.Err()
}
