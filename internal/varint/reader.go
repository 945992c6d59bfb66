// Package varint reads what encoding/binary's AppendVarint wrote, without a check at each number.
package varint

import "encoding/binary"

// Reader reads numbers and strings from bytes. After the first that is not there, all are 0 and Done is false.
type Reader struct {
	b   []byte
	bad bool
}

// NewReader is a Reader of b, which it does not change.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Done reports whether all was read, and nothing was missing.
func (r *Reader) Done() bool { return !r.bad && len(r.b) == 0 }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// Int reads a signed number.
func (r *Reader) Int() int64 {
	n, size := binary.Varint(r.b)
	return n * int64(r.skip(size))
}

// Uint reads an unsigned number.
func (r *Reader) Uint() uint64 {
	n, size := binary.Uvarint(r.b)
	return n * uint64(r.skip(size))
}

// String reads a length and so many bytes.
func (r *Reader) String() string {
	n := r.Uint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// skip passes over size bytes, and answers 0 if there was no number.
func (r *Reader) skip(size int) int {
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return 1
}

// Fail makes r one from which something was missing.
func (r *Reader) Fail() { r.bad = true }
