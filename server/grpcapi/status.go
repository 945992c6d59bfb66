package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/internal/verbs"
)

// statusOf is the status for each code that is not INVALID_ARGUMENT.
var statusOf = map[wire.Code]codes.Code{
	verbs.CodeUnauthorized: codes.Unauthenticated,
	verbs.CodeExpired:      codes.Unauthenticated,
	verbs.CodeForbidden:    codes.PermissionDenied,
	verbs.CodeTooMany:      codes.ResourceExhausted,
	wire.CodeOverflow:      codes.FailedPrecondition,
	wire.CodeEnded:         codes.FailedPrecondition,
	wire.CodeIDReused:      codes.AlreadyExists,
	wire.CodeNoReservation: codes.NotFound,
	wire.CodeUnsupported:   codes.Unimplemented,
	wire.CodeCorrupt:       codes.DataLoss,
	wire.CodeUnavailable:   codes.Unavailable,
	wire.CodeClock:         codes.Unavailable,
	wire.CodeFull:          codes.Unavailable,
	wire.CodeOverloaded:    codes.Unavailable,
	wire.CodeClosed:        codes.Unavailable,
	// Not UNAVAILABLE: clients repeat that by themselves.
	wire.CodeOutcomeUnknown: codes.Unknown,
}

// domain is that of ErrorInfo.
const domain = "ration"

// explain is what a caller is told of err, and logs what is the store's trouble.
func (s *service) explain(ctx context.Context, err error) (code wire.Code, grpc codes.Code, detail, pointer string) {
	var known *verbs.Error
	if errors.As(err, &known) {
		code, detail, pointer = known.Code, known.Detail, known.Pointer
	} else {
		code, detail = wire.CodeOf(err), wire.Explain(err)
	}
	grpc = codes.InvalidArgument
	if other, ok := statusOf[code]; ok {
		grpc = other
	}
	switch grpc {
	case codes.Unimplemented, codes.DataLoss, codes.Unavailable, codes.Unknown:
		s.failures.Failed(ctx, code, err, "protocol", "grpc")
	default:
	}
	return code, grpc, detail, pointer
}

// status is err as an answer; nil is nil.
func (s *service) status(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	code, grpc, detail, pointer := s.explain(ctx, err)
	charged := wire.ChargedNo
	if code == wire.CodeOutcomeUnknown {
		charged = wire.ChargedUnknown
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason: strings.ToUpper(string(code)), Domain: domain, Metadata: map[string]string{"charged": charged},
	}}
	switch {
	case pointer != "":
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field(pointer), Description: detail},
		}})
		detail = field(pointer) + ": " + detail
	case grpc == codes.Unavailable:
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	}
	st, failed := status.New(grpc, detail).WithDetails(details...)
	if failed != nil {
		panic(failed) // the details are made here, and the code is not OK
	}
	return st.Err()
}

// field is a JSON pointer as fields are named in protobuf: charges[0].limit.
func field(pointer string) string {
	var b strings.Builder
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		switch {
		case step[0] >= '0' && step[0] <= '9':
			fmt.Fprintf(&b, "[%s]", step)
		case b.Len() > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return b.String()
}
