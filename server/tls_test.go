package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration/server"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

// authority makes certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

var serial = big.NewInt(time.Now().UnixNano())

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, key: must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	of := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, of, of, a.key.Public(), a.key))
	a.cert = must[*x509.Certificate](t)(x509.ParseCertificate(der))
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// issue is a certificate and its key, in PEM.
func (a *authority) issue(of x509.Certificate) (cert, key string) {
	a.t.Helper()
	private := must[*ecdsa.PrivateKey](a.t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	of.SerialNumber, of.NotBefore, of.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	of.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der := must[[]byte](a.t)(x509.CreateCertificate(rand.Reader, &of, a.cert, private.Public(), a.key))
	keyDER := must[[]byte](a.t)(x509.MarshalPKCS8PrivateKey(private))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) client(of x509.Certificate) []tls.Certificate {
	cert, key := a.issue(of)
	return []tls.Certificate{must[tls.Certificate](a.t)(tls.X509KeyPair([]byte(cert), []byte(key)))}
}

var here = x509.Certificate{Subject: pkix.Name{CommonName: "here"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}

// files has the server's certificate and key, and the authority of clients', in dir.
func (a *authority) files(dir string) func(*server.Config) {
	cert, key := a.issue(here)
	write(a.t, filepath.Join(dir, "cert"), cert)
	write(a.t, filepath.Join(dir, "key"), key)
	write(a.t, filepath.Join(dir, "ca"), a.pem)
	return func(cfg *server.Config) {
		chatAndOther(cfg)
		cfg.TLS.CertFile, cfg.TLS.KeyFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
		cfg.GRPC.Listen, cfg.RESP.Listen = "127.0.0.1:0", "127.0.0.1:0"
	}
}

func TestCertificatesOfClients(t *testing.T) {
	t.Parallel()
	dir, a, other := t.TempDir(), newAuthority(t), newAuthority(t)
	spiffe := must[*url.URL](t)(url.Parse("spiffe://example.org/web"))
	web, line := tokenLine(t, "web", "take", "")
	files := a.files(dir)
	for _, auth := range []string{"require", "optional"} {
		at, _ := guardedAll(t, io.Discard, func(cfg *server.Config) {
			files(cfg)
			cfg.TLS.ClientCAFile, cfg.TLS.ClientAuth = filepath.Join(dir, "ca"), auth
			cfg.Access.Certificates = []string{"edge dns:edge.example.com take:chat", "parts dns:*.parts.example.com take:other", "mesh uri:spiffe://example.org/* read", "cn cn:ops admin"}
		}, line)
		for name, c := range map[string]struct {
			certificates      []tls.Certificate
			token             string
			required, without int // status of a take of chat; 0: no connection
		}{
			"none":      {nil, "", 0, 401},
			"token":     {nil, web, 0, 200},
			"edge":      {a.client(x509.Certificate{DNSNames: []string{"edge.example.com"}}), "", 200, 200},
			"capitals":  {a.client(x509.Certificate{DNSNames: []string{"Edge.Example.com"}}), "", 200, 200},
			"part":      {a.client(x509.Certificate{DNSNames: []string{"x.parts.example.com"}}), "", 403, 403},
			"mesh":      {a.client(x509.Certificate{URIs: []*url.URL{spiffe}}), "", 403, 403},
			"both":      {a.client(x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"edge.example.com"}}), "", 200, 200},
			"cn":        {a.client(x509.Certificate{Subject: pkix.Name{CommonName: "ops"}}), "", 200, 200},
			"unmapped":  {a.client(x509.Certificate{DNSNames: []string{"x.example.com"}}), "", 401, 401},
			"and token": {a.client(x509.Certificate{DNSNames: []string{"x.example.com"}}), web, 200, 200},
			"foreign":   {other.client(x509.Certificate{DNSNames: []string{"edge.example.com"}}), "", 0, 0},
		} {
			want := c.required
			if auth == "optional" {
				want = c.without
			}
			got, body := takeOver(t, at["http"], &tls.Config{RootCAs: a.pool(), Certificates: c.certificates}, c.token)
			if got != want {
				t.Errorf("%s, %s: %d %s, want %d", auth, name, got, body, want)
			}
			if auth == "optional" || len(c.certificates) == 0 {
				continue
			}
			// The same over gRPC and Redis's protocol.
			conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: a.pool(), Certificates: c.certificates})))
			if err != nil {
				t.Fatal(err)
			}
			_, err = rationv1.NewRationServiceClient(conn).Take(t.Context(), &rationv1.TakeRequest{Key: &rationv1.Key{Parts: []string{"a"}}, Limit: "chat"})
			conn.Close()
			if wantCode := map[int]codes.Code{200: codes.OK, 401: codes.Unauthenticated, 403: codes.PermissionDenied, 0: codes.Unavailable}[want]; c.token == "" && status.Code(err) != wantCode {
				t.Errorf("%s: %v, want %v", name, err, wantCode)
			}
			wantReply := map[int]string{200: "*5", 401: "-NOAUTH", 403: "-NOPERM", 0: ""}[want]
			if reply := throttleOver(t, at["resp"], &tls.Config{RootCAs: a.pool(), Certificates: c.certificates}); c.token == "" && !strings.HasPrefix(reply, wantReply) {
				t.Errorf("%s: %q, want %s", name, reply, wantReply)
			}
		}
		// Old versions are not spoken, nor is plain HTTP.
		old := &tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
		if got, _ := takeOver(t, at["http"], old, web); got != 0 {
			t.Errorf("TLS 1.1: %d", got)
		}
		res, err := http.Get("http://" + at["http"] + "/healthz")
		if err == nil {
			res.Body.Close()
		}
		if err == nil && res.StatusCode == 200 {
			t.Error("plain HTTP is answered")
		}
	}
}

