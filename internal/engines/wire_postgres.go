//go:build linux

package engines

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
)

// pgQuery runs SQL on one new connection, by PostgreSQL's simple protocol, and answers the first column of the last row.
func pgQuery(ctx context.Context, addr, sql string) (value string, err error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	const version3 = 196608
	body := binary.BigEndian.AppendUint32(nil, version3)
	body = append(body, "user\x00postgres\x00database\x00postgres\x00\x00"...)
	if err := pgSend(conn, 0, body); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	if _, err := pgUntilReady(in); err != nil {
		return "", err
	}
	if err := pgSend(conn, 'Q', append([]byte(sql), 0)); err != nil {
		return "", err
	}
	if value, err = pgUntilReady(in); err == nil {
		err = pgSend(conn, 'X', nil)
	}
	return value, err
}

// pgSend writes a message; kind 0 is the first one, which has none.
func pgSend(conn net.Conn, kind byte, body []byte) error {
	var message []byte
	if kind != 0 {
		message = append(message, kind)
	}
	message = binary.BigEndian.AppendUint32(message, uint32(len(body)+4))
	_, err := conn.Write(append(message, body...))
	return err
}

// pgUntilReady reads messages up to ReadyForQuery.
func pgUntilReady(in *bufio.Reader) (value string, err error) {
	for {
		var head [5]byte
		if _, e := io.ReadFull(in, head[:]); e != nil {
			return value, e
		}
		size := binary.BigEndian.Uint32(head[1:])
		if size < 4 || size > 1<<20 {
			return value, fmt.Errorf("engines: a message of %d bytes", size)
		}
		body := make([]byte, size-4)
		if _, e := io.ReadFull(in, body); e != nil {
			return value, e
		}
		switch head[0] {
		case 'Z':
			return value, err
		case 'R':
			if len(body) < 4 || binary.BigEndian.Uint32(body) != 0 {
				return value, fmt.Errorf("engines: the server asks for a password")
			}
		case 'E':
			err = fmt.Errorf("engines: PostgreSQL says: %s", strings.ReplaceAll(string(body), "\x00", " "))
			if in.Buffered() == 0 && strings.Contains(string(body), "\x00VFATAL\x00") {
				return value, err
			}
		case 'D':
			if len(body) >= 6 {
				if n := int32(binary.BigEndian.Uint32(body[2:])); n >= 0 && int(n) <= len(body)-6 {
					value = string(body[6 : 6+n])
				}
			}
		}
	}
}

// dial connects, with the deadline of ctx for all that follows.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	return conn, nil
}
