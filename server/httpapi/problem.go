package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Codes that only this package makes, beside those of packages strictjson and wire.
const (
	codeMissingField         = wire.Code(strictjson.MissingField)
	codeInvalidNumber        = wire.Code(strictjson.InvalidNumber)
	codeInvalidKey           = wire.CodeInvalidKey
	codeUnexpectedQuery      = wire.Code("unexpected_query")
	codeIncompleteBody       = wire.Code("incomplete_body")
	codeBodyTooLarge         = wire.Code("body_too_large")
	codeNotFound             = wire.Code("not_found")
	codeMethodNotAllowed     = wire.Code("method_not_allowed")
	codeUnsupportedMediaType = wire.Code("unsupported_media_type")
	codeInvalidConfig        = wire.Code("invalid_config") // of a reload
	codeNoKey                = wire.Code("no_key")         // of a check
	codeQuotaExceeded        = wire.Code("quota_exceeded") // of a check
)

// statusOf is the status for each code that is not 400, bad input.
var statusOf = map[wire.Code]int{
	codeNoKey:                http.StatusForbidden,
	verbs.CodeUnauthorized:   http.StatusUnauthorized,
	verbs.CodeExpired:        http.StatusUnauthorized,
	verbs.CodeForbidden:      http.StatusForbidden,
	verbs.CodeTooMany:        http.StatusTooManyRequests,
	codeInvalidConfig:        http.StatusConflict,
	verbs.CodeNoOverride:     http.StatusNotFound,
	verbs.CodeNoTrial:        http.StatusNotFound,
	codeNotFound:             http.StatusNotFound,
	codeMethodNotAllowed:     http.StatusMethodNotAllowed,
	codeBodyTooLarge:         http.StatusRequestEntityTooLarge,
	codeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	wire.CodeOverflow:        http.StatusConflict,
	wire.CodeEnded:           http.StatusConflict,
	wire.CodeIDReused:        http.StatusConflict,
	wire.CodeNoReservation:   http.StatusNotFound,
	wire.CodeUnsupported:     http.StatusNotImplemented,
	wire.CodeCorrupt:         http.StatusInternalServerError,
	wire.CodeUnavailable:     http.StatusServiceUnavailable,
	wire.CodeClock:           http.StatusServiceUnavailable,
	wire.CodeFull:            http.StatusServiceUnavailable,
	wire.CodeOverloaded:      http.StatusServiceUnavailable,
	wire.CodeClosed:          http.StatusServiceUnavailable,
	// Not 503: clients and proxies repeat that by themselves.
	wire.CodeOutcomeUnknown: http.StatusGatewayTimeout,
}

func problem(code wire.Code, detail string) error { return verbs.Problem(code, detail) }

// notAllowed is the error of a method that a path does not have.
type notAllowed struct {
	error
	allow string // the header Allow
}

func (e *notAllowed) Unwrap() error { return e.error }

// problemOf is what a client is told of err.
func problemOf(err error) *wire.Problem {
	p := &wire.Problem{Charged: wire.ChargedNo}
	var input *strictjson.Error
	var known *verbs.Error
	switch {
	case errors.As(err, &input):
		p.Code, p.Detail, p.Pointer, p.Offset = wire.Code(input.Code), input.Detail, input.Pointer, &input.Offset
	case errors.As(err, &known):
		p.Code, p.Detail, p.Pointer = known.Code, known.Detail, known.Pointer
	default:
		p.Code, p.Detail = wire.CodeOf(err), wire.Explain(err)
	}
	if p.Code == wire.CodeOutcomeUnknown {
		p.Charged = wire.ChargedUnknown
	}
	p.Status = http.StatusBadRequest
	if status, ok := statusOf[p.Code]; ok {
		p.Status = status
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// fail answers err.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		h.log.Failed(r.Context(), p.Code, err, "path", r.Pattern, "status", p.Status)
	}
	var method *notAllowed
	if errors.As(err, &method) {
		w.Header().Set("Allow", method.allow)
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	send(w, p.Status, wire.ProblemType, body)
}

// send writes an answer.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone; nobody else can be told
}
