package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/httpapi"
	"github.com/ration-go/ration/server/internal/activity"
	"github.com/ration-go/ration/server/internal/apicalls"
	"github.com/ration-go/ration/server/internal/verbs"
	"github.com/ration-go/ration/server/respapi"
)

// Bounds of a connection. Calls are small and answered within the store's timeout, so what is slower is not a caller.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 15 * time.Second
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 16 << 10
	maxConns       = 4096 // at a time; further ones wait
)

// Server decides over HTTP on one store. Its methods are safe for concurrent use.
type Server struct {
	cfg     Config
	log     *slog.Logger
	limiter *ration.Limiter
	info    driver.Info
	guard   *access.Guard
	tls     *access.TLS // nil: none
	audit   *auditFile  // nil: the log
	pages   *pages
	handler http.Handler
	// activity is nil if the configuration has no dashboard.
	activity *activity.Recorder
	rpc      *services        // nil: none
	resp     *respapi.Service // nil: none

	api      *httpapi.Handler
	decide   *verbs.Service // that of all protocols
	reloader reloader
	stop     context.CancelFunc // of what runs in the background
	running  sync.WaitGroup

	instruments *instruments
}

// New opens the store that cfg names and makes the HTTP service over it. It does not listen: use Serve or Listen, or mount
// Handler in a server of your own. Close it in the end.
//
// Errors say what is wrong and what to do.
func New(ctx context.Context, cfg *Config, opts *Options) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts = opts.resolved()
	s := &Server{cfg: *cfg, log: opts.Logger}
	secret, err := readSecret(cfg.KeySecretFile)
	if err != nil {
		return nil, err
	}
	if err = s.openAccess(secret); err != nil {
		return nil, err
	}
	if s.instruments, err = newInstruments(ctx, cfg, opts.Version, s.log); err != nil {
		return nil, errors.Join(err, s.closeAccess())
	}
	store, err := opts.open(ctx, cfg)
	if err != nil {
		s.instruments.close()
		return nil, errors.Join(err, s.closeAccess())
	}
	s.info = store.Info()
	s.limiter = ration.New(store, &ration.Options{
		Namespace: cfg.Namespace,
		KeySecret: secret,
		OnError:   cfg.OnError,
		Outage:    &cfg.Outage,

		RememberRefusals: cfg.RememberRefusals,
		Timeout:          cfg.Timeout,
		Logger:           s.log,
		Observer:         s.instruments.limits.Observer(),
	})
	s.reloader = reloader{cfg: s.cfg, read: opts.Load, level: opts.level, secret: secretDigest(secret)}
	limits, err := verbs.NewLimits(cfg.Limits, cfg.trials()...)
	if err == nil {
		s.decide, err = verbs.New(s.limiter, store, nil, cfg.Timeout)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.decide.SetLimits(limits)
	if cfg.dashboardServed() {
		s.activity = activity.New(namesOf(cfg.Limits), &activity.Options{Secret: secret, ClearKeys: cfg.Dashboard.ClearKeys})
		s.decide.Activity = s.activity
	}
	checks, err := cfg.httpChecks()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.followOverrides(ctx)
	reload := s.Reload
	if opts.Load == nil {
		reload = nil
	}
	s.api, err = httpapi.New(s.limiter, store, &httpapi.Options{
		Decide: s.decide, Checks: checks, Logger: s.log, Version: opts.Version, Timeout: cfg.Timeout, Reload: reload,
		Stored: s.instruments.limits.Observer().Stored,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.guard.Open(access.SessionPath)
	s.pages = &pages{api: s.api, at: map[string]http.Handler{access.SessionPath: s.guard.Session()}}
	if cfg.Metrics.Enabled && cfg.Metrics.Listen == "" {
		s.pages.at[metricsPath] = s.instruments.page(s.log)
	}
	if s.activity != nil {
		s.guard.Open(s.pages.addDashboard()...)
	}
	s.handler = s.guard.Handler(sameOrigin(s.pages))
	if cfg.GRPC.Listen != "" {
		if s.rpc, err = newServices(s, store); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if cfg.RESP.Listen != "" {
		if s.resp, err = newRESP(s, store); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := s.instruments.begin(ctx, s, store); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// minSecret is what ration.Options.KeySecret asks for.
const minSecret = 16

func readSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key_secret_file: %w", err)
	}
	secret = bytes.TrimRight(secret, "\r\n")
	if len(secret) < minSecret {
		return nil, fmt.Errorf("key_secret_file: %s holds %d bytes; a secret has at least %d", path, len(secret), minSecret)
	}
	return secret, nil
}

// Handler answers the HTTP API.
func (s *Server) Handler() http.Handler { return s.handler }

// Close closes the store, after the calls under way. A second Close does nothing.
func (s *Server) Close() error {
	if s.rpc != nil && s.rpc.health != nil {
		s.rpc.health.Shutdown()
	}
	if s.stop != nil {
		s.stop()
	}
	s.running.Wait()
	err := s.limiter.Close()
	s.instruments.close() // after the last call to the store
	return errors.Join(err, s.closeAccess())
}

// Listen opens the address of the configuration. It fails if other machines could reach it and nobody is asked who they are.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	return s.listen(ctx, settingNamed("listen"))
}

// listen opens the address of a setting.
func (s *Server) listen(ctx context.Context, at *setting) (net.Listener, error) {
	address, flag := at.get(&s.cfg), "--"+at.flag()
	var l net.Listener
	var err error
	if path, ok := strings.CutPrefix(address, socketPrefix); ok {
		l, err = listenSocket(ctx, path, s.cfg.SocketMode)
	} else {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("%s is in use by another program, or by another ration; stop that one, or choose another port with %s", address, flag)
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("no permission for %s; choose a port above 1023 with %s", address, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = fmt.Errorf("%s is not an address of this machine; choose another with %s", address, flag)
	case err != nil:
		err = fmt.Errorf("%w; choose another address with %s", err, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.name, err)
	}
	if err := s.beyond(at.name, l); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", at.name, err), l.Close())
	}
	return l, nil
}

// Serve answers on l until ctx is done. Then it takes no new calls, lets those under way end, for at most the
// configuration's ShutdownTimeout, and returns nil, or an error if some had to be cut off. It closes l, but not the Server.
//
// On loopback it answers calls of localhost, of addresses, and of the configuration's Hosts only.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	handler := s.handler
	if onLoopback(l) {
		handler = knownHost(s.cfg.Hosts, handler)
	}
	if s.cfg.Dashboard.Serve == dashboardAuto && !local(l) {
		handler = withoutDashboard(handler)
	}
	l = s.overTLS(s.instruments.calls.Listener(bounded(l, maxConns), apicalls.HTTP))
	hs := &http.Server{
		Handler:           s.instruments.calls.HTTP(s.logged(handler)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + s.cfg.Timeout + headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&faultLog{log: s.log}, "", 0),
		BaseContext: func(net.Listener) context.Context {
			return httpapi.WithStopping(context.WithoutCancel(ctx), ctx.Done()) // calls under way end by themselves
		},
	}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.log.Info("stopping; calls under way are finished")
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownTimeout)
	defer cancel()
	err := hs.Shutdown(bound)
	if err != nil {
		err = fmt.Errorf("calls were cut off after %v: %w", s.cfg.ShutdownTimeout, errors.Join(err, hs.Close()))
	}
	<-failed
	return err
}

// logged tells of each call at level debug: what and how long, not for whom. A path is shown as the handler knows it; callers
// may put anything into theirs.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.log.Enabled(r.Context(), slog.LevelDebug) { // a reload can change the level
			next.ServeHTTP(w, r)
			return
		}
		start := time.Now()
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(status, r)
		s.log.Debug("call", "method", known(r.Method), "path", r.Pattern, "status", status.status, "duration", time.Since(start))
	})
}

// known is method, if it is one of HTTP's; what else callers put there may be anything.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// describe is what the store promises, in words.
func describe(info driver.Info) string {
	shared := map[driver.Scope]string{
		driver.Process: "of this process alone",
		driver.Machine: "shared by this machine",
		driver.Network: "shared over the network",
	}[info.Scope]
	if info.Durable {
		return shared + ", durable"
	}
	return shared + ", not durable"
}
