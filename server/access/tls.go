package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// TLSOptions name the files of TLS.
type TLSOptions struct {
	CertFile string // the server's certificate, with those between it and the authority, in PEM; required
	KeyFile  string // its private key, in PEM; required
	// ClientCAFile has the authorities of clients' certificates, in PEM; "": clients are not asked for one.
	ClientCAFile string
	// Optional lets clients connect that have no certificate. One that is wrong is refused all the same.
	Optional bool
	// Logger is told of changed files that cannot be used; nil: slog.Default().
	Logger *slog.Logger
	// Clock is the time between two looks at the files; nil: time.Now.
	Clock func() time.Time
}

// TLS is the TLS side of listeners. Its files are read again when they have changed, which is looked for at most once a second,
// when somebody connects: connections that are open stay, new ones see the new files. Files that are wrong are logged, and those
// before stay. It is safe for concurrent use.
type TLS struct {
	opts    TLSOptions
	files   []*watched
	current atomic.Pointer[tls.Config]
}

// NewTLS reads the files.
func NewTLS(opts *TLSOptions) (*TLS, error) {
	t := &TLS{opts: *opts}
	if t.opts.Logger == nil {
		t.opts.Logger = slog.Default()
	}
	if t.opts.Clock == nil {
		t.opts.Clock = time.Now
	}
	for _, path := range []string{opts.CertFile, opts.KeyFile, opts.ClientCAFile} {
		if path != "" {
			t.files = append(t.files, &watched{path: path})
		}
	}
	for _, f := range t.files {
		f.stamp()
	}
	cfg, err := t.read()
	if err != nil {
		return nil, err
	}
	t.current.Store(cfg)
	return t, nil
}

// Config is for a listener. It speaks TLS 1.2 and later, and HTTP/2 where both sides want it.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			t.renew()
			return t.current.Load(), nil
		},
	}
}

var protocols = []string{"h2", "http/1.1"}

func (t *TLS) read() (*tls.Config, error) {
	certPEM, err := readFile(t.opts.CertFile)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file: %w", err)
	}
	keyPEM, err := readFile(t.opts.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.key_file: %w", err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file %s, tls.key_file %s: %w", t.opts.CertFile, t.opts.KeyFile, err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{cert}}
	if t.opts.ClientCAFile == "" {
		return cfg, nil
	}
	caPEM, err := readFile(t.opts.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca_file: %w", err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(caPEM) {
		return nil, fmt.Errorf("tls.client_ca_file: %w", errors.New(t.opts.ClientCAFile+" has no certificate in PEM"))
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	if t.opts.Optional {
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return cfg, nil
}

// renew reads the files again if one has changed. A new Config has new keys for tickets, so no session goes on that an authority of
// before had let in.
func (t *TLS) renew() {
	changed, now := false, t.opts.Clock()
	for _, f := range t.files {
		changed = f.changed(now) || changed
	}
	if !changed {
		return
	}
	cfg, err := t.read()
	if err != nil {
		t.opts.Logger.Error("the changed files of TLS cannot be used; those of before stay", "error", err)
		return
	}
	t.current.Store(cfg)
	t.opts.Logger.Info("the files of TLS were read again")
}

// Ends is when the server's certificate ends, as of the files that were read last; the zero Time: it cannot be read.
func (t *TLS) Ends() time.Time {
	if leaf := t.current.Load().Certificates[0].Leaf; leaf != nil {
		return leaf.NotAfter
	}
	return time.Time{}
}