// takeOver takes from chat over TLS; the status is 0 if there was no connection.
func takeOver(t testing.TB, address string, cfg *tls.Config, token string) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/v1/take", strings.NewReader(`{"key": "a", "limit": "chat"}`)))
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

// throttleOver is the first line of the answer to a CL.THROTTLE; "" if there was no connection.
func throttleOver(t testing.TB, address string, cfg *tls.Config) string {
	t.Helper()
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "*3\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$4\r\nchat\r\n")
	line := make([]byte, 64)
	n, _ := conn.Read(line)
	return string(line[:n])
}

// TestCertificateReload: new connections see a new certificate, open ones stay, and one that is wrong changes nothing.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	p := serve(t, dir, a.flags(dir)...)
	address := strings.TrimPrefix(p.url, "https://")
	first := serialOf(t, a, address)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool()}}
	defer transport.CloseIdleConnections()
	var conns int
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conns++
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	health := func() {
		t.Helper()
		res := must[*http.Response](t)((&http.Client{Transport: transport}).Get(p.url + "/healthz"))
		_, err := io.Copy(io.Discard, res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Errorf("%d, %v", res.StatusCode, err)
		}
		res.Body.Close()
	}
	health()
	write(t, filepath.Join(dir, "cert"), "no certificate\n")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(p.stderr.String(), "those of before stay") && time.Now().Before(deadline); {
		if got := serialOf(t, a, address); got != first { // each looks, once a second at most
			t.Fatalf("a wrong file was used: %s", got)
		}
	}
	cert, key := a.issue(here)
	write(t, filepath.Join(dir, "key"), key)
	write(t, filepath.Join(dir, "cert"), cert)
	for deadline := time.Now().Add(time.Minute); serialOf(t, a, address) == first; {
		if time.Now().After(deadline) {
			t.Fatalf("the new certificate is not used\n%s", p.stderr)
		}
	}
	health()
	if conns != 1 {
		t.Errorf("%d connections were made; the open one should stay", conns)
	}
	if text := p.stderr.String(); strings.Contains(text, "PRIVATE KEY") {
		t.Error(text)
	}
}

// flags are for a server with TLS, whose files are made in dir.
func (a *authority) flags(dir string) []string {
	a.files(dir)
	return []string{"--store", "memory:", "--tls-cert-file", filepath.Join(dir, "cert"), "--tls-key-file", filepath.Join(dir, "key")}
}

