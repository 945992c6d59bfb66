package upstashstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/crowd"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/internal/hitcontract"
	"github.com/ration-go/ration/storetest"
	"github.com/ration-go/ration/upstashstore"
)

func TestMain(m *testing.M) {
	if crowd.IsMember() {
		os.Exit(crowd.Member(openShared))
	}
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks fails if goroutines outlive the tests.
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

var prefixes atomic.Int64

func open(t testing.TB, g *gateway, prefix string) *upstashstore.Store {
	t.Helper()
	if prefix == "" {
		prefix = fmt.Sprintf("t%d:", prefixes.Add(1))
	}
	s := upstashstore.New(&upstashstore.Options{URL: g.URL, Token: token, Prefix: prefix, SweepEvery: -1})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// warm makes the server behind s know all scripts, by questions that change nothing: a round trip more, when it does not, is no
// part of a decision.
func warm(t testing.TB, s driver.Store) {
	t.Helper()
	op := driver.Op{Key: driver.Key{Space: "|c||", ID: "warm"}, Kind: driver.Counter, Size: 1, Span: 60e6, Cost: 1}
	peek := func(ops ...driver.Op) *driver.Txn { return &driver.Txn{Verb: driver.Peek, Ops: ops} }
	route := s.(driver.Router).Route(op.Key)
	apply(t, s, peek(op), peek(op))
	apply(t, s, peek(op, op))
	apply(t, s, &driver.Txn{Verb: driver.Renew, ID: "|" + route + ".warm", TTL: 60e6})
}

func apply(t testing.TB, s driver.Store, batch ...*driver.Txn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
}

// TestConformance runs the suite over a real Redis behind the gateway. A batch is one request.
func TestConformance(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, nil)
	type opened struct {
		gateway *gateway
		prefix  string
	}
	var stores sync.Map
	openAt := func(t testing.TB, o opened) driver.Store {
		s := open(t, o.gateway, o.prefix)
		stores.Store(driver.Store(s), o)
		return s
	}
	of := func(s driver.Store) opened {
		o, _ := stores.Load(s)
		return o.(opened)
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) driver.Store {
			s := openAt(t, opened{newGateway(t, srv.Addr), fmt.Sprintf("t%d:", prefixes.Add(1))})
			warm(t, s)
			return s
		},
		Again: func(t testing.TB, s driver.Store) driver.Store { return openAt(t, of(s)) },
		Trips: func(s driver.Store) int64 { return of(s).gateway.requests.Load() },
	})
}

func TestHitContract(t *testing.T) {
	t.Parallel()
	g := newGateway(t, engines.Redis(t, nil).Addr)
	l := ration.New(open(t, g, ""), nil)
	hitcontract.Run(t, l, g.requests.Load)
}

func take(s driver.Store) error {
	txn := &driver.Txn{Verb: driver.Hit, Ops: []driver.Op{{Key: driver.Key{Space: "|c||", ID: "k"}, Kind: driver.Counter, Span: 60e6, Cost: 1}}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(s.Apply(ctx, []*driver.Txn{txn}), txn.Err)
}

// TestEnvironment: the URL and the token are read at the first use, and an error says what is missing, never the token.
func TestEnvironment(t *testing.T) {
	srv := engines.Redis(t, nil)
	g := newGateway(t, srv.Addr)
	for _, name := range []string{"UPSTASH_REDIS_REST_URL", "UPSTASH_REDIS_REST_TOKEN", "KV_REST_API_URL", "KV_REST_API_TOKEN"} {
		t.Setenv(name, "")
	}
	s := upstashstore.New(nil)
	defer s.Close()
	fails := func(what string) {
		t.Helper()
		err := take(s)
		if !errors.Is(err, driver.ErrNotApplied) || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), token) {
			t.Fatalf("want an error about %s, surely not applied, got %v", what, err)
		}
	}
	fails("URL")
	t.Setenv("KV_REST_API_URL", g.URL)
	fails("token")
	t.Setenv("KV_REST_API_TOKEN", "wrong-"+token)
	fails("WRONGPASS")
	t.Setenv("UPSTASH_REDIS_REST_TOKEN", token)
	if err := take(s); err != nil {
		t.Fatal(err)
	}
	t.Setenv("UPSTASH_REDIS_REST_URL", "http://127.0.0.1:1")
	fails("refused")
}

// TestAnswers: what is surely not applied, and what may be.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		sure   bool
	}{
		{429, `{"error":"ERR max requests limit exceeded"}`, true},
		{401, `{"error":"WRONGPASS"}`, true},
		{307, ``, true},
		{400, `{"error":"READONLY You can't write against a read only replica."}`, true},
		{400, `{"error":"ERR something else"}`, false},
		{500, `oops`, false},
		{502, `<html>`, false},
		{200, `{"result":"what is this"}`, false},
		{200, `{"result":{"a":1}}`, false},
		{200, `[]`, false},
		{200, ``, false},
	} {
		srv := newAnswerer(t, c.status, c.body)
		s := upstashstore.New(&upstashstore.Options{URL: srv, Token: token})
		err := take(s)
		if err == nil || errors.Is(err, driver.ErrNotApplied) != c.sure {
			t.Errorf("HTTP %d %s: %v; want an error, surely not applied: %v", c.status, c.body, err, c.sure)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExpiredHold: a process that holds reservations sweeps, and one that does not makes no requests.
func TestExpiredHold(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, nil)
	g := newGateway(t, srv.Addr)
	s := upstashstore.New(&upstashstore.Options{URL: g.URL, Token: token, SweepEvery: 20 * time.Millisecond})
	l := ration.New(s, nil)
	defer l.Close()
	ctx := context.Background()
	limit := ration.Budget{Limit: 10, Period: ration.Year}
	key := ration.KeyOf("k")
	if _, err := l.Take(ctx, key, limit, 1); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Reserve(ctx, &ration.ReserveOptions{TTL: time.Second, RefundOnExpiry: true}, key.Charge(limit, 5)); err != nil || !r.Allowed {
		t.Fatal(r, err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		d, err := l.Peek(ctx, key, limit, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Used == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d used long after the reservation expired", d.Used)
		}
		<-time.After(10 * time.Millisecond)
	}
}
