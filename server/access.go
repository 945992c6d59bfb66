package server

import (
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
	case local(l) || s.guard.On():
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
