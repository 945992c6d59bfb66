package httplimit

import (
	"strconv"
	"strings"
)

// This is as much of structured fields (RFC 9651) as the RateLimit fields need: lists and dictionaries of single items with
// parameters. A field that is malformed anywhere is ignored as a whole, as that standard demands.

// item is a member of a list or dictionary.
type item struct {
	key    string // in a dictionary
	value  value
	params []param // the last one of a name counts
	text   string  // as it was written
}

type param struct {
	name  string
	value value
}

// value is a bare item.
type value struct {
	kind valueKind
	text string // of a string or token; of others as written
	n    int64  // of an integer
}

type valueKind uint8

const (
	anInteger valueKind = iota + 1
	aDecimal
	aString
	aToken
	aByteSequence
	aBoolean
	aDate
	aDisplayString
)

// count is the parameter of one of the names, if it is a count: an integer, 0 or more.
func (it *item) count(names ...string) (n int64, ok bool) {
	for _, name := range names {
		if v, found := it.param(name); found && v.kind == anInteger && v.n >= 0 {
			return v.n, true
		}
	}
	return 0, false
}

func (it *item) param(name string) (v value, ok bool) {
	for i := range it.params {
		if it.params[i].name == name {
			v, ok = it.params[i].value, true
		}
	}
	return v, ok
}

// parseList reads a list; the lines of a field are joined with commas before.
func parseList(s string) ([]item, bool) { return parseMembers(s, (*fieldParser).listMember) }

// parseDictionary reads a dictionary.
func parseDictionary(s string) ([]item, bool) {
	return parseMembers(s, (*fieldParser).dictionaryMember)
}

func parseMembers(s string, member func(*fieldParser) (item, bool)) (items []item, ok bool) {
	p := &fieldParser{s: strings.Trim(s, " ")}
	for p.more() {
		start := p.i
		it, ok := member(p)
		if !ok {
			return nil, false
		}
		it.text = p.s[start:p.i]
		items = append(items, it)
		p.skip(" \t")
		if !p.more() {
			break
		}
		if !p.take(',') {
			return nil, false
		}
		p.skip(" \t")
		if !p.more() {
			return nil, false // a comma at the end
		}
	}
	return items, true
}

type fieldParser struct {
	s string
	i int
}

func (p *fieldParser) more() bool { return p.i < len(p.s) }

// peek is the next byte; 0 at the end, which no grammar here has.
func (p *fieldParser) peek() byte {
	if p.more() {
		return p.s[p.i]
	}
	return 0
}

func (p *fieldParser) take(c byte) bool {
	if p.peek() != c || !p.more() {
		return false
	}
	p.i++
	return true
}

func (p *fieldParser) skip(set string) {
	for p.more() && strings.IndexByte(set, p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *fieldParser) listMember() (it item, ok bool) {
	if it.value, ok = p.bare(); !ok {
		return it, false
	}
	it.params, ok = p.parameters()
	return it, ok
}

func (p *fieldParser) dictionaryMember() (it item, ok bool) {
	if it.key, ok = p.key(); !ok {
		return it, false
	}
	it.value = value{kind: aBoolean, text: "?1"}
	if p.take('=') {
		if it.value, ok = p.bare(); !ok {
			return it, false
		}
	}
	it.params, ok = p.parameters()
	return it, ok
}

func (p *fieldParser) parameters() (params []param, ok bool) {
	for p.take(';') {
		p.skip(" ")
		name, ok := p.key()
		if !ok {
			return nil, false
		}
		v := value{kind: aBoolean, text: "?1"}
		if p.take('=') {
			if v, ok = p.bare(); !ok {
				return nil, false
			}
		}
		params = append(params, param{name, v})
	}
	return params, true
}

func (p *fieldParser) key() (string, bool) {
	start := p.i
	if c := p.peek(); !isLower(c) && c != '*' {
		return "", false
	}
	for c := p.peek(); isLower(c) || isDigit(c) || c == '_' || c == '-' || c == '.' || c == '*'; c = p.peek() {
		p.i++
	}
	return p.s[start:p.i], true
}

func (p *fieldParser) bare() (v value, ok bool) {
	start := p.i
	switch c := p.peek(); {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		p.i++
		return p.quoted()
	case c == '*' || isLetter(c):
		for isTokenByte(p.peek()) {
			p.i++
		}
		return value{kind: aToken, text: p.s[start:p.i]}, true
	case c == ':':
		p.i++
		for c := p.peek(); isLetter(c) || isDigit(c) || c == '+' || c == '/' || c == '='; c = p.peek() {
			p.i++
		}
		ok = p.take(':')
		return value{kind: aByteSequence, text: p.s[start:p.i]}, ok
	case c == '?':
		p.i++
		ok = p.take('0') || p.take('1')
		return value{kind: aBoolean, text: p.s[start:p.i]}, ok
	case c == '@':
		p.i++
		v, ok = p.number()
		return value{kind: aDate, text: v.text, n: v.n}, ok && v.kind == anInteger
	case c == '%':
		p.i++
		if !p.take('"') {
			return v, false
		}
		return p.display(start)
	}
	return v, false
}

// number is an integer of at most 15 digits, or a decimal of 12 and 3.
func (p *fieldParser) number() (v value, ok bool) {
	start := p.i
	p.take('-')
	whole := p.digits()
	if whole == 0 || whole > 15 {
		return v, false
	}
	if p.peek() == '.' && p.more() {
		p.i++
		part := p.digits()
		return value{kind: aDecimal, text: p.s[start:p.i]}, whole <= 12 && part >= 1 && part <= 3
	}
	n, err := strconv.ParseInt(p.s[start:p.i], 10, 64)
	return value{kind: anInteger, text: p.s[start:p.i], n: n}, err == nil
}

func (p *fieldParser) digits() (n int) {
	for isDigit(p.peek()) {
		p.i++
		n++
	}
	return n
}

// quoted is the rest of a string, behind its first quote.
func (p *fieldParser) quoted() (v value, ok bool) {
	var b strings.Builder
	for p.more() {
		c := p.s[p.i]
		p.i++
		switch {
		case c == '"':
			return value{kind: aString, text: b.String()}, true
		case c == '\\':
			if c = p.peek(); c != '"' && c != '\\' {
				return v, false
			}
			p.i++
		case c < 0x20 || c > 0x7e:
			return v, false
		}
		b.WriteByte(c)
	}
	return v, false
}

// display is the rest of a display string. Its text is left as written.
func (p *fieldParser) display(start int) (v value, ok bool) {
	for p.more() {
		c := p.s[p.i]
		p.i++
		switch {
		case c == '"':
			return value{kind: aDisplayString, text: p.s[start:p.i]}, true
		case c == '%':
			if !isLowerHex(p.peek()) {
				return v, false
			}
			p.i++
			if !isLowerHex(p.peek()) {
				return v, false
			}
			p.i++
		case c < 0x20 || c > 0x7e:
			return v, false
		}
	}
	return v, false
}

func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isLower(c byte) bool    { return 'a' <= c && c <= 'z' }
func isLetter(c byte) bool   { return isLower(c) || 'A' <= c && c <= 'Z' }
func isLowerHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' }

func isTokenByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
