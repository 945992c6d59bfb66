package simulate

import "bytes"

// csvLines reads fields between separators, which stand in quotation marks if they have separators; a field does not go on
// in the next line.
type csvLines struct {
	separator byte
	slots     []int // by column; −1: the time, notWanted
	when      lastTime
}

const notWanted = -2

func (c *csvLines) parse(line []byte, rec *record) reason {
	rec.clear()
	rec.at = 0
	for column := 0; ; column++ {
		slot := notWanted
		if column < len(c.slots) {
			slot = c.slots[column]
		}
		value, rest, more, ok := cutField(line, c.separator, slot != notWanted, rec)
		if !ok {
			return openQuote
		}
		switch {
		case slot >= 0:
			rec.values[slot] = value
		case slot != notWanted && len(value) > 0:
			if rec.at, ok = c.when.parse(value); !ok {
				return badTime
			}
		}
		if !more || column >= len(c.slots) {
			break
		}
		line = rest
	}
	if rec.at == 0 {
		return noTime
	}
	return understood
}

// cutField cuts the first field off a line. more is whether there is another.
func cutField(line []byte, separator byte, keep bool, rec *record) (value, rest []byte, more, ok bool) {
	if len(line) == 0 || line[0] != '"' {
		i := bytes.IndexByte(line, separator)
		if i < 0 {
			return line, nil, false, true
		}
		return line[:i], line[i+1:], true, true
	}
	doubled := false
	i := 1
	for {
		n := bytes.IndexByte(line[i:], '"')
		if n < 0 {
			return nil, nil, false, false
		}
		if i += n + 1; i >= len(line) || line[i] != '"' {
			break
		}
		doubled = true
		i++
	}
	value = line[1 : i-1]
	if doubled && keep {
		from := len(rec.scratch)
		for n := 0; n < len(value); n++ {
			if rec.scratch = append(rec.scratch, value[n]); value[n] == '"' {
				n++
			}
		}
		value = rec.scratch[from:]
	}
	switch {
	case i == len(line):
		return value, nil, false, true
	case line[i] != separator:
		return nil, nil, false, false
	}
	return value, line[i+1:], true, true
}
