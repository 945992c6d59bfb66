package access

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration"
)

// Options of a Guard. The zero value, and a nil pointer, mean that everybody may do everything.
type Options struct {
	// Namespace is the server's own, which scopes without @ are about.
	Namespace string
	// Tokens are those of the configuration.
	Tokens []Token
	// TokensFile names a file of further ones, as ParseTokens reads it; "": none. It is read again when it has changed, which is
	// looked for at most once a second, when somebody calls. A file that is wrong is logged, and what was read before stays.
	TokensFile string
	// Certificates say what holders of client certificates may do. They count where the connection has verified one.
	Certificates []Certificate
	// On asks callers who they are even if nothing above names any.
	On bool

	// Limit is how often one caller may ask the server at all; nil: no limit. A caller is a token or a certificate, or where access
	// is off an address (of IPv6 its /64).
	Limit ration.Limit
	// FreeOnLoopback excepts callers of this machine from Limit.
	FreeOnLoopback bool
	// FailedLimit is how often an address may fail to say who it is, before it is told to wait; nil: no limit. It never keeps out
	// who does say it.
	FailedLimit ration.Limit

	// KeySecret is the server's secret for keys, so that fingerprints of keys and sessions of the dashboard are the same on all
	// servers that have it; nil: a random one.
	KeySecret []byte
	// Audit gets a line for each admin action; nil: Logger, with audit=true.
	Audit *slog.Logger
	// Logger is told of files that cannot be read; nil: slog.Default(). Tokens and keys are not logged.
	Logger *slog.Logger

	// Clock is the time; nil: time.Now.
	Clock func() time.Time
}

// Guard finds out whose calls are, and bounds how many there may be. Its methods are safe for concurrent use. Close it in the
// end.
type Guard struct {
	opts  Options
	on    bool
	known atomic.Pointer[table]

	reading sync.Mutex // of the configured tokens and certificates, and of the file

	file   watched
	limits limits
	secret []byte // of sessions and fingerprints
	open   openPaths
	marks  *ration.Limiter // for fingerprints
	owners owners
}

// table is who is known. It is not changed.
type table struct {
	tokens       []Token
	certificates []Certificate
}

// New makes a Guard. It fails if the file of tokens cannot be read or is wrong.
func New(opts *Options) (*Guard, error) {
	g := &Guard{}
	if opts != nil {
		g.opts = *opts
	}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.Default()
	}
	if g.opts.Clock == nil {
		g.opts.Clock = time.Now
	}
	g.on = g.opts.On || len(g.opts.Tokens) > 0 || g.opts.TokensFile != "" || len(g.opts.Certificates) > 0
	g.file = watched{path: g.opts.TokensFile}
	g.open.exact = map[string]bool{healthPath: true}
	var err error
	if g.secret, err = secretFrom(g.opts.KeySecret); err != nil {
		return nil, fmt.Errorf("access: %w", err)
	}
	if err := g.read(); err != nil {
		return nil, err
	}
	g.marks = newMarks(&g.opts)
	if err := g.limits.start(&g.opts); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close ends what the Guard counts with. A second Close does nothing.
func (g *Guard) Close() error { return errors.Join(g.limits.close(), g.marks.Close()) }

// On reports whether callers are asked who they are.
func (g *Guard) On() bool { return g.on }

// read makes the table anew, of what is configured and the file.
func (g *Guard) read() error {
	g.reading.Lock()
	defer g.reading.Unlock()
	return g.readWith(g.opts.Tokens, g.opts.Certificates)
}

// Set makes these the tokens and certificates of the configuration from now on, beside those of the file. If the file is wrong now,
// nothing changes.
func (g *Guard) Set(tokens []Token, certificates []Certificate) error {
	g.reading.Lock()
	defer g.reading.Unlock()
	if err := g.readWith(tokens, certificates); err != nil {
		return err
	}
	g.opts.Tokens, g.opts.Certificates = tokens, certificates
	return nil
}

