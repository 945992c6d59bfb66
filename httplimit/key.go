package httplimit

import (
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// A KeyFunc says whose request it is; "" is nobody's. It must be safe for concurrent use.
type KeyFunc func(*http.Request) string

// All is the combination of several identities: a user and a method, say. If one of them is "", so is it. Different lists are
// different identities, whatever the parts hold.
func All(keys ...KeyFunc) KeyFunc {
	return func(r *http.Request) string {
		parts := make([]string, len(keys))
		for i, key := range keys {
			if parts[i] = key(r); parts[i] == "" {
				return ""
			}
		}
		return joined(parts...)
	}
}

// joined is injective: each part has its length before it.
func joined(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(strconv.Itoa(len(part)))
		b.WriteByte(':')
		b.WriteString(part)
	}
	return b.String()
}

// ByHeader is the value of a request header, such as an API key; the first one, as for http.Header.Get. Whoever sends a
// header chooses what it says: check it before, or limit addresses too. Keys that are secrets call for a KeySecret in the
// Limiter's options, so that no store has them.
func ByHeader(name string) KeyFunc {
	return func(r *http.Request) string { return r.Header.Get(name) }
}

// ByUser is the identity of a TLS client certificate that was verified: its URI (SPIFFE), else its subject, DNS name or
// e-mail address, else its key. Without one it is the user name of basic authentication, which is what the request claims:
// put the guard behind the handler that checks passwords.
func ByUser() KeyFunc {
	return func(r *http.Request) string {
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.VerifiedChains[0]) > 0 {
			return joined("tls", certificateName(r.TLS.VerifiedChains[0][0]))
		}
		if user, _, ok := r.BasicAuth(); ok && user != "" {
			return joined("basic", user)
		}
		return ""
	}
}

// certificateName tells certificates of one authority apart. A subject without a common name is often the same for all.
func certificateName(c *x509.Certificate) string {
	switch {
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	case c.Subject.CommonName != "":
		return c.Subject.String()
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.EmailAddresses) > 0:
		return c.EmailAddresses[0]
	}
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return string(sum[:])
}

// IPOptions of ByIP; nil is the zero value.
type IPOptions struct {
	// Trusted are the proxies whose word about the address of their client is taken. None: the address is that of the
	// connection, and no header changes it.
	Trusted []netip.Prefix
	// Header is where they say it: a list of addresses, each proxy adding its client at the end; default X-Forwarded-For. Name
	// Forwarded for the form of RFC 7239. Only this one header is read. Name one that every trusted proxy sets or adds to.
	Header string
	// IPv4Bits and IPv6Bits are how much of an address is an identity; default 32 and 64, since one customer has a whole /64.
	// Values outside 1–32 and 1–128 are the defaults.
	IPv4Bits, IPv6Bits int
}

// ByIP is the network address of the client: that of the connection or, if that is a trusted proxy's, the last address in the
// header that is not a trusted proxy's. Addresses of one prefix are one identity. IPv4 addresses mapped into IPv6 are IPv4
// addresses.
//
// A request has no identity if its connection has no address (a Unix socket), or if a trusted proxy passes on something that
// is none.
func ByIP(opts *IPOptions) KeyFunc {
	o := IPOptions{}
	if opts != nil {
		o = *opts
	}
	if o.IPv4Bits < 1 || o.IPv4Bits > 32 {
		o.IPv4Bits = 32
	}
	if o.IPv6Bits < 1 || o.IPv6Bits > 128 {
		o.IPv6Bits = 64
	}
	if o.Header == "" {
		o.Header = "X-Forwarded-For"
	}
	trusted := make([]netip.Prefix, 0, len(o.Trusted))
	for _, p := range o.Trusted {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		trusted = append(trusted, p)
	}
	o.Trusted = trusted
	return func(r *http.Request) string {
		addr := o.client(r)
		bits := o.IPv6Bits
		if addr.Is4() {
			bits = o.IPv4Bits
		}
		prefix, err := addr.Prefix(bits)
		switch {
		case err != nil || !addr.IsValid():
			return ""
		case bits == addr.BitLen():
			return addr.String()
		}
		return prefix.String()
	}
}
