package verbs

import (
	"errors"

	"github.com/ration-go/ration/internal/wire"
)

// Codes that only servers make.
const (
	CodeUnknownLimit    = wire.Code("unknown_limit")    // a limit that nobody configured
	CodeNoOverride      = wire.Code("no_override")      // of a limit, for a key
	CodeNoTrial         = wire.Code("no_trial")         // nothing is tried out about a limit
	CodeInvalidOverride = wire.Code("invalid_override") // other than by its limit, its key or its time
)

// Error is an error whose code is known where it was found.
type Error struct {
	Code    wire.Code
	Detail  string
	Pointer string // RFC 6901: which field of the request; "": not known, or all of it
}

func (e *Error) Error() string { return e.Detail }

// Problem makes an Error.
func Problem(code wire.Code, detail string) error { return &Error{Code: code, Detail: detail} }

// At makes pointer the place of err, if err does not know one.
func At(pointer string, err error) error {
	var known *Error
	if errors.As(err, &known) {
		if known.Pointer == "" {
			known.Pointer = pointer
		}
		return err
	}
	return &Error{Code: wire.CodeOf(err), Detail: wire.Explain(err), Pointer: pointer}
}

// Within puts place in front of the place of err.
func Within(place string, err error) error {
	var known *Error
	if errors.As(err, &known) {
		known.Pointer = place + known.Pointer
		return known
	}
	return At(place, err)
}
