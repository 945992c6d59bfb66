package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/spf13/pflag"

	"github.com/ration-go/ration/server/access"
)

// callerFiles are those by which a client command says who it is, and knows the server.
type callerFiles struct {
	token     string
	ca        string
	cert, key string
}

func (f *callerFiles) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.token, "token-file", "", "`FILE` whose first line is the token for the server (environment: RATION_TOKEN is the token itself)")
	flags.StringVar(&f.ca, "ca-file", "", "`FILE` of authorities of the server's certificate, in PEM, beside those of the system")
	flags.StringVar(&f.cert, "cert-file", "", "`FILE` of a client certificate, in PEM")
	flags.StringVar(&f.key, "key-file", "", "`FILE` of its private key, in PEM")
}

// sayWho adds the token, if there is one, to a request.
func (f *callerFiles) sayWho(p *program, req *http.Request) error {
	token, err := f.readToken(p)
	if err != nil || token == "" {
		return err
	}
	// What is not like a token may be a password that was put there by mistake, and is not sent.
	if _, err := access.HashOf(token); err != nil {
		return fmt.Errorf("the token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// readToken is the token of the file, or that of the environment; "" if there is none.
func (f *callerFiles) readToken(p *program) (string, error) {
	if f.token == "" {
		return p.variable(envToken), nil
	}
	file, err := os.Open(f.token)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	defer file.Close()
	text, err := readToken(file)
	if err == nil && text == "" {
		err = errors.New("its first line is empty")
	}
	if err != nil {
		return "", fmt.Errorf("--token-file: %s: %w", f.token, err)
	}
	return text, nil
}

// dialing makes tr connect to the server: over a socket, if there is one, and by the files of TLS.
func (f *callerFiles) dialing(tr *http.Transport, socket string) error {
	if socket != "" {
		tr.Proxy = nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	if f.ca == "" && f.cert == "" && f.key == "" {
		return nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("--ca-file: %w", err)
		}
		if cfg.RootCAs, err = x509.SystemCertPool(); err != nil {
			cfg.RootCAs = x509.NewCertPool()
		}
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--ca-file: %s has no certificate in PEM", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("--cert-file, --key-file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	tr.TLSClientConfig = cfg
	return nil
}
