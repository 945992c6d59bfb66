package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/redisstore"
)

// TestWaitReplicas: a charge that no replica has in time is reported as one whose outcome is not known.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	set := engines.Sentinel(t, nil)
	s := open(t, newClient(t, set.Primary.Addr), &redisstore.Options{WaitReplicas: 1, WaitTimeout: 200 * time.Millisecond})
	l := ration.New(s, nil)
	ctx := context.Background()
	key := ration.KeyOf("k")
	for deadline := time.Now().Add(patience); ; {
		if _, err := l.Take(ctx, key, year, 1); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	n := used(t, l, key, year)
	set.Replica.Pause()
	full := ration.FixedWindow{Limit: 0, Window: time.Hour}
	if d, err := l.Take(ctx, key, full, 1); err != nil || d.Allowed {
		t.Errorf("a refusal changes nothing, so it is known: %v, %v", d, err)
	}
	if _, err := l.Take(ctx, key, year, 1); !errors.Is(err, ration.ErrOutcomeUnknown) {
		t.Errorf("a charge that no replica has: %v", err)
	}
	if got := used(t, l, key, year); got != n+1 {
		t.Errorf("%d used, want %d", got, n+1)
	}
	set.Replica.Resume()
	for deadline := time.Now().Add(patience); ; {
		if _, err := l.Take(ctx, key, year, 1); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestWaitReplicasOnCluster(t *testing.T) {
	t.Parallel()
	s := open(t, newClient(t, cluster(t).Addrs()...), &redisstore.Options{WaitReplicas: 1, WaitTimeout: 10 * time.Second})
	l := ration.New(s, &ration.Options{NoJoin: true})
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if d, err := l.Take(context.Background(), ration.KeyOf(key), year, 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	var batch []*driver.Txn
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		batch = append(batch, &driver.Txn{Verb: driver.Hit, Ops: []driver.Op{{Key: driver.Key{Space: "|c||", ID: key}, Kind: driver.Counter, Span: 60e6, Cost: 1}}})
	}
	apply(t, s, batch...)
	for _, txn := range batch {
		if txn.Err != nil || txn.Ops[0].Result.Used != 1 {
			t.Error(txn.Err, txn.Ops[0].Result)
		}
	}
}

func codes(s *redisstore.Store) (codes []string) {
	for _, f := range s.Check(context.Background()) {
		codes = append(codes, f.Level+" "+f.Code)
		if f.Text == "" || f.Level != "ok" && f.Remedy == "" {
			codes = append(codes, "incomplete "+f.Code)
		}
	}
	slices.Sort(codes)
	return codes
}

func TestCheck(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, nil)
	c := newClient(t, srv.Addr)
	s := open(t, c, nil)
	want := func(want ...string) {
		t.Helper()
		if got := codes(s); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want("ok redis")
	_, err := redisstore.New(c, &redisstore.Options{Durable: true})
	if err == nil || !strings.Contains(err.Error(), "appendfsync") {
		t.Errorf("durable with appendfsync everysec: %v", err)
	}
	command(t, c, "CONFIG", "SET", "appendfsync", "always")
	d := open(t, c, &redisstore.Options{Durable: true})
	if !d.Info().Durable || s.Info().Durable {
		t.Error("durable only if asked and checked")
	}
	command(t, c, "CONFIG", "SET", "maxmemory", "100mb")
	want("ok redis")
	command(t, c, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	want("error redis.eviction")
	if _, err := redisstore.New(c, &redisstore.Options{Durable: true}); err == nil {
		t.Error("durable with eviction")
	}
	command(t, c, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	command(t, c, "CONFIG", "SET", "appendonly", "no")
	want("warning redis.persistence")
	if err := srv.Kill(); err != nil {
		t.Fatal(err)
	}
	want("error redis.unreachable")
}

func TestCheckOnCluster(t *testing.T) {
	t.Parallel()
	c := newClient(t, cluster(t).Addrs()...)
	if got := codes(open(t, c, nil)); !slices.Equal(got, []string{"warning redis.failover", "warning redis.failover", "warning redis.failover"}) {
		t.Errorf("%q", got)
	}
	if _, err := redisstore.New(c, &redisstore.Options{Durable: true}); err == nil {
		t.Error("durable with replicas that are behind")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	srv := server(t, "redis")
	for _, tags := range []int{-1, 3, 1 << 15} {
		if _, err := redisstore.New(newClient(t, srv.Addr), &redisstore.Options{Tags: tags}); err == nil {
			t.Errorf("%d tags are no error", tags)
		}
	}
	for _, url := range []string{srv.URL, "redis-cluster://" + strings.Join(cluster(t).Addrs(), ",")} {
		s, err := redisstore.Open(url, &redisstore.Options{Prefix: newPrefix(), Tags: 1})
		if err != nil {
			t.Fatal(err)
		}
		l := ration.New(s, nil)
		if d, err := l.Take(context.Background(), ration.KeyOf("k"), year, 1); err != nil || !d.Allowed {
			t.Error(d, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := redisstore.Open("redis://127.0.0.1:1", nil); !errors.Is(err, driver.ErrNotApplied) {
		t.Error(err)
	}
}

// TestSweepInBackground: a hold of a dead process goes back within about a second, by any other.
func TestSweepInBackground(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][]string{"standalone": {server(t, "redis").Addr}, "cluster": cluster(t).Addrs()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := newPrefix()
			dead := ration.New(open(t, newClient(t, c...), &redisstore.Options{Prefix: prefix}), nil)
			ctx := context.Background()
			key := ration.KeyOf("k")
			reserve := func(key ration.Key, ttl time.Duration, refund bool) {
				t.Helper()
				r, err := dead.Reserve(ctx, &ration.ReserveOptions{TTL: ttl, RefundOnExpiry: refund}, key.Charge(year, 2))
				if err != nil || !r.Allowed {
					t.Fatal(r, err)
				}
			}
			for i := range 5 {
				reserve(key, time.Second, i < 3)
				reserve(ration.KeyOf("lasting"+strconv.Itoa(i)), time.Hour, true)
			}
			s := open(t, newClient(t, c...), &redisstore.Options{Prefix: prefix, SweepEvery: 50 * time.Millisecond})
			other := ration.New(s, nil)
			n := 0
			for h, err := range other.Holds(ctx) {
				if err != nil || len(h.Charged) != 1 || h.Charged[0].Used != 2 {
					t.Fatal(h, err)
				}
				if time.Until(h.ExpiresAt) > time.Minute {
					n++
				}
			}
			if n != 5 {
				t.Errorf("%d holds are listed", n)
			}
			for deadline := time.Now().Add(patience); used(t, other, key, year) != 4; {
				if time.Now().After(deadline) {
					t.Fatalf("%d used", used(t, other, key, year))
				}
				<-time.After(10 * time.Millisecond)
			}
		})
	}
}
