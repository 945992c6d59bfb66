package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Certificate says what holders of some client certificates may do.
type Certificate struct {
	Name   string  // of the caller, for logs; like that of a token
	Match  string  // "any", or a kind and a value: "dns:envoy.example", "uri:spiffe://…", "email:a@example.com", "ip:192.0.2.1", "cn:envoy"
	Scopes []Scope // at least one
}

// ParseCertificate reads NAME MATCH SCOPES, as in
//
//	edge dns:envoy.example.com take:envoy/edge
//
// dns, uri, email and ip are alternative names of the certificate, cn is the common name of its subject; any is every certificate
// of the authorities that the server trusts. A value that ends in an asterisk is what values begin with, and one of dns that
// begins with *. is every name with one more part.
func ParseCertificate(line string) (c Certificate, err error) {
	words := strings.Fields(line)
	if len(words) != 3 {
		return c, errors.New("a certificate is a name, what it matches and scopes, with blanks between them")
	}
	c.Name, c.Match = words[0], words[1]
	if err = CheckName(c.Name); err != nil {
		return c, err
	}
	if kind, value, ok := strings.Cut(c.Match, ":"); c.Match != "any" && (!ok || value == "" || !slices.Contains([]string{"dns", "uri", "email", "ip", "cn"}, kind)) {
		return c, fmt.Errorf("%s: %q is not any, or dns:, uri:, email:, ip: or cn: and a value", c.Name, c.Match)
	}
	if c.Scopes, err = ParseScopes(words[2]); err != nil {
		err = fmt.Errorf("%s: %w", c.Name, err)
	}
	return c, err
}

// String is the line that ParseCertificate reads.
func (c *Certificate) String() string {
	return c.Name + " " + c.Match + " " + formatScopes(c.Scopes)
}

// matches reports whether c is about the verified certificate x.
func (c *Certificate) matches(x *x509.Certificate) bool {
	kind, want, _ := strings.Cut(c.Match, ":")
	is := func(value string) bool { return same(want, value) }
	switch kind {
	case "any":
		return true
	case "cn":
		return x.Subject.CommonName != "" && is(x.Subject.CommonName)
	case "dns":
		return slices.ContainsFunc(x.DNSNames, func(name string) bool { return sameHost(want, name) })
	case "email":
		return slices.ContainsFunc(x.EmailAddresses, is)
	case "uri":
		for _, u := range x.URIs {
			if is(u.String()) {
				return true
			}
		}
	case "ip":
		for _, ip := range x.IPAddresses {
			if addr, ok := netip.AddrFromSlice(ip); ok && is(addr.Unmap().String()) {
				return true
			}
		}
	}
	return false
}

func same(want, value string) bool {
	if begin, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(value, begin)
	}
	return value == want
}

func sameHost(want, name string) bool {
	want, name = strings.ToLower(want), strings.ToLower(name)
	if rest, ok := strings.CutPrefix(want, "*."); ok {
		_, parent, _ := strings.Cut(name, ".")
		return parent == rest
	}
	return name == want
}

// ofCertificate is the caller whose certificate a connection has verified, by all the lines that match it, named as the first;
// nil if it has none, or none matches.
func (g *Guard) ofCertificate(state *tls.ConnectionState, from string) *Caller {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	var caller *Caller
	known := g.known.Load()
	for i := range known.certificates {
		c := &known.certificates[i]
		if !c.matches(state.PeerCertificates[0]) {
			continue
		}
		if caller == nil {
			caller = &Caller{Name: c.Name, From: from, guard: g}
		}
		caller.scopes = append(caller.scopes, c.Scopes...)
	}
	return caller
}
