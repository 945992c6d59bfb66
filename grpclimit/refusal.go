package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ration-go/ration"
)

// pushbackKey is the trailer that built-in retries of clients obey.
const pushbackKey = "grpc-retry-pushback-ms"

// refusal is o, which refuses, as a status, and its trailer. What an outage made smaller is not the caller's fault, so then it
// is UNAVAILABLE.
func refusal(o *ration.Outcome) (*status.Status, metadata.MD) {
	var details []protoadapt.MessageV1
	pushback := "-1" // there is no use in trying again
	if !o.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(o.RetryAfter)})
		pushback = strconv.FormatInt(int64((o.RetryAfter+time.Millisecond-1)/time.Millisecond), 10)
	}
	code, failure := codes.ResourceExhausted, new(errdetails.QuotaFailure)
	if o.Degraded {
		code = codes.Unavailable
	}
	each := o.Each
	if len(each) == 0 {
		each = []ration.Decision{o.Decision}
	}
	for i := range each {
		d := &each[i]
		if d.Allowed {
			continue
		}
		v := &errdetails.QuotaFailure_Violation{Subject: "limit:" + d.Name, Description: describe(d), QuotaId: d.Name, QuotaValue: d.Limit}
		failure.Violations = append(failure.Violations, v)
	}
	if code == codes.ResourceExhausted {
		details = append(details, failure)
	}
	return withDetails(status.New(code, describe(&o.Decision)), details...), metadata.Pairs(pushbackKey, pushback)
}

func describe(d *ration.Decision) string {
	switch {
	case d.Never:
		return fmt.Sprintf("the limit %s of %d can never admit this cost", d.Name, d.Limit)
	case d.Degraded:
		return fmt.Sprintf("the limit %s is kept by a part of itself during an outage, and that is used up; try again in %v", d.Name, d.RetryAfter)
	}
	return fmt.Sprintf("the limit %s of %d is used up; try again in %v", d.Name, d.Limit, d.RetryAfter)
}

func withDetails(st *status.Status, details ...protoadapt.MessageV1) *status.Status {
	full, err := st.WithDetails(details...)
	if err != nil {
		return st // the details are ours; a status without them is still right
	}
	return full
}

// statusError is an error of ours with the status that gRPC sends for it.
type statusError struct {
	status *status.Status
	cause  error
}

func (e *statusError) Error() string              { return e.cause.Error() }
func (e *statusError) Unwrap() error              { return e.cause }
func (e *statusError) GRPCStatus() *status.Status { return e.status }

// undecided is err of a decision as an answer: UNAVAILABLE, whatever it was, unless the caller has gone. Its text stays on this
// side; it may name hosts.
func undecided(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return &statusError{status.FromContextError(ctx.Err()), err}
	}
	st := withDetails(status.New(codes.Unavailable, "it could not be told whether the limits admit this call; try again"),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	return &statusError{st, err}
}
