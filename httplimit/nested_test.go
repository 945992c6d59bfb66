package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/httplimit"
)

// Guards within guards: each field once, all limits in it, the tightest first.
func TestNested(t *testing.T) {
	t.Parallel()
	type layer func(http.Handler) http.Handler
	through := map[string]layer{
		"directly":                 func(h http.Handler) http.Handler { return h },
		"through one that buffers": func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Hour, "late") },
		"through a wrapper": func(h http.Handler) http.Handler {
			return handler(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(unwrapper{w}, r) })
		},
	}
	for name, between := range through {
		for _, c := range []struct {
			dialect httplimit.Headers
			want    map[string]string
		}{
			{httplimit.Draft11, map[string]string{
				"RateLimit":        `"inner";r=4;t=60, "outer";r=8;t=60, "also";r=98;t=60`,
				"RateLimit-Policy": `"inner";q=5;w=60, "outer";q=9;w=60, "also";q=99;w=60`,
			}},
			{httplimit.XHeaders, map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "1772366461"}},
			{httplimit.Split, map[string]string{"RateLimit-Limit": "5", "RateLimit-Remaining": "4", "RateLimit-Reset": "60"}},
		} {
			for _, swapped := range []bool{false, true} {
				l, _ := newLimiter(t)
				opts := &httplimit.Options{Headers: c.dialect}
				inner := guard(t, l, opts, httplimit.Policy{Limit: sliding("inner", 5, time.Minute), Key: byAddr})
				outer := guard(t, l, opts, httplimit.Policy{Limit: sliding("outer", 9, time.Minute), Key: byAddr},
					httplimit.Policy{Limit: sliding("also", 99, time.Minute), Key: byAddr})
				if swapped {
					inner, outer = outer, inner
				}
				url, client := serve(t, outer(between(inner(hello))), func(s *httptest.Server) {
					h := s.Config.Handler
					s.Config.Handler = handler(func(w http.ResponseWriter, r *http.Request) {
						r.RemoteAddr = "192.0.2.1:1"
						h.ServeHTTP(w, r)
					})
				})
				r, _ := get(t, client, url)
				for field, want := range c.want {
					if got := r.Header.Values(field); !slices.Equal(got, []string{want}) {
						t.Errorf("%s, swapped %v: %s: %q, want %q", name, swapped, field, got, want)
					}
				}
			}
		}
	}
}

// A refusal inside names what refuses first, and keeps what the guard outside has said.
func TestNestedRefusal(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	inner := guard(t, l, nil, httplimit.Policy{Limit: sliding("inner", 1, time.Minute), Key: byAddr})
	outer := guard(t, l, nil, httplimit.Policy{Limit: sliding("outer", 2, time.Minute), Key: byAddr, Count: func(status int, _ http.Header) bool { return status != 429 }})
	h := outer(inner(hello))
	do(h)
	r := do(h)
	if got := r.Header.Values("RateLimit"); r.StatusCode != 429 || !slices.Equal(got, []string{`"inner";r=0;t=60, "outer";r=0;t=60`}) || r.Header.Get("Retry-After") != "60" {
		t.Error(r.StatusCode, got)
	}
	if got := used(t, l, sliding("outer", 2, time.Minute)); got != 1 {
		t.Errorf("%d charged outside", got)
	}
}

// A reverse proxy passes on the fields of what is behind it; they become one.
func TestReverseProxy(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	behind := guard(t, l, nil, httplimit.Policy{Limit: sliding("behind", 2, time.Minute), Key: byAddr})(hello)
	var malformed atomic.Bool
	back, client := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		if malformed.Load() {
			w.Header().Set("RateLimit", `"behind";r=1;;`)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	target, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: client.Transport}
	front, frontClient := serve(t, guard(t, l, nil, httplimit.Policy{Limit: sliding("front", 100, time.Minute), Key: byAddr})(proxy))
	r, body := get(t, frontClient, front)
	if got := r.Header.Values("RateLimit"); body != "hello" || !slices.Equal(got, []string{`"behind";r=1;t=60, "front";r=99;t=60`}) {
		t.Error(body, got)
	}
	if got := r.Header.Values("RateLimit-Policy"); !slices.Equal(got, []string{`"behind";q=2;w=60, "front";q=100;w=60`}) {
		t.Error(got)
	}
	malformed.Store(true)
	r, _ = get(t, frontClient, front)
	if got := r.Header.Values("RateLimit"); !slices.Equal(got, []string{`"front";r=98;t=60`}) {
		t.Error(got)
	}
}

// A redirect has no RateLimit fields: they would be taken for those of where it leads.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for _, dialect := range []httplimit.Headers{httplimit.Draft11, httplimit.XHeaders} {
		l, _ := newLimiter(t)
		h := guard(t, l, &httplimit.Options{Headers: dialect}, httplimit.Policy{Limit: sliding("x", 2, time.Minute), Key: byAddr})(http.RedirectHandler("/there", 302))
		r := do(h)
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "ratelimit") {
				t.Errorf("%d has %s", r.StatusCode, name)
			}
		}
		if r.StatusCode != 302 || r.Header.Get("Location") != "/there" {
			t.Error(r.StatusCode, r.Header)
		}
	}
}

// What a handler takes away stays away.
func TestHandlerTakesFieldsAway(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t)
	h := guard(t, l, nil, httplimit.Policy{Limit: sliding("x", 2, time.Minute), Key: byAddr})(handler(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Del("RateLimit")
		w.Header().Del("RateLimit-Policy")
		io.WriteString(w, "x")
	}))
	if r := do(h); r.Header.Get("RateLimit") != "" || r.Header.Get("RateLimit-Policy") != "" {
		t.Error(r.Header)
	}
}
