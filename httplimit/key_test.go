package httplimit_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/ration-go/ration/httplimit"
)

func prefixes(list ...string) (ps []netip.Prefix) {
	for _, s := range list {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func from(addr string, header ...string) *http.Request {
	r := &http.Request{Method: "GET", Host: "example.test", RemoteAddr: addr, Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestByIP(t *testing.T) {
	t.Parallel()
	const xff = "X-Forwarded-For"
	proxies := &httplimit.IPOptions{Trusted: prefixes("10.0.0.0/8", "fd00::/8")}
	rfc := &httplimit.IPOptions{Trusted: proxies.Trusted, Header: "forwarded"}
	for _, c := range []struct {
		name string
		opts *httplimit.IPOptions
		r    *http.Request
		want string
	}{
		{"IPv4", nil, from("192.0.2.1:1234"), "192.0.2.1"},
		{"mapped", nil, from("[::ffff:192.0.2.1]:1234"), "192.0.2.1"},
		{"mapped in hexadecimal", nil, from("[::ffff:c000:201]:1"), "192.0.2.1"},
		{"IPv6", nil, from("[2001:db8:1:2:3::4]:1234"), "2001:db8:1:2::/64"},
		{"zone", nil, from("[fe80::1%eth0]:1234"), "fe80::/64"},
		{"without port", nil, from("192.0.2.1"), "192.0.2.1"},
		{"IPv6 without port", nil, from("2001:db8::1"), "2001:db8::/64"},
		{"no address", nil, from(""), ""},
		{"Unix socket", nil, from("@"), ""},
		{"nonsense", nil, from("example.test:80"), ""},
		{"nonsense port", nil, from("192.0.2.1:8 0"), ""},
		{"unfinished bracket", nil, from("[2001:db8::1"), ""},
		{"IPv4 in brackets", nil, from("[192.0.2.1]:80"), ""},
		{"whole IPv6", &httplimit.IPOptions{IPv6Bits: 128}, from("[2001:db8::1]:1"), "2001:db8::1"},
		{"/56", &httplimit.IPOptions{IPv6Bits: 56}, from("[2001:db8:1:2ff::1]:1"), "2001:db8:1:200::/56"},
		{"/24", &httplimit.IPOptions{IPv4Bits: 24}, from("192.0.2.77:1"), "192.0.2.0/24"},
		{"mapped /24", &httplimit.IPOptions{IPv4Bits: 24}, from("[::ffff:192.0.2.77]:1"), "192.0.2.0/24"},
		{"bits out of range", &httplimit.IPOptions{IPv4Bits: 33, IPv6Bits: -1}, from("192.0.2.77:1"), "192.0.2.77"},

		{"no proxy trusted", nil, from("192.0.2.1:1", xff, "203.0.113.9"), "192.0.2.1"},
		{"not from a trusted proxy", proxies, from("192.0.2.1:1", xff, "203.0.113.9"), "192.0.2.1"},
		{"one proxy", proxies, from("10.0.0.1:1", xff, "203.0.113.9"), "203.0.113.9"},
		{"mapped proxy", proxies, from("[::ffff:10.0.0.1]:1", xff, "203.0.113.9"), "203.0.113.9"},
		{"mapped prefix", &httplimit.IPOptions{Trusted: prefixes("::ffff:10.0.0.0/104")}, from("10.0.0.1:1", xff, "203.0.113.9"), "203.0.113.9"},
		{"IPv6 proxy", proxies, from("[fd00::1]:1", xff, "2001:db8::1"), "2001:db8::/64"},
		{"mapped client", proxies, from("10.0.0.1:1", xff, "::ffff:203.0.113.9"), "203.0.113.9"},
		{"forged to the left", proxies, from("10.0.0.1:1", xff, "198.51.100.7, 203.0.113.9"), "203.0.113.9"},
		{"two proxies", proxies, from("10.0.0.1:1", xff, "198.51.100.7, 203.0.113.9, 10.0.0.2"), "203.0.113.9"},
		{"two lines", proxies, from("10.0.0.1:1", xff, "198.51.100.7", xff, "203.0.113.9, 10.0.0.2"), "203.0.113.9"},
		{"all trusted", proxies, from("10.0.0.1:1", xff, "10.0.0.3,10.0.0.2"), "10.0.0.3"},
		{"no header", proxies, from("10.0.0.1:1"), "10.0.0.1"},
		{"empty header", proxies, from("10.0.0.1:1", xff, ""), "10.0.0.1"},
		{"empty elements", proxies, from("10.0.0.1:1", xff, "203.0.113.9, ,\t,"), "203.0.113.9"},
		{"with ports", proxies, from("10.0.0.1:1", xff, "203.0.113.9:4711, 10.0.0.2:80"), "203.0.113.9"},
		{"IPv6 with port", proxies, from("10.0.0.1:1", xff, "[2001:db8::1]:4711"), "2001:db8::/64"},
		{"unknown", proxies, from("10.0.0.1:1", xff, "203.0.113.9, unknown"), ""},
		{"nonsense behind a stranger", proxies, from("10.0.0.1:1", xff, "\"'<>, 203.0.113.9"), "203.0.113.9"},
		{"another header", proxies, from("10.0.0.1:1", "X-Real-Ip", "198.51.100.7", "Forwarded", "for=198.51.100.8"), "10.0.0.1"},
		{"a header of one's own", &httplimit.IPOptions{Trusted: proxies.Trusted, Header: "cf-connecting-ip"},
			from("10.0.0.1:1", "CF-Connecting-IP", "203.0.113.9", xff, "198.51.100.7"), "203.0.113.9"},

		{"Forwarded", rfc, from("10.0.0.1:1", "Forwarded", "for=203.0.113.9;proto=http;by=10.0.0.1"), "203.0.113.9"},
		{"Forwarded, case and order", rfc, from("10.0.0.1:1", "Forwarded", "proto=http; For=203.0.113.9"), "203.0.113.9"},
		{"Forwarded, IPv6 and port", rfc, from("10.0.0.1:1", "Forwarded", `for="[2001:db8:cafe::17]:4711"`), "2001:db8:cafe::/64"},
		{"Forwarded, two", rfc, from("10.0.0.1:1", "Forwarded", `for=198.51.100.7, for="203.0.113.9:80", for=10.0.0.2`), "203.0.113.9"},
		{"Forwarded, hidden", rfc, from("10.0.0.1:1", "Forwarded", "for=203.0.113.9, for=_secret"), ""},
		{"Forwarded, a separator in quotes", rfc, from("10.0.0.1:1", "Forwarded", `for=203.0.113.9;host="a,b;c"`), "203.0.113.9"},
		{"Forwarded, no for", rfc, from("10.0.0.1:1", "Forwarded", "proto=https"), ""},
		{"Forwarded, a stranger's open quote", rfc, from("10.0.0.1:1", "Forwarded", `for="198.51.100.7, for=203.0.113.9`), "203.0.113.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := httplimit.ByIP(c.opts)(c.r); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Twenty addresses of one /64 are one caller, and so are twenty forged headers.
func TestOneNetworkOneCaller(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 20 {
		seen[httplimit.ByIP(nil)(from(fmt.Sprintf("[2001:db8:0:1:%x::%x]:443", i*977, i)))] = true
		seen[httplimit.ByIP(nil)(from("[2001:db8:0:1::1]:80", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i)))] = true
	}
	if len(seen) != 1 || !seen["2001:db8:0:1::/64"] {
		t.Fatal(seen)
	}
}

func TestByUser(t *testing.T) {
	t.Parallel()
	basic := func(user string) *http.Request {
		r := from("192.0.2.1:1")
		r.SetBasicAuth(user, "secret")
		return r
	}
	certificate := func(verified bool, c *x509.Certificate) *http.Request {
		r := from("192.0.2.1:1")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{c}}
		}
		return r
	}
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.test", Path: "/a"}
	spire := pkix.Name{Organization: []string{"SPIRE"}, Country: []string{"US"}}
	same := httplimit.ByUser()
	ids := map[string]string{}
	for name, r := range map[string]*http.Request{
		"ada":      basic("ada"),
		"bob":      basic("bob"),
		"CN ada":   certificate(true, &x509.Certificate{Subject: pkix.Name{CommonName: "ada"}}),
		"URI":      certificate(true, &x509.Certificate{Subject: spire, URIs: []*url.URL{spiffe}}),
		"DNS":      certificate(true, &x509.Certificate{Subject: spire, DNSNames: []string{"a.example.test"}}),
		"mail":     certificate(true, &x509.Certificate{Subject: spire, EmailAddresses: []string{"a@example.test"}}),
		"key 1":    certificate(true, &x509.Certificate{Subject: spire, RawSubjectPublicKeyInfo: []byte{1}}),
		"key 2":    certificate(true, &x509.Certificate{Subject: spire, RawSubjectPublicKeyInfo: []byte{2}}),
		"like TLS": basic("3:tls6:CN=ada"),
	} {
		id := same(r)
		if id == "" {
			t.Errorf("%s has no identity", name)
		}
		if other, ok := ids[id]; ok {
			t.Errorf("%s and %s are the same", name, other)
		}
		ids[id] = name
	}
	for name, r := range map[string]*http.Request{
		"nobody":       from("192.0.2.1:1"),
		"empty user":   basic(""),
		"not verified": certificate(false, &x509.Certificate{Subject: pkix.Name{CommonName: "ada"}}),
	} {
		if id := same(r); id != "" {
			t.Errorf("%s is %q", name, id)
		}
	}
}

func TestAll(t *testing.T) {
	t.Parallel()
	pair := httplimit.All(httplimit.ByHeader("A"), httplimit.ByHeader("B"))
	seen := map[string]bool{}
	for _, c := range [][2]string{{"user@x.co", "mtest"}, {"user@x.com", "test"}, {"a:b", "c"}, {"a", "b:c"}, {"1:a", "1:a"}, {"1:a1:", "a"}} {
		seen[pair(from("", "A", c[0], "B", c[1]))] = true
	}
	if len(seen) != 6 || seen[""] {
		t.Error(seen)
	}
	for _, r := range []*http.Request{from("", "A", "x"), from("", "B", "x"), from("", "A", "x", "B", ""), from("")} {
		if id := pair(r); id != "" {
			t.Errorf("%q of %v", id, r.Header)
		}
	}
}

// Whatever a header holds, ByIP answers an address, a prefix or nothing; never what a stranger wrote to the left of a stranger.
func FuzzByIP(f *testing.F) {
	f.Add("192.0.2.1:1", "203.0.113.9", false)
	f.Add("10.0.0.1:1", "203.0.113.9, 10.0.0.2", false)
	f.Add("10.0.0.1:1", `for="[2001:db8::1]:80";by=_x, for=10.0.0.1`, true)
	f.Add("[::ffff:10.0.0.1]:1", ",,[:", true)
	f.Add("@", `for="`, true)
	f.Fuzz(func(t *testing.T, remote, header string, rfc bool) {
		opts := &httplimit.IPOptions{Trusted: prefixes("10.0.0.0/8"), IPv6Bits: 64}
		added := ", 203.0.113.77"
		if rfc {
			opts.Header, added = "Forwarded", `, for="203.0.113.77:80"`
		}
		name := opts.Header
		if name == "" {
			name = "X-Forwarded-For"
		}
		id := httplimit.ByIP(opts)(from(remote, name, header))
		if id != "" {
			if _, err := netip.ParseAddr(id); err != nil {
				if _, err := netip.ParsePrefix(id); err != nil {
					t.Fatalf("%q", id)
				}
			}
			if strings.HasPrefix(id, "::ffff:") {
				t.Fatalf("mapped: %q", id)
			}
		}
		if id := httplimit.ByIP(opts)(from("10.0.0.1:1", name, header+added)); id != "203.0.113.77" {
			t.Fatalf("%q hides what the proxy added: %q", header, id)
		}
	})
}
