package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"go.yaml.in/yaml/v4"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/yamlnode"
)

// AccessConfig says who may call the server. Without tokens and certificates everybody may who can connect. See package access.
type AccessConfig struct {
	// Tokens are lines as access.ParseToken reads them.
	Tokens []string
	// TokensFile names a file of further tokens, which is read again when it has changed; "", the default: none.
	TokensFile string
	// Certificates are lines as access.ParseCertificate reads them, for callers with client certificates.
	Certificates []string
	// Insecure lets the server listen beyond this machine without asking anybody who they are.
	Insecure bool
}

// TLSConfig is for all listeners but sockets. The files are read again when they have changed.
type TLSConfig struct {
	CertFile     string // in PEM; "", the default: no TLS
	KeyFile      string // in PEM
	ClientCAFile string // authorities of clients' certificates, in PEM; "": clients are not asked for one
	ClientAuth   string // "require", the default; or "optional": clients without a certificate have tokens
}

// AuditConfig says where admin actions are noted.
type AuditConfig struct {
	File string // JSON lines are appended to it; "", the default: the log, with audit=true
}

// APIConfig bounds how often the server may be asked.
type APIConfig struct {
	// Limit is of one caller, as a limit's text: a token or a certificate, or where nobody is asked an address. "off" is none; "",
	// the default, is DefaultAPILimit, for addresses but those of this machine.
	Limit string
	// FailedLimit is how often an address may fail to say who it is; "off" is none, "", the default, is DefaultFailedLimit.
	FailedLimit string
}

// Limits on the server itself, unless it was told otherwise.
const (
	DefaultAPILimit    = "bucket 50000/1s burst 100000"
	DefaultFailedLimit = "bucket 10/1m burst 30"
)

// on reports whether callers are asked who they are.
func (c *AccessConfig) on() bool {
	return len(c.Tokens) > 0 || c.TokensFile != "" || len(c.Certificates) > 0
}

// limitOrOff is a limit's text as a limit; nil if it is off.
func limitOrOff(text, absent string) (ration.Limit, error) {
	switch text {
	case "off":
		return nil, nil
	case "":
		text = absent
	}
	limit, err := ration.ParseLimit(text)
	if err == nil {
		if _, slots := limit.(ration.Concurrency); slots {
			err = errors.New("a limit of the kind concurrent is for reservations")
		}
	}
	return limit, err
}

// parsed is c as package access has it. The error has all faults.
func (c *AccessConfig) parsed() (opts access.Options, err error) {
	var faults []error
	for i, line := range c.Tokens {
		t, err := access.ParseToken(line)
		if err != nil {
			faults = append(faults, fault{name: fmt.Sprintf("access.tokens[%d]", i), err: err})
			continue
		}
		opts.Tokens = append(opts.Tokens, t)
	}
	if err := access.CheckTokens(opts.Tokens); err != nil {
		faults = append(faults, fault{name: "access.tokens", err: err})
	}
	for i, line := range c.Certificates {
		one, err := access.ParseCertificate(line)
		if err != nil {
			faults = append(faults, fault{name: fmt.Sprintf("access.certificates[%d]", i), err: err})
			continue
		}
		opts.Certificates = append(opts.Certificates, one)
	}
	opts.TokensFile = c.TokensFile
	return opts, errors.Join(faults...)
}

// validateAccess is what is wrong with what says who may call.
func (c *Config) validateAccess() (faults []error) {
	wrong := func(name, text string) { faults = append(faults, fault{name: name, err: errors.New(text)}) }
	if _, err := c.Access.parsed(); err != nil {
		faults = append(faults, err)
	}
	t := &c.TLS
	switch {
	case t.CertFile == "" && t.KeyFile != "":
		wrong("tls.key_file", "a key is of a certificate; set tls.cert_file too")
	case t.CertFile != "" && t.KeyFile == "":
		wrong("tls.cert_file", "a certificate has a key; set tls.key_file too")
	case t.CertFile == "" && t.ClientCAFile != "":
		wrong("tls.client_ca_file", "clients show certificates over TLS; set tls.cert_file and tls.key_file too")
	}
	switch {
	case t.ClientCAFile != "" && !c.Access.on():
		wrong("tls.client_ca_file", "nothing says what clients may do; add access.certificates, such as \"edge dns:edge.example.com take\", or access.tokens_file")
	case t.ClientCAFile == "" && len(c.Access.Certificates) > 0:
		wrong("access.certificates", "no authority of clients' certificates is trusted; set tls.client_ca_file")
	}
	return faults
}

// newTLS is what listeners speak; nil if they do not.
func (c *TLSConfig) newTLS(log *slog.Logger) (*access.TLS, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return access.NewTLS(&access.TLSOptions{
		CertFile: c.CertFile, KeyFile: c.KeyFile, ClientCAFile: c.ClientCAFile, Optional: c.ClientAuth == "optional", Logger: log,
	})
}

// overTLS is l with TLS, if it is no socket and there is TLS.
func (s *Server) overTLS(l net.Listener) net.Listener {
	if !s.secure(l) {
		return l
	}
	return tls.NewListener(l, s.tls.Config())
}

