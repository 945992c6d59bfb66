package strictjson

import (
	"strings"
	"unicode/utf8"
)

// A Decoder reads one input from start to end. Its methods are for types that are an Unmarshaler.
type Decoder struct {
	data []byte // valid UTF-8
	pos  int
	path []step
}

// Kind is what a JSON value is, as told by its first byte.
type Kind uint8

// The kinds. Invalid is also the end of the input.
const (
	Invalid Kind = iota
	Object
	Array
	String
	Number
	Bool
	Null
)

// String is the kind with its article, for error texts.
func (k Kind) String() string {
	return [...]string{"no value", "an object", "a list", "a string", "a number", "a boolean", "null"}[k]
}

// Next is the kind of the value that comes next.
func (d *Decoder) Next() Kind {
	d.space()
	if d.pos == len(d.data) {
		return Invalid
	}
	switch c := d.data[d.pos]; c {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return Number
		}
	}
	return Invalid
}

// Error is an *Error about what comes next.
func (d *Decoder) Error(code Code, detail string) error { return d.errorAt(d.pos, code, detail) }

func (d *Decoder) errorAt(offset int, code Code, detail string) error {
	return &Error{Code: code, Pointer: pointer(d.path), Offset: offset, Detail: detail}
}

// want is an error unless the next value is a k.
func (d *Decoder) want(k Kind, what string) error {
	switch next := d.Next(); next {
	case k:
		return nil
	case Invalid:
		return d.notJSON("a value")
	default:
		return d.Error(WrongType, "this must be "+what+", not "+next.String())
	}
}

// notJSON is the error for a byte where something else was expected.
func (d *Decoder) notJSON(expected string) error {
	if d.pos == len(d.data) {
		return d.Error(InvalidJSON, "the input ends where "+expected+" was expected")
	}
	return d.Error(InvalidJSON, "this is not JSON: "+expected+" was expected")
}

func (d *Decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\r', '\n':
			d.pos++
		default:
			return
		}
	}
}

