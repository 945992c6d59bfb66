package respapi

import (
	"strconv"
	"strings"
)

// replies are answers, as they are sent.
type replies struct {
	buf   []byte
	proto int // 2 or 3
}

func (r *replies) line(kind byte, text string) {
	r.buf = append(r.buf, kind)
	r.buf = append(r.buf, text...)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *replies) number(kind byte, n int64) {
	r.buf = append(r.buf, kind)
	r.buf = strconv.AppendInt(r.buf, n, 10)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *replies) ok()             { r.line('+', "OK") }
func (r *replies) integer(n int64) { r.number(':', n) }
func (r *replies) array(n int)     { r.number('*', int64(n)) }

func (r *replies) bulk(text string) {
	r.number('$', int64(len(text)))
	r.buf = append(r.buf, text...)
	r.buf = append(r.buf, '\r', '\n')
}

// pairs begins a map of n keys, each followed by its value.
func (r *replies) pairs(n int) {
	if r.proto == 3 {
		r.number('%', int64(n))
		return
	}
	r.array(2 * n)
}

func (r *replies) null() {
	if r.proto == 3 {
		r.line('_', "")
		return
	}
	r.number('$', -1)
}

// Kinds of errors; clients look at the first word.
const (
	kindError       = "ERR"
	kindUnavailable = "UNAVAILABLE"
	kindProtocol    = "NOPROTO"
	kindNoAuth      = "NOAUTH"
	kindWrongPass   = "WRONGPASS"
	kindNoPerm      = "NOPERM"
)

var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

func (r *replies) fail(kind, text string) { r.line('-', kind+" "+oneLine.Replace(text)) }
