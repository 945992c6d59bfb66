//go:build linux

package doctor_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/doctor"
)

func closedPort(t testing.TB) string {
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

func client(t testing.TB, address string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: address})
	t.Cleanup(func() { c.Close() })
	return c
}

// TestRedisHealthy: every kind of set-up that loses nothing in silence.
func TestRedisHealthy(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) string{
		"Redis":  func(t *testing.T) string { return plain.get(t).URL },
		"Valkey": func(t *testing.T) string { return engines.Redis(t, &engines.RedisOptions{Valkey: true}).URL },
		"a cluster": func(t *testing.T) string {
			return "redis-cluster://" + strings.Join(engines.RedisCluster(t, careful).Addrs(), ",")
		},
		"Sentinels": func(t *testing.T) string {
			set := engines.Sentinel(t, careful)
			return "redis-sentinel://" + strings.Join(set.Addrs(), ",") + "/" + set.Master
		},
		"TLS": func(t *testing.T) string { return secured(t, lasting) },
		"a user": func(t *testing.T) string {
			// The rights of docs/redis.md.
			srv := engines.Redis(t, &engines.RedisOptions{Args: []string{
				"--user", "app", "on", ">hunter2", "~ration:*", "-@all", "+eval", "+evalsha", "+@read", "+@write", "+@connection",
				"+info", "+time", "+config|get", "+cluster|info", "+client",
			}})
			return "redis://app:hunter2@" + srv.Addr
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engines.Require(t)
			url := open(t)
			for range 2 {
				p := &patient{store: url, ask: doctor.Options{Stage: "production", Replicas: 3}}
				p.finds(t)
			}
		})
	}
}

// careful: a primary that nobody follows refuses charges.
var careful = &engines.RedisOptions{Args: []string{"--min-replicas-to-write", "1"}}

// secured is the URL of a Redis with TLS.
func secured(t testing.TB, certificate string) string {
	t.Helper()
	port := closedPort(t)
	engines.Redis(t, &engines.RedisOptions{Args: []string{
		"--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", certificate, "--tls-auth-clients", "no",
	}})
	return "rediss://127.0.0.1:" + port
}

// TestRedis: what can be wrong with a server.
func TestRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		user   string
		config func(*server.Config)
		before func(t *testing.T, c *goredis.Client)
		want   []string
	}{
		"nothing on disk":  {args: []string{"--appendonly", "no"}, want: []string{"warning redis.persistence"}},
		"only snapshots":   {args: []string{"--appendonly", "no", "--save", "60 1"}, want: []string{"warning redis.persistence"}},
		"lazy disk":        {args: []string{"--appendfsync", "no"}, want: []string{"warning redis.fsync"}},
		"evicting":         {args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, want: []string{"error redis.eviction"}},
		"full":             {args: []string{"--maxmemory", "1kb"}, want: []string{"error store.full", "warning redis.memory"}},
		"waiting in vain":  {config: func(c *server.Config) { c.Redis.WaitReplicas = 2 }, want: []string{"error redis.wait"}},
		"alone":            {args: careful.Args, want: []string{"error redis.replicas"}},
		"no scripts":       {args: []string{"--user", "app", "on", ">hunter2", "~*", "+@all", "-eval", "-evalsha"}, user: "app:hunter2@", want: []string{"error redis.rights"}},
		"other keys":       {args: []string{"--user", "app", "on", ">hunter2", "~other:*", "+@all"}, user: "app:hunter2@", want: []string{"error redis.rights"}},
		"a wrong password": {args: []string{"--user", "app", "on", ">other", "~*", "+@all"}, user: "app:hunter2@", want: []string{"error reach.auth"}},
		"evicted": {
			args: []string{"--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"},
			before: func(t *testing.T, c *goredis.Client) {
				for range 400 {
					if err := c.RPush(t.Context(), strings.Repeat("x", 8)+time.Now().Format(time.RFC3339Nano), strings.Repeat("y", 20_000)).Err(); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				if err := c.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"warning redis.evicted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := engines.Redis(t, &engines.RedisOptions{Args: c.args})
			if c.before != nil {
				c.before(t, client(t, srv.Addr))
			}
			p := &patient{store: "redis://" + c.user + srv.Addr, config: c.config}
			p.finds(t, c.want...)
		})
	}
}

// TestRedisReplicas: a fail-over that may forget, and a node that only reads.
func TestRedisReplicas(t *testing.T) {
	t.Parallel()
	set := engines.Sentinel(t, nil)
	url := "redis-sentinel://" + strings.Join(set.Addrs(), ",") + "/" + set.Master
	(&patient{store: url}).finds(t, "warning redis.failover")
	(&patient{store: url, config: func(c *server.Config) { c.Redis.WaitReplicas = 1 }}).finds(t)
	(&patient{store: "redis://" + set.Replica.Addr}).finds(t, "warning redis.replica", "error redis.read_only")
}

