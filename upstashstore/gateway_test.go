package upstashstore_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// gateway is Upstash's REST API, as far as it is documented, in front of a real Redis.
type gateway struct {
	*httptest.Server
	redis    string
	requests atomic.Int64
	commands atomic.Int64
	idle     chan *redisConn
}

const token = "secret-token-of-the-test"

func newGateway(t testing.TB, redis string) *gateway {
	t.Helper()
	g := &gateway{redis: redis, idle: make(chan *redisConn, 32)}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.Server.Close()
		close(g.idle)
		for c := range g.idle {
			c.Close()
		}
	})
	return g
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	answer := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(body)
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		answer(http.StatusUnauthorized, map[string]string{"error": "WRONGPASS invalid or missing auth token " + r.Header.Get("Authorization")})
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /":
		var cmd []string
		if err := json.Unmarshal(body, &cmd); err != nil {
			answer(http.StatusBadRequest, map[string]string{"error": "ERR " + err.Error()})
			return
		}
		status, reply := g.run(cmd)
		answer(status, reply)
	case "POST /pipeline":
		var cmds [][]string
		if err := json.Unmarshal(body, &cmds); err != nil {
			answer(http.StatusBadRequest, map[string]string{"error": "ERR " + err.Error()})
			return
		}
		replies := []any{}
		for _, cmd := range cmds {
			_, reply := g.run(cmd)
			replies = append(replies, reply)
		}
		answer(http.StatusOK, replies)
	default:
		answer(http.StatusNotFound, map[string]string{"error": "ERR no such path"})
	}
}

func (g *gateway) run(cmd []string) (status int, reply any) {
	g.commands.Add(1)
	var c *redisConn
	select {
	case c = <-g.idle:
	default:
		conn, err := net.Dial("tcp", g.redis)
		if err != nil {
			return http.StatusInternalServerError, map[string]string{"error": "ERR " + err.Error()}
		}
		c = &redisConn{conn, bufio.NewReader(conn)}
	}
	value, err := c.do(cmd)
	if err != nil {
		c.Close()
		return http.StatusInternalServerError, map[string]string{"error": "ERR " + err.Error()}
	}
	select {
	case g.idle <- c:
	default:
		c.Close()
	}
	if text, ok := value.(redisError); ok {
		return http.StatusBadRequest, map[string]string{"error": string(text)}
	}
	return http.StatusOK, map[string]any{"result": value}
}

type redisError string

type redisConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *redisConn) do(cmd []string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(cmd))
	for _, arg := range cmd {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	return c.reply()
}

func (c *redisConn) reply() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return redisError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, err
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.r, text)
		return string(text[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = c.reply(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// newAnswerer answers all requests alike.
func newAnswerer(t testing.TB, status int, body string) (url string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status == http.StatusTemporaryRedirect {
			w.Header().Set("Location", "http://127.0.0.1:1/")
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}