func serialOf(t testing.TB, a *authority, address string) string {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: a.pool()}}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestTLSFaults(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	flags := strings.Join(a.flags(dir), " ")
	write(t, filepath.Join(dir, "empty"), "")
	_, key := a.issue(here)
	write(t, filepath.Join(dir, "otherkey"), key)
	for args, want := range map[string]string{
		"--store memory: --tls-cert-file cert":                       "tls.cert_file: a certificate has a key; set tls.key_file too",
		"--store memory: --tls-key-file key":                         "tls.key_file: a key is of a certificate",
		"--store memory: --tls-client-ca-file ca":                    "tls.client_ca_file: clients show certificates over TLS",
		flags + " --tls-client-ca-file ca":                           "nothing says what clients may do; add access.certificates",
		flags + " --tls-key-file otherkey":                           "does not match",
		flags + " --tls-cert-file none":                              "tls.cert_file: stat none",
		"--store memory: --tls-client-auth maybe":                    `--tls-client-auth: "maybe" is not require or optional`,
		flags + " --tls-client-ca-file empty --access-tokens-file t": "tls.client_ca_file: empty has no certificate in PEM",
		"--store memory: --access-tokens-file none":                  "access.tokens_file: stat none",
		"--store memory: --api-limit lots":                           "--api-limit: ",
		"--store memory: --audit-file no/such/file":                  "audit.file: open no/such/file",
	} {
		write(t, filepath.Join(dir, "t"), "")
		_, stderr, code := run(t, dir, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, strings.Fields(args)...)...)
		if code != server.ExitError || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s\nwant %s", args, code, stderr, want)
		}
	}
}

// TestSocket: who may use it is up to its mode; what a server that is gone has left is removed, and nothing else.
func TestSocket(t *testing.T) {
	t.Parallel()
	dir := must[string](t)(os.MkdirTemp("", "s")) // a path of a socket is short
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "r.sock")
	begin := func(args ...string) *process {
		t.Helper()
		p := start(t, dir, nil, append([]string{"serve", "--store", "memory:", "--listen", "unix:" + path}, args...)...)
		p.wait(p.stdout, "listens on unix:"+path)
		return p
	}
	ask := func() string {
		t.Helper()
		stdout, stderr, _ := run(t, dir, nil, "take", "alice", "fixed 3/1h", "--server", "unix:"+path)
		return stdout + stderr
	}
	mode := func() os.FileMode { return must[os.FileInfo](t)(os.Stat(path)).Mode() }
	p := begin()
	if got := ask(); got != "allowed, 2 of 3 left\n" || mode().Perm() != 0o600 {
		t.Errorf("%s %v", got, mode())
	}
	if _, stderr, code := run(t, dir, nil, "serve", "--store", "memory:", "--listen", "unix:"+path); code != server.ExitError || !strings.Contains(stderr, "is in use by another server") {
		t.Errorf("%d %s", code, stderr)
	}
	if got := ask(); got != "allowed, 1 of 3 left\n" {
		t.Errorf("after another one tried: %s", got)
	}
	p.signal(syscall.SIGTERM)
	p.end()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if got := ask(); !strings.Contains(got, "no server answers at unix:"+path) {
		t.Error(got)
	}
	p = begin("--socket-mode", "0660")
	if mode().Perm() != 0o660 {
		t.Errorf("%v", mode())
	}
	p.signal(syscall.SIGKILL)
	p.end()
	if mode().Type() != os.ModeSocket {
		t.Errorf("%v", mode())
	}
	p = begin() // in place of the one that is left
	if got := ask(); got != "allowed, 2 of 3 left\n" {
		t.Error(got)
	}
	p.signal(syscall.SIGTERM)
	p.end()
	write(t, path, "mine")
	if _, stderr, code := run(t, dir, nil, "serve", "--store", "memory:", "--listen", "unix:"+path); code != server.ExitError || !strings.Contains(stderr, "is no socket") {
		t.Errorf("%d %s", code, stderr)
	}
	if data := must[[]byte](t)(os.ReadFile(path)); !bytes.Equal(data, []byte("mine")) {
		t.Errorf("%s", data)
	}
	for address, want := range map[string]string{"unix:r.sock": "is not the full path", "unix:": "is not the full path", "unix:/" + strings.Repeat("x", 200): "has at most"} {
		if _, stderr, code := run(t, dir, nil, "serve", "--store", "memory:", "--listen", address); code != server.ExitError || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", address, code, stderr)
		}
	}
}
