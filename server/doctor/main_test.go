//go:build linux

package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/doctor"
	"github.com/ration-go/ration/server/postgres"
	"github.com/ration-go/ration/server/redis"
	"github.com/ration-go/ration/server/sqlite"
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

// Certificates of 127.0.0.1 with their keys, which this process trusts: one that lasts, one that ends soon.
var lasting, ending string

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ration")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	lasting, ending = filepath.Join(dir, "lasting.pem"), filepath.Join(dir, "ending.pem")
	trusted := filepath.Join(dir, "trusted.pem")
	var all []byte
	for file, life := range map[string]time.Duration{lasting: 90 * 24 * time.Hour, ending: 5 * 24 * time.Hour} {
		text, err := certificate(life)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		all = append(all, text...)
	}
	if err := os.WriteFile(trusted, all, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("SSL_CERT_FILE", trusted) // crypto/x509 reads it once, at the first connection
	code := m.Run()
	stopEngines()
	if code == 0 {
		code = leaks()
	}
	return code
}

// leaks fails if goroutines of the doctor or of a store outlive the tests.
func leaks() int {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if runtime.NumGoroutine() <= 2 { // the second is that of os/signal or of the servers' keeper
			return 0
		}
	}
	stacks := make([]byte, 1<<20)
	fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
	return 1
}

func certificate(life time.Duration) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "127.0.0.1", SerialNumber: serial.String()}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...), nil
}

// parts is what the program ration is made of.
var parts = &server.Options{
	Stores: map[string]server.OpenFunc{
		"memory": server.OpenMemory, "sqlite": sqlite.Open, "postgres": postgres.Open, "redis": redis.Open, "rediss": redis.Open,
		"redis-cluster": redis.Open, "redis-sentinel": redis.Open, "upstash": server.OpenUpstash,
	},
	Examinations: map[string]server.ExamineFunc{
		"sqlite": sqlite.Examine, "postgres": postgres.Examine, "redis": redis.Examine, "rediss": redis.Examine,
		"redis-cluster": redis.Examine, "redis-sentinel": redis.Examine, "upstash": server.ExamineUpstash,
	},
}

// patient is a configuration to be examined, and how.
type patient struct {
	store  string
	config func(c *server.Config)
	ask    doctor.Options
}

func (p *patient) examine(t testing.TB) *doctor.Report {
	t.Helper()
	cfg := server.Defaults()
	cfg.Store = p.store
	if p.config != nil {
		p.config(cfg)
	}
	ask := p.ask
	if ask.MostRoundTrip == 0 {
		ask.MostRoundTrip = time.Minute // of a machine that does much else
	}
	if ask.MostOffset == 0 {
		ask.MostOffset = time.Minute
	}
	if ask.Timeout == 0 {
		ask.Timeout = time.Minute
	}
	r := server.Doctor(context.Background(), cfg, parts, &ask)
	for _, f := range r.Findings {
		if !slices.ContainsFunc(doctor.Catalogue, func(e doctor.Entry) bool { return e.Code == f.Code }) {
			t.Errorf("%s is not in the catalogue", f.Code)
		}
		if (f.Remedy == "") != (f.Severity == doctor.Fine) || f.Text == "" {
			t.Errorf("a finding without text or remedy: %+v", f)
		}
		if text := fmt.Sprintf("%+v", f); strings.Contains(text, "hunter2") {
			t.Errorf("a finding shows a secret: %s", text)
		}
	}
	return r
}

// finds examines p, and expects exactly these findings: "error reach.dns". None: it is healthy, and all was looked at.
func (p *patient) finds(t testing.TB, want ...string) {
	t.Helper()
	r := p.examine(t)
	got := []string{}
	for _, f := range r.Findings {
		if f.Severity > doctor.Fine {
			got = append(got, f.Severity.String()+" "+f.Code)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, not %q\n%+v", r.Store, got, want, r.Findings)
	}
	if len(want) == 0 && !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == "race" }) {
		t.Errorf("%s: no race: %+v", r.Store, r.Findings)
	}
}
