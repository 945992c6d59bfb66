package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/ration-go/ration/driver"
)

// ErrAuth is wrapped by errors of a store that did not let the user in.
var ErrAuth = errors.New("the store did not let this user in")

// ErrTLS is wrapped by errors that came up while TLS was agreed upon. Those of crypto/tls and crypto/x509 need not wrap it.
var ErrTLS = errors.New("TLS failed")

// Failure is what an error of connecting or asking says to an operator: which step failed, and what to do.
func Failure(err error, where string) Finding {
	f := Finding{Severity: Error, Where: where, Text: err.Error()}
	f.Code, f.Remedy = step(err)
	// Drivers wrap these in much, and tell of each attempt.
	var dns *net.DNSError
	var op *net.OpError
	if f.Code == "reach.dns" && errors.As(err, &dns) {
		f.Text = dns.Error()
	} else if f.Code == "reach.connect" && errors.As(err, &op) {
		f.Text = op.Error()
	}
	return f
}

func step(err error) (code, remedy string) {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return "reach.dns", "correct the name in the URL, or the name server of this machine"
	case errors.Is(err, ErrAuth):
		return "reach.auth", "correct user and password in the URL, or let this user in"
	case ofTLS(err):
		return "reach.tls", "correct the certificate, or the URL: whether it says TLS, and under which name"
	case errors.Is(err, driver.ErrFull):
		return "store.full", "give the store more memory or disk; it refuses new keys meanwhile"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "reach.silent", "see whether the store hangs, or a firewall drops what is sent to it"
	case errors.As(err, &op) && op.Op == "dial":
		return "reach.connect", "start the store, or correct host and port in the URL"
	}
	return "store.failed", "see what the error says"
}

func ofTLS(err error) bool {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.Is(err, ErrTLS) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid)
}

// handshake is how long a server may take to answer to TLS.
const handshake = 5 * time.Second

// Dial connects to address as a client would, with TLS if config is not nil, and hangs up. It tells what went wrong, or what
// the certificate is like, and reports whether it got through.
func Dial(ctx context.Context, address string, config *tls.Config, now time.Time, say func(Finding)) bool {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		say(Failure(err, address))
		return false
	}
	defer raw.Close()
	if config == nil {
		for _, f := range PlainFindings(address) {
			say(f)
		}
		return true
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	conn := tls.Client(raw, config)
	shaking, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	if err := conn.HandshakeContext(shaking); err != nil {
		if errors.Is(err, context.DeadlineExceeded) { // Redis without TLS waits for the end of a line
			err = errors.New("it took the connection, and did not answer to TLS: it speaks none, or hangs")
		}
		say(Failure(fmt.Errorf("%w: %w", ErrTLS, err), address))
		return false
	}
	for _, f := range CertificateFindings(address, conn.ConnectionState().PeerCertificates, now) {
		say(f)
	}
	return true
}

// DialURL is Dial to the host of an http or https URL, with TLS for https.
func DialURL(ctx context.Context, u *url.URL, now time.Time, say func(Finding)) bool {
	var config *tls.Config
	port := "80"
	if u.Scheme == "https" {
		config, port = &tls.Config{MinVersion: tls.VersionTLS12}, "443"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return Dial(ctx, net.JoinHostPort(u.Hostname(), port), config, now, say)
}

// soon is how long before its end a certificate or a token draws a warning.
const soon = 21 * 24 * time.Hour

// CertificateFindings says whether a server's certificate ends soon. The chain is the server's own first.
func CertificateFindings(where string, chain []*x509.Certificate, now time.Time) []Finding {
	for _, c := range chain {
		if now.Add(soon).After(c.NotAfter) {
			return []Finding{{Severity: Warning, Code: "reach.certificate", Where: where,
				Text:   fmt.Sprintf("the certificate of %q ends on %s", c.Subject.CommonName, c.NotAfter.UTC().Format(time.DateTime+"Z")),
				Remedy: "renew it; from then on nobody can connect"}}
		}
	}
	return nil
}

// TokenFindings says whether a token ends soon.
func TokenFindings(where string, ends, now time.Time) []Finding {
	f := Finding{Where: where, Code: "secret.expiry", Remedy: "get another, and give it to the servers"}
	switch text := ends.UTC().Format(time.DateTime + "Z"); {
	case now.After(ends):
		f.Severity, f.Text = Error, "the token has ended on "+text
	case now.Add(soon).After(ends):
		f.Severity, f.Text = Warning, "the token ends on "+text
	default:
		return nil
	}
	return []Finding{f}
}

// PlainFindings says that what is sent to address, which is without TLS, can be read on its way to another machine.
func PlainFindings(address string) []Finding {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if onThisMachine(host) {
		return nil
	}
	return []Finding{{Severity: Note, Code: "reach.plain", Where: address,
		Text:   "passwords and keys go to another machine without TLS",
		Remedy: "use TLS (sslmode=verify-full, rediss://, https://), unless the network is yours alone"}}
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || host[0] == '/' || ip != nil && ip.IsLoopback()
}
