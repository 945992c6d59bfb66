package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ration-go/ration/internal/strictjson"
)

// SessionPath is where Session belongs.
const SessionPath = "/session"

// sessionLife is how long a browser stays logged in, unless the token ends before.
const sessionLife = 12 * time.Hour

const sessionCookie = "ration_session"

// maxLogin bounds the body of a login, in bytes.
const maxLogin = 4 << 10

// secretFrom derives the secret of this package from that of keys.
func secretFrom(keySecret []byte) ([]byte, error) {
	if keySecret == nil {
		secret := make([]byte, 32)
		_, err := rand.Read(secret)
		return secret, err
	}
	return sum(keySecret, "ration access"), nil
}

func sum(secret []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, secret)
	for _, part := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash never fails
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// login is what a page posts.
type login struct {
	Token string `json:"token" strict:"required"`
}

// session is what a page is told of itself.
type session struct {
	On      bool   `json:"on"`   // whether callers are asked who they are
	Name    string `json:"name"` // ""; nobody
	Scopes  string `json:"scopes"`
	Read    bool   `json:"read"`
	Reset   bool   `json:"reset"`
	Take    bool   `json:"take"`
	Admin   bool   `json:"admin"`
	Expires int64  `json:"expires_us,omitempty"` // of the token
}

// Session logs a browser in and out, so that a page of the server's can call the API without keeping a token itself. It belongs
// at SessionPath, behind Handler; give that path to Open.
//
//	GET     {"on":true,"name":"web","scopes":"read","read":true,…}: who the caller is; "name":"" is nobody
//	POST    {"token":"ration_…"} sets a cookie, and answers like GET; 401 if the token is not known
//	DELETE  removes the cookie; 204
//
// The cookie is HttpOnly and SameSite=Strict, under TLS also Secure. It holds the token's name and an end, no more than 12 hours
// away, sealed; not the token. It is good on every server that has the same key secret and the same token, and ends with the
// token. Calls by it are taken from pages of the server itself only.
func (g *Guard) Session() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := From(r.Context())
		switch r.Method {
		case http.MethodGet, http.MethodHead:
		case http.MethodPost:
			var err error
			if caller, err = g.logIn(w, r); err != nil {
				Refuse(w, err)
				return
			}
		case http.MethodDelete:
			g.setCookie(w, r, "", -1)
			w.WriteHeader(http.StatusNoContent)
			return
		default:
			w.Header().Set("Allow", "GET, HEAD, POST, DELETE")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := session{
			On: g.on, Scopes: caller.Scopes(),
			Read: caller.May(Read), Reset: caller.May(Reset), Take: caller.May(Take), Admin: caller.May(Admin),
		}
		if caller != nil {
			answer.Name = caller.Name
			if !caller.Expires.IsZero() {
				answer.Expires = caller.Expires.UnixMicro()
			}
		}
		body, err := json.Marshal(answer)
		if err != nil {
			panic(err) // strings and booleans
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(body, '\n')) // the browser may be gone
	})
}

var badLogin = &Refusal{Status: http.StatusBadRequest, Code: "invalid_json", Detail: `send {"token": "ration_…"} with the header Content-Type: application/json`}

func (g *Guard) logIn(w http.ResponseWriter, r *http.Request) (*Caller, error) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" { // which no form of another page can send
		return nil, badLogin
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	var in login
	if err = errors.Join(err, strictjson.Decode(body, &in)); err != nil {
		return nil, badLogin
	}
	caller, err := g.Identify(strings.TrimSpace(in.Token), Address(r.RemoteAddr))
	if err != nil || !g.on {
		return caller, err
	}
	end := g.opts.Clock().Add(sessionLife)
	if !caller.Expires.IsZero() && caller.Expires.Before(end) {
		end = caller.Expires
	}
	g.setCookie(w, r, g.seal(caller.Name, &caller.hash, end.Unix()), int(sessionLife/time.Second))
	return caller, nil
}

func (g *Guard) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		// A proxy may have ended TLS, and says so; a lie of a client's would make its own cookie stricter.
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

// seal is NAME.END.MAC, END in seconds since 1970. The MAC is also of the token's hash, so another token of the same name has
// other sessions.
func (g *Guard) seal(name string, h *Hash, end int64) string {
	var when [8]byte
	binary.BigEndian.PutUint64(when[:], uint64(end))
	mac := sum(g.secret, "session", name, string(h[:]), string(when[:]))
	text := base64.RawURLEncoding
	return text.EncodeToString([]byte(name)) + "." + text.EncodeToString(when[:]) + "." + text.EncodeToString(mac)
}

// ofSession is the caller of a request that a logged-in browser sends from a page of this server; nil if it is none.
func (g *Guard) ofSession(r *http.Request, from string) *Caller {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil || len(cookie.Value) > maxToken {
		return nil
	}
	// Pages on other ports of this host are of the same site, so SameSite does not keep them out.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return nil
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 {
		return nil
	}
	name, err1 := base64.RawURLEncoding.DecodeString(parts[0])
	when, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	if err1 != nil || err2 != nil || len(when) != 8 {
		return nil
	}
	now := g.opts.Clock()
	end := int64(binary.BigEndian.Uint64(when))
	g.renew(now)
	known := g.known.Load()
	for i := range known.tokens {
		t := &known.tokens[i]
		if t.Name != string(name) || !hmac.Equal([]byte(g.seal(t.Name, &t.Hash, end)), []byte(cookie.Value)) {
			continue
		}
		if now.Unix() >= end {
			return nil
		}
		c, err := g.callerOf(t, from, now)
		if err != nil {
			return nil
		}
		return c
	}
	return nil
}
