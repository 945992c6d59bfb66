package respapi

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/internal/rpctest"
)

func TestMain(m *testing.M) { rpctest.Main(m) }

// remote is a store in memory that is asked as one far away would be: calls that are under way together travel together.
type remote struct {
	driver.Store
	fail func([]*driver.Txn) error // in place of the call
	far  time.Duration             // what a call takes, in a time bubble
}

func (s *remote) Info() driver.Info {
	info := s.Store.Info()
	info.Instant, info.MaxBatch = false, 128
	return info
}

func (s *remote) Apply(ctx context.Context, batch []*driver.Txn) error {
	if s.fail != nil {
		if err := s.fail(batch); err != nil {
			return err
		}
	}
	if s.far > 0 {
		<-time.After(s.far)
	}
	return s.Store.Apply(ctx, batch)
}

// limits are those of the tests' configuration.
var limits = []ration.Rule{
	{Name: "chat", Limit: ration.SlidingWindow{Limit: 2, Window: time.Hour}},
	{Name: "slots", Limit: ration.Concurrency{Limit: 2, Lease: time.Minute}},
	{Name: "local", Limit: ration.FixedWindow{Limit: 4, Window: time.Hour}, OnError: ration.LocalOnError},
	{Name: "open", Limit: ration.FixedWindow{Limit: 4, Window: time.Hour}, OnError: ration.AllowOnError},
}

// env is a service that can be connected to.
type env struct {
	service *Service
	limiter *ration.Limiter
	addr    string
	stop    context.CancelFunc
	ended   chan error
}

// start serves on loopback, or on l if there is one.
func start(t testing.TB, store driver.Store, l net.Listener, limiterOpts *ration.Options, opts *Options) *env {
	t.Helper()
	if limiterOpts == nil {
		limiterOpts = new(ration.Options)
	}
	if opts == nil {
		opts = new(Options)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	limiterOpts.Logger = slog.New(slog.DiscardHandler)
	opts.Limits = limits
	e := &env{limiter: ration.New(store, limiterOpts), ended: make(chan error, 1)}
	var err error
	if e.service, err = New(e.limiter, store, opts); err != nil {
		t.Fatal(err)
	}
	if l == nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	e.addr = l.Addr().String()
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	go func() { e.ended <- e.service.Serve(ctx, l) }()
	t.Cleanup(func() {
		e.stop()
		if err := <-e.ended; err != nil {
			t.Error(err)
		}
		if err := e.limiter.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func inMemory(t testing.TB) *env { return start(t, memstore.New(nil), nil, nil, nil) }

// client is a connection without a library.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (e *env) dial(t testing.TB) *client {
	t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { c.Close() })
	return &client{t, c, bufio.NewReader(c)}
}

// sent is a command as it is sent.
func sent(args ...string) string {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, arg := range args {
		b.WriteString("$" + strconv.Itoa(len(arg)) + "\r\n" + arg + "\r\n")
	}
	return b.String()
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// do sends a line of words as a command, and answers its reply as readReply shows it.
func (c *client) do(line string) string {
	c.t.Helper()
	c.send(sent(strings.Fields(line)...))
	return c.reply()
}

func (c *client) reply() string {
	c.t.Helper()
	text, err := readReply(c.r)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// closed reports whether the server has closed the connection.
func (c *client) closed() bool {
	n, err := c.r.Read(make([]byte, 1))
	return n == 0 && err != nil && !isTimeout(err)
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// readReply reads a reply: "[0 16 15 -1 2]", "OK", "{server ration …}", "nil", or "-ERR …".
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	if len(text) != len(line)-3 {
		return "", &net.ParseError{Type: "reply", Text: line}
	}
	n := 0
	if strings.IndexByte("$*%", kind) >= 0 {
		if n, err = strconv.Atoi(text); err != nil {
			return "", err
		}
	}
	switch kind {
	case '-':
		return line[:len(line)-2], nil
	case '+', ':':
		return text, nil
	case '_':
		return "nil", nil
	case '$':
		if n < 0 {
			return "nil", nil
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return "", err
		}
		return string(body[:n]), nil
	case '*', '%':
		ends := "[]"
		if kind == '%' {
			ends, n = "{}", 2*n
		}
		parts := make([]string, n)
		for i := range parts {
			if parts[i], err = readReply(r); err != nil {
				return "", err
			}
		}
		return ends[:1] + strings.Join(parts, " ") + ends[1:], nil
	}
	return "", &net.ParseError{Type: "reply", Text: line}
}

// pipes is a listener in memory, for time bubbles.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(t testing.TB) *client {
	a, b := net.Pipe()
	p.conns <- b
	t.Cleanup(func() { a.Close() })
	return &client{t, a, bufio.NewReader(a)}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
