package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// target is whom a client command asks: a server over HTTP, or a store by way of the same HTTP API within the process, so
// that both answer alike.
type target struct {
	source
	server  string
	socket  string // the path of one, if that is where the server is
	secrets callerFiles
	timeout time.Duration
}

func (t *target) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&t.server, "server", "", "`URL` of the server to ask, or unix:/PATH (environment: RATION_SERVER; default http://"+DefaultListen+")")
	t.secrets.register(flags)
	flags.DurationVar(&t.timeout, "timeout", 10*time.Second, "how long to wait for the answer")
	t.source.register(cmd, func(s *setting) bool { return s.name == "store" || s.name == "namespace" })
	flags.Lookup("store").Usage = "ask this store instead of a server: sqlite:PATH or memory:"
	flags.Lookup("config").Usage = "with --store: YAML `FILE` with settings and named limits (environment: RATION_CONFIG)"
	flags.Lookup("namespace").Usage = "with --store: the namespace of its server"
}

// direct reports whether the flags name a store.
func (t *target) direct() bool {
	for _, g := range t.given {
		if g.setting == "store" {
			return true
		}
	}
	return false
}

// answer is what was answered to a call.
type answer struct {
	status int
	body   []byte
}

// call sends in to path, and answers what came back. An error means that there is no answer.
func (t *target) call(ctx context.Context, method, path string, in any) (answer, error) {
	return t.ask(ctx, method, path, nil, in)
}

// ask is call with a query.
func (t *target) ask(ctx context.Context, method, path string, query url.Values, in any) (answer, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return answer{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	base, transport, closing, err := t.open(ctx)
	if err != nil {
		return answer{}, err
	}
	u := base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.Join(err, closing())
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !t.direct() {
		if err := t.secrets.sayWho(t.program, req); err != nil {
			return answer{}, errors.Join(err, closing())
		}
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return answer{}, errors.Join(t.noAnswer(base, method, err), closing())
	}
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer{}, errors.Join(t.noAnswer(base, method, err), closing())
	}
	return answer{res.StatusCode, got}, closing()
}

// maxAnswer bounds an answer, in bytes; GET /v1/limits is the longest.
const maxAnswer = 16 << 20

func (t *target) open(ctx context.Context) (base *url.URL, transport http.RoundTripper, closing func() error, err error) {
	if !t.direct() {
		base, err := t.base()
		if err != nil {
			return nil, nil, nil, err
		}
		tr := http.DefaultTransport.(*http.Transport).Clone()
		if err := t.secrets.dialing(tr, t.socket); err != nil {
			return nil, nil, nil, err
		}
		return base, tr, func() error { tr.CloseIdleConnections(); return nil }, nil
	}
	if t.server != "" {
		return nil, nil, nil, usageError{errors.New("--server and --store exclude each other")}
	}
	cfg, err := t.load()
	if err != nil {
		return nil, nil, nil, err
	}
	// Who can open the store needs no leave of its server.
	cfg.Access, cfg.API, cfg.Audit = AccessConfig{}, APIConfig{Limit: "off", FailedLimit: "off"}, AuditConfig{}
	cfg.OTel.Endpoint = "" // one call is not worth telling a collector
	s, err := New(ctx, cfg, t.opts.forProgram(slog.New(slog.DiscardHandler), nil, nil))
	if err != nil {
		return nil, nil, nil, err
	}
	return &url.URL{Scheme: "http", Host: "store"}, inProcess{s.Handler()}, s.Close, nil
}

// base is the URL of the server.
func (t *target) base() (*url.URL, error) {
	for _, g := range t.given {
		return nil, usageError{fmt.Errorf("--%s belongs to --store; a server has its own", settingNamed(g.setting).flag())}
	}
	if t.file != "" {
		return nil, usageError{errors.New("--config belongs to --store; a server has its own")}
	}
	if err := errors.Join(Defaults().loadEnv(t.env)...); err != nil {
		return nil, err
	}
	text, where := t.server, "--server"
	if text == "" {
		text, where = t.variable(envServer), envServer
	}
	if text == "" {
		text = "http://" + DefaultListen
	}
	if path, ok := strings.CutPrefix(text, socketPrefix); ok {
		if err := checkSocket(path); err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", where, err)}
		}
		t.socket = path
		return &url.URL{Scheme: "http", Host: "localhost"}, nil
	}
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, usageError{fmt.Errorf("%s: %q is not the URL of a server, such as http://%s", where, text, DefaultListen)}
	}
	return base, nil
}

// place is where the server is, for people.
func (t *target) place(base *url.URL) string {
	if t.socket != "" {
		return socketPrefix + t.socket
	}
	return base.Redacted()
}

// noAnswer says what a failed call means for whoever made it.
func (t *target) noAnswer(base *url.URL, method string, err error) error {
	if t.direct() {
		return err
	}
	op, ok := errors.AsType[*net.OpError](err)
	if ok && op.Op == "dial" {
		if errors.Is(err, syscall.ECONNREFUSED) || t.socket != "" && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no server answers at %s; start one with \"ration serve\", name another with --server, or a store with --store", t.place(base))
		}
		return fmt.Errorf("the server at %s cannot be reached: %w", t.place(base), op.Err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", t.timeout)
	}
	if method == http.MethodGet {
		return fmt.Errorf("%s: %w", t.place(base), err)
	}
	return fmt.Errorf("%s: %w; whether it was done is unknown", t.place(base), err)
}

// inProcess answers requests by a handler.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
	}, nil
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
