package access

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ration-go/ration/internal/wire"
)

// healthPath is asked by what watches over the server, often, and without a token.
const healthPath = "/healthz"

// openPaths are those that need no token.
type openPaths struct {
	exact  map[string]bool
	within []string // all below these, which end in /
}

// Open lets everybody ask for paths, beside /healthz: a page to log in at, and what it is made of. A path that ends in a slash
// is all below it too. Call it before Handler serves.
func (g *Guard) Open(paths ...string) {
	for _, p := range paths {
		g.open.exact[p] = true
		if strings.HasSuffix(p, "/") && p != "/" {
			g.open.within = append(g.open.within, p)
		}
	}
}

func (o *openPaths) has(r *http.Request) bool {
	p := r.URL.Path
	if o.exact[p] {
		return true
	}
	for _, begin := range o.within {
		// A path that is not plain may lead elsewhere.
		if strings.HasPrefix(p, begin) && r.URL.RawPath == "" && path.Clean(p) == strings.TrimSuffix(p, "/") {
			return true
		}
	}
	return false
}

// Handler asks who is calling before next answers, and refuses who does not say: 401. The caller is in the request's context
// then. It also bounds how often each may call: 429. Only the paths of Open are answered to everybody.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := g.open.has(r)
		caller, err := g.callerIn(r, open)
		if err == nil && r.URL.Path != healthPath {
			err = g.Count(caller, 1)
		}
		if err != nil {
			Refuse(w, err)
			return
		}
		inner := r.WithContext(With(r.Context(), caller))
		next.ServeHTTP(w, inner)
		r.Pattern = inner.Pattern // for who keeps a log
	})
}

// callerIn is whose a request is. On open paths one who cannot say is nobody.
func (g *Guard) callerIn(r *http.Request, open bool) (*Caller, error) {
	from := Address(r.RemoteAddr)
	if !g.on || r.URL.Path == healthPath {
		return g.Nobody(from), nil
	}
	caller, err := g.presented(r, from, open)
	if open && err != nil {
		return g.Nobody(from), nil
	}
	return caller, err
}

// presented is the caller by the first of what a request has: a token in the header, a certificate, a session.
func (g *Guard) presented(r *http.Request, from string, open bool) (*Caller, error) {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		token, ok := bearer(values)
		if !ok {
			return nil, g.Missing(from)
		}
		return g.Identify(token, from)
	}
	if c := g.ofCertificate(r.TLS, from); c != nil {
		return c, nil
	}
	if c := g.ofSession(r, from); c != nil {
		return c, nil
	}
	if open {
		return g.Nobody(from), nil
	}
	return nil, g.Missing(from)
}

// bearer is the token of a header Authorization that stands once.
func bearer(values []string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(values[0], " ")
	return strings.TrimLeft(token, " "), ok && len(values) == 1 && strings.EqualFold(scheme, "Bearer")
}

// Require has next answer only callers who may do verb in the server's namespace, whatever limit it is about. A request that has
// not passed a Guard is refused too.
func Require(verb Verb) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := Allow(r.Context(), verb, "")
			if From(r.Context()) == nil {
				err = unauthorized
			}
			if err != nil {
				Refuse(w, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Refuse answers a request with err, which is a *Refusal, as application/problem+json.
func Refuse(w http.ResponseWriter, err error) {
	refusal := unauthorized
	errors.As(err, &refusal)
	body, err := json.Marshal(&wire.Problem{
		Title: http.StatusText(refusal.Status), Status: refusal.Status, Code: wire.Code(refusal.Code), Detail: refusal.Detail, Charged: wire.ChargedNo,
	})
	if err != nil {
		panic(err) // strings and a number
	}
	header := w.Header()
	switch refusal.Status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="ration"`)
	case http.StatusTooManyRequests:
		header.Set("Retry-After", strconv.FormatInt(int64((refusal.RetryAfter+time.Second-1)/time.Second), 10))
	}
	header.Set("Content-Type", wire.ProblemType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// Address is a remote address without its port; "unix" is a socket of this machine.
func Address(remote string) string {
	if remote == "" || remote == "@" || strings.HasPrefix(remote, "/") {
		return "unix"
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
