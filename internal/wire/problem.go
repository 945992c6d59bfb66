package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// Code is the stable name of an error on the wire.
type Code string

// Codes of errors that a store or a Limiter can have. Those of input that cannot be read are the codes of package
// strictjson, and more at package httpapi.
const (
	CodeInvalidKey     Code = "invalid_key"
	CodeInvalidLimit   Code = "invalid_limit"
	CodeInvalidCost    Code = "invalid_cost"
	CodeInvalidTime    Code = "invalid_time"
	CodeInvalidID      Code = "invalid_id"
	CodeInvalidTxn     Code = "invalid_txn"
	CodeInvalidAmounts Code = "invalid_amounts"
	CodeOverflow       Code = "overflow"
	CodeCrossGroup     Code = "cross_group"
	CodeUnsupported    Code = "unsupported"
	CodeFull           Code = "full"
	CodeEnded          Code = "ended"
	CodeIDReused       Code = "id_reused"
	CodeNoReservation  Code = "no_reservation"
	CodeClock          Code = "clock"
	CodeCorrupt        Code = "corrupt"
	CodeClosed         Code = "closed"
	CodeOverloaded     Code = "overloaded"
	CodeUnavailable    Code = "unavailable"     // the store could not be reached; nothing was charged
	CodeOutcomeUnknown Code = "outcome_unknown" // the store failed, and it may have been charged
)

// known are the errors with a code of their own, each before those that it implies.
var known = []struct {
	err  error
	code Code
}{
	{driver.ErrAmounts, CodeInvalidAmounts}, // which a Limiter wraps in an ErrInvalidCost
	{ration.ErrInvalidKey, CodeInvalidKey},
	{ration.ErrInvalidLimit, CodeInvalidLimit},
	{ration.ErrInvalidCost, CodeInvalidCost},
	{ration.ErrInvalidTime, CodeInvalidTime},
	{ration.ErrInvalidID, CodeInvalidID},
	{ErrInvalidTxn, CodeInvalidTxn},
	{driver.ErrOverflow, CodeOverflow},
	{driver.ErrCrossGroup, CodeCrossGroup},
	{ration.ErrUnsupported, CodeUnsupported},
	{driver.ErrFull, CodeFull},
	{driver.ErrEnded, CodeEnded},
	{driver.ErrIDReused, CodeIDReused},
	{driver.ErrNoHold, CodeNoReservation},
	{driver.ErrClock, CodeClock},
	{driver.ErrCorrupt, CodeCorrupt},
	{driver.ErrClosed, CodeClosed},
	{ration.ErrOverloaded, CodeOverloaded},
}

// CodeOf is the code of an error of a store or a Limiter. What is not known to have changed nothing is CodeOutcomeUnknown.
func CodeOf(err error) Code {
	if errors.Is(err, ration.ErrOutcomeUnknown) {
		return CodeOutcomeUnknown
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return k.code
		}
	}
	if errors.Is(err, driver.ErrNotApplied) {
		return CodeUnavailable
	}
	return CodeOutcomeUnknown
}

// Err is the error that c stands for, with detail as its text; CodeOf(c.Err("")) is c again, for a code of this package.
// It wraps driver.ErrNotApplied, but for CodeOutcomeUnknown and for a code that is not known here, of which nothing is
// sure.
func (c Code) Err(detail string) error {
	for _, k := range known {
		if k.code == c {
			return &remote{k.err, detail}
		}
	}
	if c == CodeUnavailable {
		return &remote{driver.ErrNotApplied, detail}
	}
	return fmt.Errorf("ration: %s: %s", c, detail)
}

// remote is an error of a kind that changes nothing, with words of its own.
type remote struct {
	kind   error
	detail string
}

func (e *remote) Error() string {
	if e.detail == "" {
		return e.kind.Error()
	}
	return "ration: " + e.detail
}

func (e *remote) Unwrap() []error { return []error{e.kind, driver.ErrNotApplied} }

// Explain is what a person who gets the code of err should know: err's own text if that is about the request, else a
// sentence. Texts of stores stay on the server; they may name its files and hosts.
func Explain(err error) string {
	switch CodeOf(err) {
	case CodeUnavailable:
		if errors.Is(err, context.DeadlineExceeded) {
			return "the store did not answer in time; nothing was charged"
		}
		return "the store could not decide; nothing was charged"
	case CodeOutcomeUnknown:
		return "the store failed after it may have charged; do not repeat this blindly"
	case CodeCorrupt:
		return driver.ErrCorrupt.Error()
	case CodeFull:
		return driver.ErrFull.Error()
	case CodeClock:
		return driver.ErrClock.Error()
	case CodeClosed:
		return "the server is closing; nothing was charged"
	}
	return strings.ReplaceAll(err.Error(), "ration: ", "")
}

// Problem is the body of every answer that is an error: application/problem+json of RFC 9457.
type Problem struct {
	Title   string `json:"title"`  // of the status
	Status  int    `json:"status"` // as in the status line
	Code    Code   `json:"code"`
	Detail  string `json:"detail"`
	Charged string `json:"charged"`           // Charged… below
	Pointer string `json:"pointer,omitempty"` // RFC 6901: which value of the request
	Offset  *int   `json:"offset,omitempty"`  // in bytes from the start of the request's body
}

// What a Problem says about charges.
const (
	ChargedNo      = "no"
	ChargedUnknown = "unknown"
)

// ProblemType is the content type of a Problem.
const ProblemType = "application/problem+json"
