package strictjson

import (
	"fmt"
	"strings"
)

// Code says what kind of error it is; it is stable, for machines.
type Code string

// The codes.
const (
	InvalidJSON    Code = "invalid_json"    // not JSON
	InvalidUnicode Code = "invalid_unicode" // bytes that are not UTF-8, or half a surrogate pair
	InvalidNumber  Code = "invalid_number"  // a fraction, an exponent, or beyond ±(2^53 − 1)
	UnknownField   Code = "unknown_field"
	DuplicateField Code = "duplicate_field"
	MissingField   Code = "missing_field"
	WrongType      Code = "wrong_type"
)

// Error says what was wrong and where.
type Error struct {
	Code    Code
	Pointer string // RFC 6901: the value that was wrong, or the object that lacks or has a name; "" is the whole
	Offset  int    // in bytes from the start of the input
	Detail  string // a sentence for people
}

// Error is the place and the detail.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("at byte %d: %s", e.Offset, e.Detail)
	}
	return fmt.Sprintf("%s, at byte %d: %s", e.Pointer, e.Offset, e.Detail)
}

// step is one part of the way from the whole to a value.
type step struct {
	name  string // of a field; "": an element
	index int
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(path []step) string {
	var b strings.Builder
	for _, s := range path {
		b.WriteByte('/')
		if s.name == "" {
			fmt.Fprint(&b, s.index)
		} else {
			_, _ = pointerEscapes.WriteString(&b, s.name) // a Builder does not fail
		}
	}
	return b.String()
}
