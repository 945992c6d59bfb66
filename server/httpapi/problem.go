package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
)

// Codes that only this package makes, beside those of packages strictjson and wire.
const (
	codeMissingField         = wire.Code(strictjson.MissingField)
	codeInvalidNumber        = wire.Code(strictjson.InvalidNumber)
	codeInvalidKey           = wire.CodeInvalidKey
	codeInvalidLimit         = wire.CodeInvalidLimit
	codeUnknownLimit         = wire.Code("unknown_limit")
	codeUnexpectedQuery      = wire.Code("unexpected_query")
	codeIncompleteBody       = wire.Code("incomplete_body")
	codeBodyTooLarge         = wire.Code("body_too_large")
	codeNotFound             = wire.Code("not_found")
	codeMethodNotAllowed     = wire.Code("method_not_allowed")
	codeUnsupportedMediaType = wire.Code("unsupported_media_type")
)

// statusOf is the status for each code that is not 400, bad input.
var statusOf = map[wire.Code]int{
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

// A problemError is an error whose code is known where it was found.
type problemError struct {
	code    wire.Code
	detail  string
	pointer string
	allow   string // for codeMethodNotAllowed
}

func (e *problemError) Error() string { return e.detail }

func problem(code wire.Code, detail string) error { return &problemError{code: code, detail: detail} }

// at makes pointer the place of err, if err does not know one.
func at(pointer string, err error) error {
	var known *problemError
	if errors.As(err, &known) {
		if known.pointer == "" {
			known.pointer = pointer
		}
		return err
	}
	return &problemError{code: wire.CodeOf(err), detail: wire.Explain(err), pointer: pointer}
}

// problemOf is what a client is told of err.
func problemOf(err error) *wire.Problem {
	p := &wire.Problem{Charged: wire.ChargedNo}
	var input *strictjson.Error
	var known *problemError
	switch {
	case errors.As(err, &input):
		p.Code, p.Detail, p.Pointer, p.Offset = wire.Code(input.Code), input.Detail, input.Pointer, &input.Offset
	case errors.As(err, &known):
		p.Code, p.Detail, p.Pointer = known.code, known.detail, known.pointer
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
	h.log.failed(r, p, err)
	var known *problemError
	if errors.As(err, &known) && known.allow != "" {
		w.Header().Set("Allow", known.allow)
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