func (g *Guard) readWith(configured []Token, certificates []Certificate) error {
	all := append([]Token(nil), configured...)
	if g.file.path != "" {
		g.file.stamp() // before it is read: a change in between is seen by the next look
		data, err := readFile(g.file.path)
		if err != nil {
			return fmt.Errorf("access.tokens_file: %w", err)
		}
		tokens, err := ParseTokens(data)
		if err != nil {
			return fmt.Errorf("access.tokens_file: %s: %w", g.file.path, err)
		}
		all = append(all, tokens...)
	}
	if err := CheckTokens(all); err != nil {
		return fmt.Errorf("access.tokens: %w", err)
	}
	g.known.Store(&table{all, certificates})
	return nil
}

const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s: %d bytes are more than %d", path, info.Size(), maxFile)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// renew reads the file of tokens again if it has changed.
func (g *Guard) renew(now time.Time) {
	if g.file.path == "" || !g.file.changed(now) {
		return
	}
	before := len(g.known.Load().tokens)
	if err := g.read(); err != nil {
		g.opts.Logger.Error("the changed file of tokens cannot be used; the tokens of before stay", "error", err)
		g.record(nil, Action{What: "tokens", Outcome: "failed"})
		return
	}
	tokens := g.known.Load().tokens
	g.opts.Logger.Info("the file of tokens was read again", "tokens", len(tokens))
	g.record(nil, Action{What: "tokens", Outcome: "done", Attrs: []slog.Attr{slog.Int("before", before), slog.Int("now", len(tokens))}})
}

// Reload reads the file of tokens now, whether it has changed or not. What was read before stays if it is wrong.
func (g *Guard) Reload() error { return g.read() }

// find is the token of this hash. Each of them is compared, in constant time, whatever came of the others: how long it takes
// says how many there are, and nothing of what they are.
func (t *table) find(h *Hash) *Token {
	at := -1
	for i := range t.tokens {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(h[:], t.tokens[i].Hash[:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return &t.tokens[at]
}

// Identify is the caller who presented token, from an address without a port. The error is a *Refusal: of a token that is not
// known or has expired, or of an address that has failed too often.
func (g *Guard) Identify(token, from string) (*Caller, error) {
	if !g.on {
		return &Caller{From: from, guard: g, all: true}, nil
	}
	now := g.opts.Clock()
	g.renew(now)
	h, err := HashOf(token)
	if err != nil {
		return nil, g.failed(from, unknownToken)
	}
	t := g.known.Load().find(&h)
	if t == nil {
		return nil, g.failed(from, unknownToken)
	}
	return g.callerOf(t, from, now)
}

func (g *Guard) callerOf(t *Token, from string, now time.Time) (*Caller, error) {
	if !t.Expires.IsZero() && !now.Before(t.Expires) {
		return nil, g.failed(from, expired)
	}
	return &Caller{Name: t.Name, From: from, Expires: t.Expires, guard: g, scopes: t.Scopes, hash: t.Hash}, nil
}

var (
	unknownToken = &Refusal{Status: http.StatusUnauthorized, Code: CodeUnauthorized, Detail: "this server does not know this token"}
	expired      = &Refusal{Status: http.StatusUnauthorized, Code: CodeExpired, Detail: "this token has expired; ask who runs the server for another"}
)

// Still is c as it is now, for connections that live long: its token may have been removed, changed, or have expired since.
func (g *Guard) Still(c *Caller) (*Caller, error) {
	if !g.on || c.hash == (Hash{}) {
		return c, nil
	}
	now := g.opts.Clock()
	g.renew(now)
	t := g.known.Load().find(&c.hash)
	if t == nil {
		return nil, unknownToken
	}
	return g.callerOf(t, c.From, now)
}

// Connected is the caller at the other end of a connection by its certificate, which state has verified; Nobody if it has none. It
// is for protocols whose connections say once who they are.
func (g *Guard) Connected(state *tls.ConnectionState, from string) *Caller {
	if c := g.ofCertificate(state, from); g.on && c != nil {
		return c
	}
	return g.Nobody(from)
}

// Missing counts that a caller at an address should have said who it is, and is the *Refusal.
func (g *Guard) Missing(from string) error { return g.failed(from, unauthorized) }

// Nobody is the caller at an address who did not say who it is: who may do everything if access is off, and else nothing.
func (g *Guard) Nobody(from string) *Caller { return &Caller{From: from, guard: g, all: !g.on} }
