//go:build linux

package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/redis"
)

// certificate is a file with the certificate and the key of 127.0.0.1, which this process trusts.
var certificate string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ration")
	if err == nil {
		defer os.RemoveAll(dir)
		certificate = filepath.Join(dir, "tls.pem")
		err = writeCertificate(certificate)
	}
	if err == nil {
		err = os.Setenv("SSL_CERT_FILE", certificate) // crypto/x509 reads it once, at the first connection
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	return code
}

// leaks fails if goroutines of a client or of a store outlive the tests.
func leaks() int {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if runtime.NumGoroutine() <= 2 { // the second is that of os/signal or of the servers' keeper
			return 0
		}
	}
	stacks := make([]byte, 1<<20)
	fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
	return 1
}

func writeCertificate(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
	return os.WriteFile(file, text, 0o600)
}

func freePort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

const secret = "s3cret/p@ss"

// TestOpen: every form of URL opens a store that counts, and the names of its keys begin as the configuration says.
func TestOpen(t *testing.T) {
	t.Parallel()
	tlsPort := freePort(t)
	one := engines.Redis(t, nil)
	secured := engines.Redis(t, &engines.RedisOptions{Args: []string{
		"--user", "ration", "on", ">" + secret, "~*", "+@all",
		"--tls-port", tlsPort, "--tls-cert-file", certificate, "--tls-key-file", certificate, "--tls-auth-clients", "no",
	}})
	cluster := engines.RedisCluster(t, nil)
	set := engines.Sentinel(t, nil)
	for name, url := range map[string]string{
		"one server":             "redis://" + one.Addr,
		"a database":             "redis://" + one.Addr + "/3",
		"a user":                 "redis://ration:s3cret%2Fp%40ss@" + secured.Addr,
		"TLS":                    "rediss://ration:s3cret%2Fp%40ss@127.0.0.1:" + tlsPort + "/1",
		"a cluster":              "redis-cluster://" + strings.Join(cluster.Addrs(), ","),
		"one node of it":         "redis-cluster://" + cluster.Addrs()[1],
		"a cluster, as a server": "redis://" + cluster.Addrs()[0],
		"Sentinels":              "redis-sentinel://" + strings.Join(set.Addrs(), ",") + "/" + set.Master + "/2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			cfg := server.Defaults()
			cfg.Redis.Prefix = strings.ReplaceAll(name, " ", "-") + ":"
			s, err := redis.Open(ctx, url, cfg)
			if err != nil {
				t.Fatal(err)
			}
			l := ration.New(s, nil)
			limit := ration.FixedWindow{Limit: 1, Window: time.Hour}
			for i := range 2 {
				for _, key := range []string{"a", "b", "c", "d"} { // on a cluster, of different nodes
					if d, err := l.Take(ctx, ration.KeyOf(key), limit, 1); err != nil || d.Allowed != (i == 0) {
						t.Errorf("take %d of %s: %+v, %v", i, key, d, err)
					}
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOpenFails: an error says what is wrong, and shows no secret.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	secured := engines.Redis(t, &engines.RedisOptions{Args: []string{"--user", "ration", "on", ">other", "~*", "+@all"}})
	nobody := "127.0.0.1:" + freePort(t)
	const user = "ration:s3cret%2Fp%40ss@"
	for name, c := range map[string]struct {
		url  string
		want error // nil: any
	}{
		"nobody there":     {"redis://" + user + nobody, driver.ErrNotApplied},
		"no cluster":       {"redis-cluster://" + user + nobody, driver.ErrNotApplied},
		"no Sentinels":     {"redis-sentinel://" + user + nobody + "/main?sentinel_password=s3cret%2Fp%40ss", nil},
		"a wrong password": {"redis://" + user + secured.Addr, nil},
		"no TLS there":     {"rediss://" + user + secured.Addr, nil},
		"no port":          {"redis://" + user + "127.0.0.1:x", nil},
		"two servers":      {"redis://" + user + "a,b", nil},
		"no such database": {"redis://" + user + secured.Addr + "/s3cret", nil},
		"no such setting":  {"redis://" + user + secured.Addr + "?timeout=s3cret", nil},
		"a bad escape":     {"redis://ration:s3cret%zz@" + secured.Addr, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redis.Open(context.Background(), c.url, server.Defaults())
			if err == nil {
				s.Close()
				t.Fatal("it opened")
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v is not %v", err, c.want)
			}
			if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "s3cret") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}