// TestRedisReach: each step of a connection fails on its own.
func TestRedisReach(t *testing.T) {
	t.Parallel()
	srv := plain.get(t)
	silent := engines.Redis(t, nil)
	silent.Pause()
	t.Cleanup(silent.Resume)
	for name, c := range map[string]struct{ url, want string }{
		"nobody":      {"redis://app:hunter2@127.0.0.1:" + closedPort(t), "error reach.connect"},
		"no name":     {"redis://app:hunter2@a..b:6379", "error reach.dns"},
		"no TLS":      {"rediss://app:hunter2@" + srv.Addr, "error reach.tls"},
		"no URL":      {"redis://app:hunter2@" + srv.Addr + "/hunter2", "error store.failed"},
		"silence":     {"redis://app:hunter2@" + silent.Addr, "error reach.silent"},
		"ending soon": {secured(t, ending), "warning reach.certificate"},
		"no cluster":  {"redis-cluster://app:hunter2@127.0.0.1:" + closedPort(t), "error reach.connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &patient{store: c.url}
			if name == "silence" {
				p.ask.Timeout = 2 * time.Second
				begun := time.Now()
				defer func() {
					if took := time.Since(begun); took > 30*time.Second {
						t.Errorf("it took %v", took)
					}
				}()
			}
			p.finds(t, c.want)
		})
	}
}

// TestMeasures: a clock that is wrong, and answers that take long.
func TestMeasures(t *testing.T) {
	t.Parallel()
	store := plain.get(t).URL
	for name, c := range map[string]struct {
		ask  doctor.Options
		want []string
	}{
		"fast":   {doctor.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }}, []string{"warning clock"}},
		"slow":   {doctor.Options{Now: func() time.Time { return time.Now().Add(-time.Hour) }}, []string{"warning clock"}},
		"strict": {doctor.Options{MostRoundTrip: time.Nanosecond}, []string{"warning round_trip"}},
	} {
		p := &patient{store: store, ask: c.ask}
		r := p.examine(t)
		p.finds(t, c.want...)
		which := map[string]string{"fast": "behind", "slow": "ahead of", "strict": ""}[name]
		found := which == ""
		for _, f := range r.Findings {
			found = found || f.Code == "clock" && strings.Contains(f.Text, which)
		}
		if !found {
			t.Errorf("%s: the clock is not %s: %+v", name, which, r.Findings)
		}
	}
}

// TestNotOneStore: an address that leads to two servers which know nothing of each other.
func TestNotOneStore(t *testing.T) {
	t.Parallel()
	backends := []*engines.Server{plain.get(t), engines.Redis(t, nil)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var count atomic.Int64
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			other, err := net.Dial("tcp", backends[count.Add(1)%2].Addr)
			if err != nil {
				conn.Close()
				continue
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, other)
			}()
			go func() {
				defer other.Close()
				_, _ = io.Copy(other, conn)
			}()
		}
	}()
	p := &patient{store: "redis://" + ln.Addr().String()}
	for range 10 { // how many connections a client makes is up to it
		if r := p.examine(t); r.Worst() == doctor.Error {
			for _, f := range r.Findings {
				if f.Severity == doctor.Error && f.Code != "race" {
					t.Errorf("%+v", f)
				}
			}
			return
		}
	}
	t.Error("the race found nothing")
}

// TestUpstash: the gateway, its token, and a token that ends.
func TestUpstash(t *testing.T) {
	t.Parallel()
	c := client(t, plain.get(t).Addr)
	tokens := map[string]bool{}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !tokens[token] {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "WRONGPASS invalid or missing auth token " + token})
			return
		}
		var cmd []any
		if err := json.NewDecoder(r.Body).Decode(&cmd); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		value, err := c.Do(context.WithoutCancel(r.Context()), cmd...).Result()
		answer := map[string]any{"result": value}
		if err != nil && err != goredis.Nil {
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]any{"error": err.Error()}
		}
		if m, ok := value.(map[any]any); ok { // of CONFIG GET, in RESP 3
			list := []any{}
			for k, v := range m {
				list = append(list, k, v)
			}
			answer["result"] = list
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(gateway.Close)
	// Tokens with an end: {"exp":4102444800}, which is in 2100, and {"exp":1000000000}, which is in 2001.
	const lasts, ended = "hunter2.eyJleHAiOjQxMDI0NDQ4MDB9.x", "hunter2.eyJleHAiOjEwMDAwMDAwMDB9.x"
	for _, token := range []string{"hunter2", lasts, ended} {
		tokens[token] = true
	}
	for name, c := range map[string]struct {
		url, token string
		now        func() time.Time
		want       []string
	}{
		"healthy":       {gateway.URL, "hunter2", nil, nil},
		"long to go":    {gateway.URL, lasts, nil, nil},
		"has ended":     {gateway.URL, ended, nil, []string{"error secret.expiry"}},
		"ends soon":     {gateway.URL, lasts, func() time.Time { return time.Unix(4102444800-3600, 0) }, []string{"warning clock", "warning secret.expiry"}},
		"a wrong token": {gateway.URL, "hunter2-", nil, []string{"error reach.auth"}},
		"no token":      {gateway.URL, "", nil, []string{"error config.store"}},
		"no URL":        {"", "hunter2", nil, []string{"error config.store"}},
		"nobody":        {"http://127.0.0.1:" + closedPort(t), "hunter2", nil, []string{"error reach.connect"}},
		"no TLS":        {strings.Replace(gateway.URL, "http:", "https:", 1), "hunter2", nil, []string{"error reach.tls"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"UPSTASH_REDIS_REST_URL": c.url, "UPSTASH_REDIS_REST_TOKEN": c.token}
			p := &patient{store: "upstash:", ask: doctor.Options{Now: c.now, Getenv: func(name string) string { return env[name] }}}
			p.finds(t, c.want...)
		})
	}
}
