package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/redisstore"
)

// TestKeysOnCluster: whatever users' keys hold, all are counted exactly and apart.
func TestKeysOnCluster(t *testing.T) {
	t.Parallel()
	c := newClient(t, cluster(t).Addrs()...)
	prefix := newPrefix()
	l := ration.New(open(t, c, &redisstore.Options{Prefix: prefix}), nil)
	var keys []string
	for i := range 1000 {
		keys = append(keys, "u"+strconv.Itoa(i+1))
	}
	long := strings.Repeat("x", 1023)
	keys = append(keys, "{", "}", "{}", "{a}", "{b}", "}{", "{{a}}", "a b", " ", "\x00", "a\x00b", "a\nb", "\xff\xfe", "é", "🙂", "%", "%41", "A", "a:b", ":", "::", "|", long, long+"y", long+"z", long+" ", long+"{")
	limit := ration.FixedWindow{Limit: 1 << 30, Window: 24 * time.Hour}
	ctx := context.Background()
	for round := range 2 {
		for i, key := range keys {
			cost := int64(i + 1)
			d, err := l.Take(ctx, ration.KeyOf(key), limit, cost)
			if err != nil || d.Used != cost*int64(round+1) {
				t.Fatalf("key %q, round %d: %d used, %v", key[:min(len(key), 20)], round, d.Used, err)
			}
		}
	}
	for i := range 100 { // groups, decided together
		a, b := ration.KeyOf("a", keys[i]).In(keys[len(keys)-1-i%25]), ration.KeyOf("b").In(keys[len(keys)-1-i%25])
		if o, err := l.TakeAll(ctx, a.Charge(limit, 1), b.Charge(limit, 1)); err != nil || !o.Allowed {
			t.Fatal(o, err)
		}
	}
	checkKeys(t, c, prefix)
}

