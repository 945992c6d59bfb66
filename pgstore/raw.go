package pgstore

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The reply is read without pgx's types: most of the time of a caller with many decisions would go there.

// readValues takes over the only row of an answer: an array of numbers and, from some functions, one of texts.
func (p *reply) readValues(fields []pgconn.FieldDescription, values [][]byte) (err error) {
	if len(values) == 0 || len(values) > 2 || len(values) != len(fields) {
		return errReply
	}
	if fields[0].Format == pgx.BinaryFormatCode {
		p.nums, err = binaryNumbers(values[0])
	} else {
		p.nums, err = textNumbers(values[0])
	}
	if err == nil && len(values) == 2 && values[1] != nil {
		p.names, err = hexTexts(values[1], fields[1].Format == pgx.BinaryFormatCode)
	}
	return err
}

// hexTexts reads a text[] of hexadecimal digits. Bytes are sent like that because a setting of the database decides how
// they look otherwise.
func hexTexts(b []byte, isBinary bool) ([][]byte, error) {
	digits := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
	var texts [][]byte
	if isBinary {
		var err error
		if b, err = elements(b); err != nil {
			return nil, err
		}
	}
	for len(b) > 0 {
		n, start := 0, 0
		switch {
		case isBinary:
			if len(b) < 4 {
				return nil, errReply
			}
			n, start = int(binary.BigEndian.Uint32(b)), 4
		case b[0] == '"': // an empty one
			start = 2
		case !digits(b[0]):
			b = b[1:]
			continue
		default:
			for n < len(b) && digits(b[n]) {
				n++
			}
		}
		if n < 0 || start+n > len(b) {
			return nil, errReply
		}
		text, err := hex.AppendDecode(nil, b[start:start+n])
		if err != nil {
			return nil, errReply
		}
		texts, b = append(texts, text), b[start+n:]
	}
	return texts, nil
}

// elements is what follows the head of an array of any dimensions.
func elements(b []byte) ([]byte, error) {
	if len(b) < 12 {
		return nil, errReply
	}
	dims := int(binary.BigEndian.Uint32(b))
	if dims < 0 || dims > 2 || len(b) < 12+8*dims {
		return nil, errReply
	}
	return b[12+8*dims:], nil
}

// binaryNumbers reads an int8[] of any dimensions.
func binaryNumbers(b []byte) ([]int64, error) {
	b, err := elements(b)
	if err != nil {
		return nil, err
	}
	if len(b)%12 != 0 {
		return nil, errReply
	}
	nums := make([]int64, len(b)/12)
	for i := range nums {
		if binary.BigEndian.Uint32(b) != 8 { // null, or something else
			return nil, errReply
		}
		nums[i] = int64(binary.BigEndian.Uint64(b[4:]))
		b = b[12:]
	}
	return nums, nil
}

// textNumbers reads the same as text: {{1,2},{3,4}}.
func textNumbers(b []byte) ([]int64, error) {
	var nums []int64
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '{' || c == '}' || c == ',':
			i++
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(b) && b[end] >= '0' && b[end] <= '9' {
				end++
			}
			n, err := strconv.ParseInt(string(b[i:end]), 10, 64)
			if err != nil {
				return nil, errReply
			}
			nums, i = append(nums, n), end
		default:
			return nil, errReply
		}
	}
	return nums, nil
}