// skip moves over c, if it comes next.
func (d *Decoder) skip(c byte) bool {
	d.space()
	if d.pos < len(d.data) && d.data[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

// list reads what stands between open and end, element by element.
func (d *Decoder) list(open, end byte, element func() error) error {
	d.skip(open)
	if d.skip(end) {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if d.skip(end) {
			return nil
		}
		if !d.skip(',') {
			return d.notJSON("a comma or " + string(end))
		}
	}
}

// Elements reads a list, and calls element for each of its values, which it must read.
func (d *Decoder) Elements(element func(i int) error) error {
	if err := d.want(Array, "a list"); err != nil {
		return err
	}
	i := 0
	d.path = append(d.path, step{})
	err := d.list('[', ']', func() error {
		d.path[len(d.path)-1].index = i
		i++
		return element(i - 1)
	})
	d.path = d.path[:len(d.path)-1]
	return err
}

// fields reads an object, and calls field for each of its names, after which the value stands. offset is where the name
// began.
func (d *Decoder) fields(field func(name string, offset int) error) error {
	return d.list('{', '}', func() error {
		if d.Next() != String {
			return d.notJSON("a name in quotes")
		}
		offset := d.pos
		name, err := d.text()
		if err != nil {
			return err
		}
		if !d.skip(':') {
			return d.notJSON("a colon")
		}
		return field(name, offset)
	})
}

// Null reads null, if it comes next.
func (d *Decoder) Null() (bool, error) {
	if d.Next() != Null {
		return false, nil
	}
	return true, d.word("null")
}

// Bool reads true or false.
func (d *Decoder) Bool() (bool, error) {
	if err := d.want(Bool, "true or false"); err != nil {
		return false, err
	}
	if d.data[d.pos] == 't' {
		return true, d.word("true")
	}
	return false, d.word("false")
}

func (d *Decoder) word(w string) error {
	if !strings.HasPrefix(string(d.data[d.pos:min(len(d.data), d.pos+len(w))]), w) {
		return d.notJSON(w)
	}
	d.pos += len(w)
	return nil
}

// maxDigits is how many digits 2^53 − 1 has.
const maxDigits = 16

// maxNumber is the greatest number.
const maxNumber = 1<<53 - 1

// Int reads a whole number within ±(2^53 − 1).
func (d *Decoder) Int() (int64, error) {
	if err := d.want(Number, "a whole number"); err != nil {
		return 0, err
	}
	start := d.pos
	negative := d.data[d.pos] == '-'
	if negative {
		d.pos++
	}
	first := d.pos
	n := int64(0)
	for ; d.pos < len(d.data) && '0' <= d.data[d.pos] && d.data[d.pos] <= '9'; d.pos++ {
		if d.pos-first < maxDigits {
			n = n*10 + int64(d.data[d.pos]-'0')
		}
	}
	digits := d.pos - first
	switch {
	case digits == 0:
		return 0, d.notJSON("a digit")
	case digits > 1 && d.data[first] == '0':
		return 0, d.errorAt(start, InvalidJSON, "this is not JSON: a number does not begin with 0")
	case d.pos < len(d.data) && strings.IndexByte(".eE", d.data[d.pos]) >= 0:
		return 0, d.errorAt(start, InvalidNumber, "a number must be whole, in digits only, without a point or an exponent")
	case digits > maxDigits || n > maxNumber:
		return 0, d.errorAt(start, InvalidNumber, "a number must be within ±(2^53 − 1), that is ±9007199254740991")
	case negative && n == 0:
		return 0, d.errorAt(start, InvalidNumber, "a number must be in digits only; write 0 for −0")
	case negative:
		n = -n
	}
	return n, nil
}

// Text reads a string.
func (d *Decoder) Text() (string, error) {
	if err := d.want(String, "a string"); err != nil {
		return "", err
	}
	return d.text()
}

func (d *Decoder) text() (string, error) {
	d.pos++
	start := d.pos
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c == '"':
			s := string(d.data[start:d.pos])
			d.pos++
			return s, nil
		case c == '\\':
			return d.escaped(append([]byte(nil), d.data[start:d.pos]...))
		case c < ' ':
			return "", d.Error(InvalidJSON, "this is not JSON: a control character in a string must be escaped")
		}
		d.pos++
	}
	return "", d.notJSON("the end of a string")
}

// escaped reads the rest of a string that has an escape; b is what came before.
func (d *Decoder) escaped(b []byte) (string, error) {
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		switch {
		case c == '"':
			d.pos++
			return string(b), nil
		case c < ' ':
			return "", d.Error(InvalidJSON, "this is not JSON: a control character in a string must be escaped")
		case c != '\\':
			b = append(b, c)
			d.pos++
			continue
		}
		r, err := d.escape()
		if err != nil {
			return "", err
		}
		b = utf8.AppendRune(b, r)
	}
	return "", d.notJSON("the end of a string")
}

// escape reads one escape, or two that are a surrogate pair.
func (d *Decoder) escape() (rune, error) {
	const names, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	start := d.pos
	if d.pos+1 == len(d.data) {
		d.pos++
		return 0, d.notJSON("the rest of an escape")
	}
	if i := strings.IndexByte(names, d.data[d.pos+1]); i >= 0 {
		d.pos += 2
		return rune(meanings[i]), nil
	}
	r, ok := d.hex()
	if !ok {
		return 0, d.errorAt(start, InvalidJSON, "this is not JSON: there is no such escape in a string")
	}
	const high, low, end = 0xD800, 0xDC00, 0xE000
	if r < high || end <= r {
		return r, nil
	}
	if r < low {
		if second, ok := d.hex(); ok && low <= second && second < end {
			return (r-high)<<10 + (second - low) + 0x10000, nil
		}
	}
	return 0, d.errorAt(start, InvalidUnicode, "half a surrogate pair is no character; give a key of arbitrary bytes in base64")
}

// hex reads \uXXXX.
func (d *Decoder) hex() (r rune, ok bool) {
	const length = 6
	if len(d.data)-d.pos < length || d.data[d.pos] != '\\' || d.data[d.pos+1] != 'u' {
		return 0, false
	}
	for _, c := range d.data[d.pos+2 : d.pos+length] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	d.pos += length
	return r, true
}
