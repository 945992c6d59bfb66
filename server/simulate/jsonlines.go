package simulate

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonLines reads a JSON object a line. A field of an object within is named with a point between: request.uri. Of a list the
// first value counts.
type jsonLines struct {
	fields []jsonField
	prefix []byte // of the object being read: "request."
	when   lastTime
}

type jsonField struct {
	path string
	slot int // −1: the time
}

// lastTime reads times of any form. Many lines have that of the line before.
type lastTime struct {
	text   []byte
	micros int64
}

func (l *lastTime) parse(b []byte) (micros int64, ok bool) {
	if len(b) > 0 && bytes.Equal(b, l.text) {
		return l.micros, true
	}
	if micros, ok = parseTime(b); ok {
		l.text, l.micros = append(l.text[:0], b...), micros
	}
	return micros, ok
}

func (j *jsonLines) parse(line []byte, rec *record) reason {
	rec.clear()
	rec.at = 0
	j.prefix = j.prefix[:0]
	s := jsonScan{b: line}
	s.space()
	if !s.eat('{') {
		return notItsForm
	}
	why := j.object(&s, rec)
	if why != understood {
		return why
	}
	if s.space(); s.i < len(s.b) {
		return notItsForm
	}
	if rec.at == 0 {
		return noTime
	}
	return understood
}

// object reads on behind a brace.
func (j *jsonLines) object(s *jsonScan, rec *record) reason {
	s.space()
	if s.eat('}') {
		return understood
	}
	for {
		s.space()
		if !s.eat('"') {
			return notItsForm
		}
		key, _, ok := s.text()
		if !ok {
			return openQuote
		}
		s.space()
		if !s.eat(':') {
			return notItsForm
		}
		s.space()
		field, below := j.find(key)
		switch {
		case field == nil && !below:
			ok = s.skip()
		case below && s.i < len(s.b) && s.b[s.i] == '{':
			s.i++
			n := len(j.prefix)
			j.prefix = append(append(j.prefix, key...), '.')
			why := j.object(s, rec)
			j.prefix = j.prefix[:n]
			if why != understood {
				return why
			}
		default:
			var value []byte
			value, ok = s.value(rec)
			switch {
			case !ok || field == nil:
			case field.slot >= 0:
				rec.values[field.slot] = value
			default:
				if rec.at, ok = j.when.parse(value); !ok {
					return badTime
				}
			}
		}
		if !ok {
			return notItsForm
		}
		s.space()
		switch {
		case s.eat(','):
		case s.eat('}'):
			return understood
		default:
			return notItsForm
		}
	}
}

// find is the field of this key in the object being read, and whether there are fields below it.
func (j *jsonLines) find(key []byte) (field *jsonField, below bool) {
	n := len(j.prefix)
	for i := range j.fields {
		f := &j.fields[i]
		if len(f.path) < n+len(key) || f.path[n:n+len(key)] != string(key) || f.path[:n] != string(j.prefix) {
			continue
		}
		switch {
		case len(f.path) == n+len(key):
			field = f
		case f.path[n+len(key)] == '.':
			below = true
		}
	}
	return field, below
}

// jsonScan reads JSON, leniently: what is skipped need not be valid.
type jsonScan struct {
	b []byte
	i int
}

func (s *jsonScan) space() {
	for s.i < len(s.b) && s.b[s.i] <= ' ' {
		s.i++
	}
}

func (s *jsonScan) eat(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// text reads on behind a quotation mark, to the one that ends it.
func (s *jsonScan) text() (raw []byte, escaped, ok bool) {
	from := s.i
	for {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			return nil, false, false
		}
		end := s.i + n
		slash := bytes.IndexByte(s.b[s.i:end], '\\')
		if slash < 0 {
			s.i = end + 1
			return s.b[from:end], escaped, true
		}
		escaped = true
		if s.i += slash + 2; s.i > len(s.b) {
			return nil, false, false
		}
	}
}

// skip reads over a value.
func (s *jsonScan) skip() bool {
	depth := 0
	for s.i < len(s.b) {
		c := s.b[s.i]
		s.i++
		switch c {
		case '"':
			if _, _, ok := s.text(); !ok {
				return false
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t':
			continue
		default:
			for s.i < len(s.b) && !endsWord(s.b[s.i]) {
				s.i++
			}
		}
		if depth <= 0 {
			return depth == 0
		}
	}
	return false
}

func endsWord(c byte) bool { return c == ',' || c == '}' || c == ']' || c <= ' ' }

// value reads a value as bytes: that of a string, a number or a word as it stands; of a list the first one; else, and for
// null, none.
func (s *jsonScan) value(rec *record) (value []byte, ok bool) {
	if s.i >= len(s.b) {
		return nil, false
	}
	from := s.i
	switch s.b[s.i] {
	case '"':
		s.i++
		raw, escaped, ok := s.text()
		if ok && escaped {
			from := len(rec.scratch)
			rec.scratch = unescaped(rec.scratch, raw)
			raw = rec.scratch[from:]
		}
		return raw, ok
	case '[':
		within := jsonScan{b: s.b, i: s.i + 1}
		within.space()
		if within.i < len(within.b) && within.b[within.i] != '[' && within.b[within.i] != ']' && within.b[within.i] != '{' {
			if value, ok = within.value(rec); !ok {
				return nil, false
			}
		}
		return value, s.skip()
	case '{':
		return nil, s.skip()
	}
	if !s.skip() {
		return nil, false
	}
	if value = s.b[from:s.i]; string(value) == "null" {
		value = nil
	}
	return value, true
}

// unescaped appends a string without its escapes. Wrong ones stay as they are.
func unescaped(to, raw []byte) []byte {
	for len(raw) > 0 {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 || n+1 >= len(raw) {
			return append(to, raw...)
		}
		to = append(to, raw[:n]...)
		c := raw[n+1]
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			to = append(to, "\"\\/\b\f\n\r\t"[i])
			raw = raw[n+2:]
			continue
		}
		r, ok := hex4(raw[n:])
		if !ok {
			to = append(to, raw[n], c)
			raw = raw[n+2:]
			continue
		}
		raw = raw[n+6:]
		if utf16.IsSurrogate(r) {
			if low, ok := hex4(raw); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					r, raw = pair, raw[6:]
				}
			}
		}
		to = utf8.AppendRune(to, r)
	}
	return to
}

// hex4 reads \u12ab.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
