package simulate

import "bytes"

// combined reads the common log format of Apache, nginx and others, and the combined one, which has the referrer and the
// user agent behind it. More may follow.
//
//	203.0.113.9 - alice [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "https://example.org/" "curl/8"
type combined struct {
	slots [combinedFields]int // −1: not wanted
	when  commonTime
	last  int // of the wanted ones
}

// combinedFields are the fields in their order.
const combinedFields = 9

var combinedNames = [combinedFields]string{
	fieldAddress, fieldIdent, fieldUser, fieldMethod, fieldPath, fieldStatus, fieldBytes, fieldReferer, fieldUserAgent,
}

func newCombined(want wanted) (*combined, error) {
	c := &combined{}
	for i := range c.slots {
		c.slots[i] = -1
	}
	for slot, field := range want {
		found := false
		for i, name := range combinedNames {
			if found = name == field; found {
				c.slots[i] = slot
				c.last = max(c.last, i)
				break
			}
		}
		if !found {
			return nil, missing(field, combinedNames[:])
		}
	}
	return c, nil
}

func (c *combined) set(rec *record, field int, value []byte) {
	if slot := c.slots[field]; slot >= 0 {
		if len(value) == 1 && value[0] == '-' {
			value = nil
		}
		rec.values[slot] = value
	}
}

func (c *combined) parse(line []byte, rec *record) reason {
	rec.clear()
	i := bytes.IndexByte(line, ' ')
	if i <= 0 {
		return notItsForm
	}
	c.set(rec, 0, line[:i])
	line = line[i+1:]
	// The user may have spaces.
	open := bytes.IndexByte(line, '[')
	if open < 2 || line[open-1] != ' ' {
		return notItsForm
	}
	ident, user, ok := bytes.Cut(line[:open-1], space)
	if !ok {
		return notItsForm
	}
	c.set(rec, 1, ident)
	c.set(rec, 2, user)
	line = line[open+1:]
	if len(line) < commonLen+len(`] "`) {
		return notItsForm
	}
	if rec.at, ok = c.when.parse(line[:commonLen]); !ok {
		return badTime
	}
	if line = line[commonLen:]; line[0] != ']' || line[1] != ' ' || line[2] != '"' {
		return notItsForm
	}
	request, line, ok := cutQuoted(line[3:])
	if !ok {
		return openQuote
	}
	method, target, _ := bytes.Cut(request, space)
	c.set(rec, 3, method)
	c.set(rec, 4, pathOf(target))
	if len(line) < 5 || line[0] != ' ' {
		return notItsForm
	}
	status := line[1:4]
	for _, d := range status {
		if d < '0' || d > '9' {
			return badStatus
		}
	}
	if line[4] != ' ' {
		return badStatus
	}
	c.set(rec, 5, status)
	if c.last < 6 {
		return understood
	}
	size, line, _ := bytes.Cut(line[5:], space)
	c.set(rec, 6, size)
	for field := 7; field <= c.last; field++ {
		if len(line) == 0 || line[0] != '"' {
			return understood // a common log has none
		}
		var value []byte
		if value, line, ok = cutQuoted(line[1:]); !ok {
			return openQuote
		}
		c.set(rec, field, value)
		line = bytes.TrimPrefix(line, space)
	}
	return understood
}

var space = []byte{' '}

// cutQuoted cuts at the first quotation mark that no backslash stands before. Escapes stay as they are: equal values have
// equal ones.
func cutQuoted(b []byte) (value, rest []byte, ok bool) {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return nil, nil, false
		}
		i += from
		slashes := 0
		for slashes < i && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return b[:i], b[i+1:], true
		}
		from = i + 1
	}
}

// pathOf is the path of a request's target, which may have a protocol behind it, or a method too.
func pathOf(target []byte) []byte {
	if len(target) > 0 && target[0] != '/' {
		if method, rest, ok := bytes.Cut(target, space); ok && !bytes.ContainsAny(method, ":/") {
			target = rest
		}
	}
	for i, c := range target {
		if c == ' ' || c == '?' {
			return target[:i]
		}
	}
	return target
}
