package respapi

import "bytes"

// Bounds of a command.
const (
	maxArgs    = 64
	maxCommand = 16 << 10 // bytes, as it is sent
	maxHeader  = 16       // bytes of a length, with its sign and end
)

// protocolError is what is wrong with bytes that are no command. What follows them cannot be read either.
type protocolError string

func (e protocolError) Error() string { return "protocol error: " + string(e) }

const (
	errNoArray  = protocolError("a command is an array of strings, and begins with *")
	errNoString = protocolError("an argument is a string with its length, and begins with $")
	errLength   = protocolError("a length is a number in digits, and ends with CR LF")
	errEnd      = protocolError("a string does not end where its length says")
	errTooMany  = protocolError("a command has at most 64 arguments")
	errTooLong  = protocolError("a command has at most 16 KiB")
)

// parse reads the command that b begins with: its arguments, which are parts of b, are appended to args. n is how many bytes it
// has, 0 if b does not hold all of it. A command may have no arguments, and is to be ignored then; so may an empty line, which
// redis-cli sends at the end of a pipe.
func parse(b []byte, args [][]byte) (command [][]byte, n int, err error) {
	if len(b) > 0 && b[0] == '\r' {
		switch {
		case len(b) == 1:
			return nil, 0, nil
		case b[1] == '\n':
			return args, 2, nil
		}
	}
	count, n, err := header(b, '*', errNoArray)
	if n == 0 || err != nil {
		return nil, 0, err
	}
	if count > maxArgs {
		return nil, 0, errTooMany
	}
	for range count {
		size, head, err := header(b[n:], '$', errNoString)
		if err != nil {
			return nil, 0, err
		}
		end := n + head + size
		if end+2 > maxCommand {
			return nil, 0, errTooLong
		}
		if head == 0 || len(b) < end+2 {
			return nil, 0, nil
		}
		if b[end] != '\r' || b[end+1] != '\n' {
			return nil, 0, errEnd
		}
		args = append(args, b[n+head:end:end])
		n = end + 2
	}
	return args, n, nil
}

// header reads a length behind its kind; n is 0 if b ends before it does.
func header(b []byte, kind byte, other protocolError) (length, n int, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	if b[0] != kind {
		return 0, 0, other
	}
	end := bytes.IndexByte(b[:min(len(b), maxHeader)], '\n')
	if end < 0 && len(b) < maxHeader {
		return 0, 0, nil
	}
	if end < 3 || b[end-1] != '\r' {
		return 0, 0, errLength
	}
	for _, digit := range b[1 : end-1] {
		if digit < '0' || digit > '9' {
			return 0, 0, errLength
		}
		length = min(length*10+int(digit-'0'), maxCommand)
	}
	return length, end + 1, nil
}