// secure reports whether what is served on l is over TLS.
func (s *Server) secure(l net.Listener) bool {
	_, socket := l.Addr().(*net.UnixAddr)
	return s.tls != nil && !socket
}

// url is how to call the server on l.
func (s *Server) url(l net.Listener) string {
	switch addr := l.Addr().(type) {
	case *net.UnixAddr:
		return socketPrefix + addr.Name
	default:
		if s.secure(l) {
			return "https://" + addr.String()
		}
		return "http://" + addr.String()
	}
}

// newGuard makes what asks callers who they are.
func newGuard(cfg *Config, secret []byte, log *slog.Logger, audit io.Writer) (*access.Guard, error) {
	opts, err := cfg.Access.parsed()
	if err != nil {
		return nil, err
	}
	opts.Namespace, opts.KeySecret, opts.Logger = cfg.Namespace, secret, log
	if opts.Limit, err = limitOrOff(cfg.API.Limit, DefaultAPILimit); err != nil {
		return nil, fault{name: "api.limit", err: err}
	}
	opts.FreeOnLoopback = cfg.API.Limit == ""
	if opts.FailedLimit, err = limitOrOff(cfg.API.FailedLimit, DefaultFailedLimit); err != nil {
		return nil, fault{name: "api.failed_limit", err: err}
	}
	if audit != nil {
		opts.Audit = slog.New(slog.NewJSONHandler(audit, nil))
	}
	return access.New(&opts)
}

// accessLists reads the lists of access: lines of text.
func (f *file) accessLists(name string, value *yaml.Node) (read bool) {
	var to *[]string
	var check func(line string) error
	switch name {
	case "access.tokens":
		to = &f.config.Access.Tokens
		check = func(line string) error { _, err := access.ParseToken(line); return err }
	case "access.certificates":
		to = &f.config.Access.Certificates
		check = func(line string) error { _, err := access.ParseCertificate(line); return err }
	default:
		return false
	}
	value = yamlnode.Followed(value)
	if value.Kind != yaml.SequenceNode {
		f.fault(value, name, errors.New("this must be a list of lines of text"))
		return true
	}
	for i, node := range value.Content {
		at := fmt.Sprintf("%s[%d]", name, i)
		line, ok := f.nodes.Text(node, at)
		if !ok {
			continue
		}
		if err := check(line); err != nil {
			f.fault(node, at, err)
			continue
		}
		*to = append(*to, line)
	}
	return true
}

// beyond is an error if l can be reached from other machines and nobody is asked who they are.
func (s *Server) beyond(name string, l net.Listener) error {
	switch {
	case local(l):
		return nil
	case s.guard.On():
		if !s.secure(l) {
			s.log.Warn("other machines can reach this server without TLS: whoever is on the way can read tokens and keys; set tls.cert_file and tls.key_file, or have a proxy do it",
				name, l.Addr().String())
		}
		return nil
	case s.cfg.Access.Insecure:
		s.log.Warn("INSECURE: other machines can reach this server, and whoever can connect can charge and reset, because access.insecure is set",
			name, l.Addr().String())
		return nil
	}
	return fmt.Errorf("other machines could reach %s, and nobody would be asked who they are; give callers tokens (\"ration token new\" makes one "+
		"for access.tokens_file), or certificates (tls.client_ca_file and access.certificates), or listen on 127.0.0.1; "+
		"access.insecure=true serves everybody all the same", l.Addr())
}

// local reports whether only this machine can reach l.
func local(l net.Listener) bool {
	_, socket := l.Addr().(*net.UnixAddr)
	return socket || onLoopback(l)
}

// pages answers at certain paths, and leaves the others to the API, whose ids may hold escaped slashes that a ServeMux would
// change.
type pages struct {
	at  map[string]http.Handler // exact paths
	api http.Handler
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if page := p.at[r.URL.Path]; page != nil && r.URL.RawPath == "" {
		r.Pattern = r.URL.Path
		page.ServeHTTP(w, r)
		return
	}
	p.api.ServeHTTP(w, r)
}

// openAccess makes what asks callers who they are.
func (s *Server) openAccess(secret []byte) (err error) {
	if s.tls, err = s.cfg.TLS.newTLS(s.log); err != nil {
		return err
	}
	var audit io.Writer
	if s.cfg.Audit.File != "" {
		if s.audit, err = openAudit(s.cfg.Audit.File); err != nil {
			return err
		}
		audit = s.audit
	}
	if s.guard, err = newGuard(&s.cfg, secret, s.log, audit); err != nil {
		return errors.Join(err, s.closeAccess())
	}
	return nil
}

func (s *Server) closeAccess() (err error) {
	if s.guard != nil {
		err = s.guard.Close()
	}
	if s.audit != nil {
		err = errors.Join(err, s.audit.Close())
	}
	return err
}

// Guard is what asks the callers of s who they are. Handler does; a gRPC server of one's own needs its Unary and Stream.
func (s *Server) Guard() *access.Guard { return s.guard }
