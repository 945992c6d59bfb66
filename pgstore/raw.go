package pgstore

import (
	"encoding/binary"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// The reply is read without pgx's types: most of the time of a caller with many decisions would go there.

// read takes over the only row of rows: an array of numbers and, from one function, one of texts.
func (p *reply) read(rows pgx.Rows) error {
	fields, values := rows.FieldDescriptions(), rows.RawValues()
	if len(values) == 0 || len(values) != len(fields) {
		return errReply
	}
	var err error
	if fields[0].Format == pgx.BinaryFormatCode {
		p.nums, err = binaryNumbers(values[0])
	} else {
		p.nums, err = textNumbers(values[0])
	}
	if err == nil && len(values) > 1 && len(values[1]) > 0 {
		err = rows.Scan(nil, &p.names)
	}
	return err
}

// binaryNumbers reads an int8[] of any dimensions.
func binaryNumbers(b []byte) ([]int64, error) {
	if len(b) < 12 {
		return nil, errReply
	}
	dims := int(binary.BigEndian.Uint32(b))
	if dims < 0 || dims > 2 || len(b) < 12+8*dims {
		return nil, errReply
	}
	b = b[12+8*dims:]
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
