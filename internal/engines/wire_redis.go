//go:build linux

package engines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// redisDo sends one command on a new connection. The reply is a string, an int64, nil or an []any of replies; an error
// reply is an error.
func redisDo(ctx context.Context, addr string, args ...string) (any, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return nil, err
	}
	return redisReply(bufio.NewReader(conn))
}

func redisReply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("engines: an empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, fmt.Errorf("engines: Redis says: %s", rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		return string(text[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = redisReply(in); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("engines: a reply of unknown kind %q", kind)
}

// redisText is for commands that answer a text.
func redisText(ctx context.Context, addr string, args ...string) (string, error) {
	reply, err := redisDo(ctx, addr, args...)
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("engines: %s answers %v", args[0], reply)
	}
	return text, nil
}
