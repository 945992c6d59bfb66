package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// Options of a Store. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// HTTPClient sends the requests; nil: one of the Store's own, which keeps up to 64 idle connections for a minute. A
	// client given here is not closed, and must not send a POST twice. Its redirects are refused all the same.
	HTTPClient *http.Client
	// Token is sent as "Authorization: Bearer …"; "": nothing is.
	Token string
	// Timeout of a call whose context has no deadline; default 5 s. A Limiter always sets one.
	Timeout time.Duration
}

// Store is a driver.Store on a ration server. Its methods are safe for concurrent use. Make one with New.
type Store struct {
	http    http.Client
	own     *http.Transport // nil: the caller's
	base    *url.URL        // of the API
	name    string          // of the server, for error texts
	token   string
	timeout time.Duration
	closed  atomic.Bool
}

// New makes a Store of the server at address: "http://host:port", "https://host", either with a path in front of the
// API's, or "unix:/path/to/socket". It connects at the first call. It fails if address is none of these.
func New(address string, opts *Options) (*Store, error) {
	if opts == nil {
		opts = new(Options)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("client: the address is not a URL: %w", errors.Unwrap(err))
	}
	if strings.ContainsAny(opts.Token, "\r\n") {
		return nil, errors.New("client: the token holds a line end")
	}
	s := &Store{token: opts.Token, timeout: opts.Timeout, name: u.Host}
	if s.timeout <= 0 {
		s.timeout = 5 * time.Second
	}
	switch {
	case u.User != nil:
		return nil, errors.New("client: the address holds a user; use Options.Token")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("client: the address holds a query or a fragment")
	case u.Scheme == "unix":
		return s.overSocket(u, opts)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("client: the address must be like http://host:port, https://host or unix:/path")
	}
	s.base = u.JoinPath("v1")
	if opts.HTTPClient == nil {
		s.own = transport()
		s.own.Proxy = http.ProxyFromEnvironment
		s.http.Transport = s.own
	} else {
		s.http = *opts.HTTPClient
	}
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

func (s *Store) overSocket(u *url.URL, opts *Options) (*Store, error) {
	path := u.Path
	if path == "" {
		path = u.Opaque
	}
	switch {
	case path == "" || u.Host != "":
		return nil, errors.New("client: the address of a socket must be like unix:/path")
	case opts.HTTPClient != nil:
		return nil, errors.New("client: a socket is dialed by the Store's own HTTP client; leave out Options.HTTPClient")
	}
	s.own = transport()
	var dialer net.Dialer
	s.own.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
	s.http.Transport = s.own
	s.base, s.name = &url.URL{Scheme: "http", Host: "localhost", Path: "/v1"}, path
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// transport is one for a single host. Its idle connections end before the server's do.
func transport() *http.Transport {
	const conns = 64
	return &http.Transport{
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        time.Minute,
		TLSHandshakeTimeout:    5 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Info says what is so for every server: counts that all processes on the network share. Whether they are durable, only
// the server knows. What the server's store cannot do is ration.ErrUnsupported when it is asked for.
func (s *Store) Info() driver.Info {
	return driver.Info{Kind: "server", Scope: driver.Network, Caps: driver.CapsRun | driver.CapsHolds, MaxBatch: 256, InFlight: 2}
}

// Close closes the connections, if they are the Store's own. Later calls fail with driver.ErrClosed.
func (s *Store) Close() error {
	s.closed.Store(true)
	if s.own != nil {
		s.own.CloseIdleConnections()
	}
	return nil
}

// Apply has the server decide batch, in one request; in several, if it is longer than the server reads at a time.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	body, err := wire.Encode(batch)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	if len(body) <= wire.MaxBody && len(batch) <= wire.MaxTxns {
		return s.send(ctx, body, batch)
	}
	if len(batch) == 1 {
		return fmt.Errorf("%w: the transaction is longer than a server reads", driver.ErrNotApplied)
	}
	for _, half := range [][]*driver.Txn{batch[:len(batch)/2], batch[len(batch)/2:]} {
		if err := s.Apply(ctx, half); err != nil {
			for _, t := range half {
				t.Err = err
			}
		}
	}
	return nil
}

// begin bounds ctx, if nobody has.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.closed.Load() {
		return nil, nil, driver.ErrClosed
	}
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	return ctx, cancel, nil
}

// send makes one request.
func (s *Store) send(ctx context.Context, body []byte, batch []*driver.Txn) error {
	answer, err := s.post(ctx, "apply", body)
	if err != nil {
		return err
	}
	if err := wire.DecodeAnswers(answer, batch); err != nil {
		return s.unreadable(err)
	}
	return nil
}

func (s *Store) unreadable(err error) error {
	return fmt.Errorf("ration: reading the answer of the server %s: %w", s.name, err)
}

// post is the answer to one request.
func (s *Store) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	gate := &gate{}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base.JoinPath(path).String(), gate.open(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	request.ContentLength = int64(len(body))
	// net/http asks for the body again only if not a byte of the request went out.
	request.GetBody = func() (io.ReadCloser, error) { return gate.open(body), nil }
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.http.Do(request)
	if err != nil {
		if gate.shut() {
			return nil, fmt.Errorf("%w: asking the server %s: %w", driver.ErrNotApplied, s.name, err)
		}
		return nil, fmt.Errorf("ration: asking the server %s: %w", s.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ration: the server %s answers %s: %w", s.name, response.Status, problem(response))
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, wire.MaxAnswer+1))
	if err == nil && len(answer) > wire.MaxAnswer {
		err = fmt.Errorf("it is longer than %d bytes", wire.MaxAnswer)
	}
	if err != nil {
		return nil, s.unreadable(err)
	}
	return answer, nil
}

// gate knows whether any of a request's body left our hands. A server decides nothing of a body that it does not have.
type gate struct{ state atomic.Int32 }

const (
	unread int32 = iota
	read
	isShut
)

// open is a reader of body through g.
func (g *gate) open(body []byte) io.ReadCloser { return &gated{g, bytes.NewReader(body)} }

// shut ends all reading, and reports whether nothing was read before. After that the request can do nothing any more,
// even if the transport still works on it.
func (g *gate) shut() bool { return g.state.CompareAndSwap(unread, isShut) }

type gated struct {
	gate *gate
	body *bytes.Reader
}

var errShut = errors.New("client: the call has ended")

func (r *gated) Read(p []byte) (int, error) {
	if !r.gate.state.CompareAndSwap(unread, read) && r.gate.state.Load() == isShut {
		return 0, errShut
	}
	return r.body.Read(p)
}

func (r *gated) Close() error { return nil }
