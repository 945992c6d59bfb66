package server

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// sameOrigin refuses calls that a page of another origin makes in somebody's browser. Loopback is no protection from
// those; other clients do not send the headers by which they are told.
func sameOrigin(next http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		forbid(w, "cross_origin", "a web page of another origin may not call this server")
	}))
	return guard.Handler(next)
}

// knownHost refuses calls under a name that is not this server's: a page whose own name was made to mean this machine
// would be of the same origin.
func knownHost(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r.Host); host != "" && host != "localhost" && !named(names, host) {
			if _, err := netip.ParseAddr(host); err != nil {
				forbid(w, "unknown_host", "this server is not known by this name; call it by its address, or name it in the setting hosts")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func named(names []string, host string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// hostOf is the name in a header Host, without its port.
func hostOf(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func forbid(w http.ResponseWriter, code, detail string) {
	body, err := json.Marshal(struct {
		Title   string `json:"title"`
		Status  int    `json:"status"`
		Code    string `json:"code"`
		Detail  string `json:"detail"`
		Charged string `json:"charged"`
	}{http.StatusText(http.StatusForbidden), http.StatusForbidden, code, detail, "no"})
	if err != nil {
		panic(err) // strings and a number
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

func onLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// bounded is a listener with at most so many connections open at a time. Others wait until one is closed.
func bounded(l net.Listener, most int) net.Listener {
	return &boundedListener{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
}

type boundedListener struct {
	net.Listener
	open   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &boundedConn{Conn: c, done: sync.OnceFunc(func() { <-l.open })}, nil
}

func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type boundedConn struct {
	net.Conn
	done func()
}

func (c *boundedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}