// checkKeys: every key of a prefix is printable ASCII and expires.
func checkKeys(t testing.TB, c rueidis.Client, prefix string) {
	t.Helper()
	ctx := context.Background()
	n := 0
	for addr, node := range c.Nodes() {
		if role := command(t, node, "INFO", "replication"); !strings.Contains(role, "role:master") {
			continue
		}
		keys, err := node.Do(ctx, node.B().Arbitrary("KEYS", "*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(addr, err)
		}
		for _, key := range keys {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			n++
			if bytes.ContainsFunc([]byte(key), func(r rune) bool { return r <= ' ' || r >= 0x7F }) {
				t.Errorf("the key %q is not printable ASCII", key)
			}
			if ttl, err := node.Do(ctx, node.B().Pttl().Key(key).Build()).AsInt64(); err != nil || ttl < 1 && ttl != -2 {
				t.Errorf("the key %q has %d ms to live, %v", key, ttl, err)
			}
		}
	}
	if n == 0 {
		t.Error("no keys")
	}
}

// TestLargestNumbers: what doubles can hold is exact, on the server too.
func TestLargestNumbers(t *testing.T) {
	t.Parallel()
	c := newClient(t, server(t, "redis").Addr)
	prefix := newPrefix()
	l := ration.New(open(t, c, &redisstore.Options{Prefix: prefix}), nil)
	ctx := context.Background()
	const most = 1<<53 - 1
	decade := 87660 * time.Hour
	for _, limit := range []ration.Limit{
		ration.Budget{Limit: most, Period: ration.Year},
		ration.FixedWindow{Limit: most, Window: decade},
		ration.SlidingWindow{Limit: most, Window: decade},
	} {
		key := ration.KeyOf("k")
		for i, cost := range []int64{1, most - 3, 1} {
			d, err := l.Take(ctx, key, limit, cost)
			if want := []int64{1, most - 2, most - 1}[i]; err != nil || !d.Allowed || d.Used != want {
				t.Fatalf("%v: take %d: %+v, %v", limit, cost, d, err)
			}
		}
		d, err := l.Take(ctx, key, limit, 2)
		if err != nil || d.Allowed || d.Used != most-1 || d.Remaining != 1 {
			t.Fatalf("%v: %+v, %v", limit, d, err)
		}
		if d.ResetAfter <= 0 || d.RetryAfter <= 0 || d.ResetAfter > decade {
			t.Fatalf("%v: %+v", limit, d)
		}
		if d, err := l.Take(ctx, key, limit, 1); err != nil || !d.Allowed || d.Remaining != 0 {
			t.Fatalf("%v: %+v, %v", limit, d, err)
		}
	}
	key := ration.KeyOf("hits")
	for _, n := range []int64{most, 0, -1, 1} {
		if _, _, err := l.Hit(ctx, key, decade, n); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := l.Hit(ctx, key, decade, 1); err == nil {
		t.Fatal("2^53 was counted")
	}
	if n, left, err := l.Hit(ctx, key, decade, 0); err != nil || n != most || left > decade || left < decade-time.Minute {
		t.Fatal(n, left, err)
	}

	fast := ration.TokenBucket{Burst: 1_000_000_000, Refill: ration.PerSecond(1_000_000_000)}
	began := time.Now()
	var taken int64
	for range 50 {
		d, err := l.Take(ctx, ration.KeyOf("fast"), fast, 50_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			taken += 50_000_000
		}
	}
	if most := 1_000_000_000 + time.Since(began).Nanoseconds(); taken > most || taken < 1_000_000_000 {
		t.Fatalf("%d taken, at most %d", taken, most)
	}
	slow := ration.TokenBucket{Burst: 3, Refill: ration.Per(1, decade)}
	d, err := l.Take(ctx, ration.KeyOf("slow"), slow, 3)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	d, err = l.Take(ctx, ration.KeyOf("slow"), slow, 1)
	if err != nil || d.Allowed || d.RetryAfter > decade || d.RetryAfter < decade-time.Minute {
		t.Fatal(fmt.Sprintf("%+v", d), err)
	}
	checkKeys(t, c, prefix)
}

// TestKeysOutliveStates: whatever script wrote it last, a key ends one to two minutes after its state.
func TestKeysOutliveStates(t *testing.T) {
	t.Parallel()
	c := newClient(t, server(t, "redis").Addr)
	prefix := newPrefix()
	s := open(t, c, &redisstore.Options{Prefix: prefix})
	bucket := driver.Op{Kind: driver.Bucket, Size: 1000, Rate: 1, Span: 7e6, Cost: 1}
	counter := driver.Op{Kind: driver.Counter, Size: 1000, Span: 100e6, Cost: 1}
	window := driver.Op{Kind: driver.Window, Size: 1000, Span: 100e6, Cost: 1}
	for i := range 60 {
		var batch []*driver.Txn
		for j, op := range []driver.Op{bucket, counter, window} {
			if i%4 < 2 && op.Kind == driver.Window { // then it is not the script for windows that decides
				continue
			}
			op.Key = driver.Key{Space: "|" + string("bcw"[j]) + "||", Group: "g", ID: "k"}
			batch = append(batch, &driver.Txn{Verb: driver.Take, Ops: []driver.Op{op}})
		}
		if i%2 == 0 {
			apply(t, s, batch...)
		} else {
			for _, txn := range batch {
				apply(t, s, txn)
			}
		}
		for _, txn := range batch {
			op := &txn.Ops[0]
			if txn.Err != nil || !txn.Allowed {
				t.Fatal(txn.Err, op.Result)
			}
			key := prefix + op.Key.Space + "{" + s.Route(op.Key) + "}:g:k"
			at, err := c.Do(context.Background(), c.B().Pexpiretime().Key(key).Build()).AsInt64()
			after := time.Duration(at)*time.Millisecond - op.Result.ResetAt.Duration()
			if err != nil || after < 65*time.Second || after > 132*time.Second {
				t.Errorf("take %d: the key %s ends %v after its state, %v", i, key, after, err)
			}
		}
	}
}
