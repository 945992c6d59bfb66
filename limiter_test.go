package ration_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// runStore is the simplest store: a map under a lock.
type runStore struct {
	mu     sync.Mutex
	rows   map[string][]byte
	holds  map[string][]byte
	due    map[string]driver.Micros
	info   driver.Info
	clock  func() time.Time
	closed int
	calls  int
	before func(ctx context.Context, batch []*driver.Txn) error // may fail instead of deciding
	after  func(ctx context.Context, batch []*driver.Txn) error // may lose the answer
}

func newRunStore() *runStore {
	return &runStore{rows: map[string][]byte{}, holds: map[string][]byte{}, due: map[string]driver.Micros{}, clock: time.Now,
		info: driver.Info{Kind: "test", Scope: driver.Network, Caps: driver.CapsRun | driver.CapsHolds}}
}

func (s *runStore) Load(key []byte) ([]byte, error) { return s.rows[string(key)], nil }

func (s *runStore) Save(key, blob []byte, _ driver.Micros) error {
	if blob == nil {
		delete(s.rows, string(key))
	} else {
		s.rows[string(key)] = blob
	}
	return nil
}

func (s *runStore) LoadHold(id string) ([]byte, error) { return s.holds[id], nil }

func (s *runStore) SaveHold(id string, blob []byte, _, due driver.Micros) error {
	s.holds[id], s.due[id] = blob, due
	return nil
}

func (s *runStore) Holds(context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, blob := range s.holds {
			if h, open, err := driver.DecodeHold(id, blob, driver.MicrosOf(s.clock())); open && !yield(h, err) {
				return
			}
		}
	}
}

// sweep ends what is due.
func (s *runStore) sweep(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.holds {
		if err := driver.Lapse(s, driver.MicrosOf(s.clock()), id); err != nil {
			t.Error(err)
		}
	}
}

func (s *runStore) Apply(ctx context.Context, batch []*driver.Txn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.before != nil {
		if err := s.before(ctx, batch); err != nil {
			return err
		}
	}
	if err := driver.Run(s, driver.MicrosOf(s.clock()), batch); err != nil {
		return err
	}
	if s.after != nil {
		return s.after(ctx, batch)
	}
	return nil
}

func (s *runStore) Info() driver.Info { return s.info }
func (s *runStore) Close() error      { s.closed++; return nil }

func newLimiter(t *testing.T, opts *ration.Options) (*ration.Limiter, *runStore) {
	t.Helper()
	s := newRunStore()
	l := ration.New(s, opts)
	t.Cleanup(func() { l.Close() })
	return l, s
}

var (
	ctx  = context.Background()
	chat = ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}
)

func TestTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t, nil)
		d, err := l.Take(ctx, ration.KeyOf("u"), chat, 15)
		if err != nil || !d.Allowed || d.Used != 15 || d.Remaining != 5 || d.Limit != 20 || d.ResetAfter != 90*time.Second {
			t.Fatalf("%+v %v", d, err)
		}
		d, err = l.Take(ctx, ration.KeyOf("u"), chat, 7)
		if err != nil || d.Allowed || d.RetryAfter != 12*time.Second || d.RetryAt() != d.At.Add(12*time.Second) {
			t.Fatalf("%+v %v", d, err)
		}
		if d, err = l.Peek(ctx, ration.KeyOf("u"), chat, 21); err != nil || d.Allowed || !d.Never || d.RetryAfter != 2*time.Minute {
			t.Fatalf("%+v %v", d, err)
		}
		time.Sleep(12 * time.Second)
		if d, err = l.Take(ctx, ration.KeyOf("u"), chat, 7); err != nil || !d.Allowed {
			t.Fatalf("after RetryAfter: %+v %v", d, err)
		}
	})
}

func TestBadInputChargesNothing(t *testing.T) {
	t.Parallel()
	l, s := newLimiter(t, nil)
	k := ration.KeyOf("u")
	long := string(make([]byte, 1025))
	bucket := ration.TokenBucket{Burst: 1, Refill: ration.PerSecond(1)}
	for name, c := range map[string]struct {
		key   ration.Key
		limit ration.Limit
		cost  int64
		want  error
	}{
		"zero key":          {ration.Key{}, chat, 1, ration.ErrInvalidKey},
		"empty part":        {ration.KeyOf("chat", ""), chat, 1, ration.ErrInvalidKey},
		"lost identity":     {ration.KeyOf(""), chat, 1, ration.ErrInvalidKey},
		"long key":          {ration.KeyOf(long), chat, 1, ration.ErrInvalidKey},
		"long group":        {k.In(long), chat, 1, ration.ErrInvalidKey},
		"nil limit":         {k, nil, 1, ration.ErrInvalidLimit},
		"pointer":           {k, &bucket, 1, ration.ErrInvalidLimit},
		"rule of rule":      {k, ration.Rule{Name: "a", Limit: ration.Rule{Name: "b", Limit: chat}}, 1, ration.ErrInvalidLimit},
		"rule of nothing":   {k, ration.Rule{Name: "a"}, 1, ration.ErrInvalidLimit},
		"rule name":         {k, ration.Rule{Name: "Chat", Limit: chat}, 1, ration.ErrInvalidLimit},
		"zero rate":         {k, ration.TokenBucket{Burst: 1}, 1, ration.ErrInvalidLimit},
		"rate 0":            {k, ration.TokenBucket{Burst: 1, Refill: ration.PerSecond(0)}, 1, ration.ErrInvalidLimit},
		"negative burst":    {k, ration.TokenBucket{Burst: -1, Refill: ration.PerSecond(1)}, 1, ration.ErrInvalidLimit},
		"negative window":   {k, ration.SlidingWindow{Limit: 1, Window: -time.Second}, 1, ration.ErrInvalidLimit},
		"zero window":       {k, ration.FixedWindow{Limit: 1}, 1, ration.ErrInvalidLimit},
		"60 ns":             {k, ration.FixedWindow{Limit: 1, Window: 60}, 1, ration.ErrInvalidLimit},
		"no period":         {k, ration.Budget{Limit: 1}, 1, ration.ErrInvalidLimit},
		"local zone":        {k, ration.Budget{Limit: 1, Period: ration.Day, Zone: "Local"}, 1, ration.ErrInvalidLimit},
		"unknown zone":      {k, ration.Budget{Limit: 1, Period: ration.Day, Zone: "Mars/Olympus"}, 1, ration.ErrInvalidLimit},
		"huge":              {k, ration.Budget{Limit: 1 << 53, Period: ration.Day}, 1, ration.ErrInvalidLimit},
		"negative cost":     {k, chat, -1, ration.ErrInvalidCost},
		"huge cost":         {k, chat, 1 << 53, ration.ErrInvalidCost},
		"inexact big rates": {k, ration.TokenBucket{Burst: 1 << 50, Refill: ration.Rate{N: 7, Per: 11 * time.Minute}}, 1, ration.ErrInvalidLimit},
	} {
		if d, err := l.Take(ctx, c.key, c.limit, c.cost); !errors.Is(err, c.want) || d.Allowed {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err := l.Wait(ctx, c.key, c.limit, c.cost); !errors.Is(err, c.want) {
			t.Errorf("%s: wait: %v, want %v", name, err, c.want)
		}
		if _, err := l.TakeAll(ctx, k.Charge(ration.Rule{Name: "other", Limit: chat}, 1), c.key.Charge(c.limit, c.cost)); !errors.Is(err, c.want) {
			t.Errorf("%s: list: %v, want %v", name, err, c.want)
		}
	}
	if _, _, err := l.Hit(ctx, k, 60, 1); !errors.Is(err, ration.ErrInvalidLimit) {
		t.Error(err)
	}
	if _, err := l.Refund(ctx, k, chat, 1, time.Time{}); !errors.Is(err, ration.ErrInvalidTime) {
		t.Error(err)
	}
	if _, err := l.TakeAll(ctx); !errors.Is(err, ration.ErrInvalidLimit) {
		t.Error(err)
	}
	if _, err := l.TakeAll(ctx, k.Charge(bucket, 1), k.Charge(chat, 1)); !errors.Is(err, ration.ErrInvalidLimit) {
		t.Error(err)
	}
	if _, err := l.TakeAll(ctx, ration.Charge{}); !errors.Is(err, ration.ErrInvalidLimit) {
		t.Error(err)
	}
	if s.calls != 0 || len(s.rows) != 0 {
		t.Errorf("%d calls, %d rows", s.calls, len(s.rows))
	}
}

func TestTakeAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		user := ration.Rule{Name: "user", Limit: ration.FixedWindow{Limit: 1, Window: time.Minute}}
		global := ration.Rule{Name: "global", Limit: ration.FixedWindow{Limit: 10, Window: time.Hour}}
		for i := range 20 {
			o, err := l.TakeAll(ctx, ration.KeyOf("a").Charge(user, 1), ration.Global.Charge(global, 1))
			if err != nil || o.Allowed != (i == 0) || len(o.Each) != 2 {
				t.Fatalf("%d: %+v %v", i, o, err)
			}
			if i > 0 && (o.Name != "user" || o.Index != 0 || o.RetryAfter != time.Minute || !o.Each[1].Allowed || o.Each[1].Used != 1) {
				t.Fatalf("%d: %+v", i, o)
			}
		}
		o, err := l.TakeAll(ctx, ration.KeyOf("b").Charge(user, 1), ration.Global.Charge(global, 1))
		if err != nil || !o.Allowed || o.Each[1].Used != 2 || o.Name != "user" {
			t.Fatalf("%+v %v", o, err)
		}
		// One identity twice is one decision over the sum.
		o, err = l.TakeAll(ctx, ration.Global.Charge(global, 5), ration.Global.Charge(global, 4))
		if err != nil || o.Allowed || o.Never || o.Each[0] != o.Each[1] || o.Each[0].Used != 2 {
			t.Fatalf("%+v %v", o, err)
		}
		if o, err = l.TakeAll(ctx, ration.Global.Charge(global, 5), ration.Global.Charge(global, 3)); err != nil || !o.Allowed || o.Used != 10 {
			t.Fatalf("%+v %v", o, err)
		}
		if o, err = l.TakeAll(ctx, ration.Global.Charge(global, 1), ration.KeyOf("c").Charge(user, 2)); err != nil || !o.Never || o.Index != 1 ||
			o.RetryAfter != time.Hour {
			t.Fatalf("%+v %v", o, err)
		}
		calls := s.calls
		if _, err = l.TakeAll(ctx, ration.Global.Charge(global, 1<<53-1), ration.Global.Charge(global, 1)); !errors.Is(err, ration.ErrOverflow) || s.calls != calls {
			t.Fatal(err)
		}
	})
}

func TestOneGroup(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, &ration.Options{OneGroup: true})
	a, b := ration.Rule{Name: "a", Limit: chat}, ration.Rule{Name: "b", Limit: chat}
	if _, err := l.TakeAll(ctx, ration.KeyOf("x").Charge(a, 1), ration.KeyOf("y").Charge(a, 1)); !errors.Is(err, ration.ErrCrossGroup) {
		t.Error(err)
	}
	if _, err := l.TakeAll(ctx, ration.KeyOf("x").In("g").Charge(a, 1), ration.KeyOf("x").Charge(b, 1)); !errors.Is(err, ration.ErrCrossGroup) {
		t.Error(err)
	}
	if o, err := l.TakeAll(ctx, ration.KeyOf("x").Charge(a, 1), ration.KeyOf("x").Charge(b, 1)); err != nil || !o.Allowed {
		t.Error(o, err)
	}
	if o, err := l.TakeAll(ctx, ration.KeyOf("x").In("g").Charge(a, 1), ration.KeyOf("y").In("g").Charge(a, 1)); err != nil || !o.Allowed {
		t.Error(o, err)
	}
}

func TestRefundResetForgetHit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t, nil)
		k := ration.KeyOf("u")
		d, _ := l.Take(ctx, k, chat, 5)
		if given, err := l.Refund(ctx, k, chat, 3, d.At); given != 3 || err != nil {
			t.Fatal(given, err)
		}
		dead, cancel := context.WithCancel(ctx)
		cancel()
		if given, err := l.Refund(dead, k, chat, 1, d.At); given != 1 || err != nil {
			t.Fatal("a refund outlives its context:", given, err)
		}
		if err := l.Reset(ctx, k, chat); err != nil {
			t.Fatal(err)
		}
		if given, err := l.Refund(ctx, k, chat, 1, d.At); given != 0 || err != nil {
			t.Fatal(given, err)
		}
		for i := range int64(3) {
			if n, left, err := l.Hit(ctx, k, time.Minute, 1); n != i+1 || left != time.Minute || err != nil {
				t.Fatal(n, left, err)
			}
		}
		fixed := ration.FixedWindow{Limit: 3, Window: time.Hour}
		if d, err := l.Peek(ctx, k, fixed, 1); err != nil || d.Allowed || d.RetryAfter != time.Minute {
			t.Fatalf("Hit and an unnamed FixedWindow are one counter: %+v %v", d, err)
		}
		day := ration.Budget{Limit: 5, Period: ration.Day, Zone: "Europe/Berlin"}
		if d, err := l.Take(ctx, k, day, 5); err != nil || !d.Allowed || d.ResetAfter != 23*time.Hour { // the bubble starts at 1 a.m. in Berlin
			t.Fatalf("%+v %v", d, err)
		}
		if err := l.Forget(ctx, k); err != nil {
			t.Fatal(err)
		}
		if n, left, err := l.Hit(ctx, k, time.Minute, 0); n != 0 || left != time.Minute || err != nil {
			t.Fatal(n, left, err)
		}
		if d, err := l.Take(ctx, k, day, 5); err != nil || !d.Allowed {
			t.Fatalf("%+v %v", d, err)
		}
	})
}

// A store whose clock is in another period than ours is asked again from its own time.
func TestClockOfTheStore(t *testing.T) {
	t.Parallel()
	l, s := newLimiter(t, nil)
	s.clock = func() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) }
	day := ration.Budget{Limit: 5, Period: ration.Day}
	d, err := l.Take(ctx, ration.KeyOf("u"), day, 1)
	if err != nil || !d.Allowed || d.ResetAt() != time.Date(2031, 5, 7, 0, 0, 0, 0, time.UTC) || s.calls != 2 {
		t.Fatalf("%+v %v, %d calls", d, err, s.calls)
	}
}

func TestClockOption(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	l, _ := newLimiter(t, &ration.Options{Clock: func() time.Time { return at }})
	if d, err := l.Take(ctx, ration.KeyOf("u"), chat, 20); err != nil || d.At != at {
		t.Fatalf("%+v %v", d, err)
	}
	at = at.Add(6 * time.Second)
	if d, err := l.Take(ctx, ration.KeyOf("u"), chat, 1); err != nil || !d.Allowed {
		t.Fatalf("%+v %v", d, err)
	}
	for _, at = range []time.Time{{}, time.Unix(0, 0), time.Unix(-5, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if d, err := l.Take(ctx, ration.KeyOf("u"), chat, 1); !errors.Is(err, ration.ErrInvalidTime) || d.Allowed {
			t.Errorf("%v: %+v %v", at, d, err)
		}
	}
}

func TestKeysAndNamespaces(t *testing.T) {
	t.Parallel()
	s := newRunStore()
	once := ration.SlidingWindow{Limit: 1, Window: time.Hour}
	keys := []ration.Key{
		ration.Global, ration.KeyOf(":"), ration.KeyOf("a"), ration.KeyOf("a", "b"), ration.KeyOf("a:b"), ration.KeyOf(":a:b"), ration.KeyOf("a:b", "c"),
		ration.KeyOf("a", "b:c"), ration.KeyOf("a", "b", "c"), ration.KeyOf("a%3Ab"), ration.KeyOf("a%", "3Ab"), ration.KeyOf("\x00"), ration.KeyOf("\xff"), ration.KeyOf("{a}"),
		ration.KeyOf("🙂"), ration.KeyOf("a").In("g"), ration.KeyOf("a").In("h"), ration.KeyOf("user@x.co", "mtest"), ration.KeyOf("user@x.com", "test"), ration.KeyOf("global"),
	}
	seen := 0
	for _, opts := range []*ration.Options{{Namespace: "n"}, {Namespace: "x"}, {Namespace: "x|b"}, {Namespace: "x%7Cb"}, {KeySecret: []byte("0123456789abcdef")}, {KeySecret: []byte("0123456789abcdeF")}} {
		l := ration.New(s, opts)
		for _, k := range keys {
			for _, name := range []string{"", "a", "b"} {
				d, err := l.Take(ctx, k, ration.Rule{Name: name, Limit: once}, 1)
				if err != nil || !d.Allowed {
					t.Fatalf("%+v %+v %v", opts, d, err)
				}
				seen++
			}
		}
	}
	if len(s.rows) != seen+1 { // and the record of spaces
		t.Fatalf("%d rows for %d keys", len(s.rows), seen)
	}
}

func TestKeySecretHidesKeys(t *testing.T) {
	t.Parallel()
	for hidden, opts := range map[bool]*ration.Options{false: nil, true: {KeySecret: []byte("0123456789abcdef")}} {
		l, s := newLimiter(t, opts)
		if _, err := l.Take(ctx, ration.KeyOf("needle", "x").In("needle"), chat, 1); err != nil {
			t.Fatal(err)
		}
		for row := range s.rows {
			if row[0] != 0 && strings.Contains(row, "needle") == hidden {
				t.Errorf("hidden %v: row %q", hidden, row)
			}
		}
	}
	if _, err := ration.New(newRunStore(), &ration.Options{KeySecret: []byte("short")}).Take(ctx, ration.KeyOf("a"), chat, 1); !errors.Is(err, ration.ErrInvalidKey) {
		t.Error(err)
	}
}

func TestErrorsSayWhetherCharged(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	l, s := newLimiter(t, nil)
	s.after = func(context.Context, []*driver.Txn) error { return broken }
	if d, err := l.Take(ctx, ration.KeyOf("u"), chat, 1); !errors.Is(err, ration.ErrOutcomeUnknown) || !errors.Is(err, broken) || d.Allowed {
		t.Fatalf("%+v %v", d, err)
	}
	if _, err := l.Peek(ctx, ration.KeyOf("u"), chat, 1); errors.Is(err, ration.ErrOutcomeUnknown) || !errors.Is(err, broken) {
		t.Fatal(err)
	}
	s.after = nil
	s.before = func(context.Context, []*driver.Txn) error { return driver.ErrFull }
	if _, err := l.Take(ctx, ration.KeyOf("u"), chat, 1); errors.Is(err, ration.ErrOutcomeUnknown) || !errors.Is(err, ration.ErrFull) {
		t.Fatal(err)
	}
	allow := ration.Rule{Name: "a", Limit: chat, OnError: ration.AllowOnError}
	if d, err := l.Take(ctx, ration.KeyOf("u"), allow, 1); err != nil || !d.Allowed || !d.Degraded || d.Name != "a" {
		t.Fatalf("%+v %v", d, err)
	}
	if o, err := l.TakeAll(ctx, ration.KeyOf("u").Charge(allow, 1), ration.KeyOf("v").Charge(chat, 1)); err == nil || o.Allowed {
		t.Fatalf("one of the list denies: %+v %v", o, err)
	}
	if o, err := l.TakeAll(ctx, ration.KeyOf("u").Charge(allow, 1), ration.KeyOf("v").Charge(allow, 1)); err != nil || !o.Allowed || !o.Degraded || len(o.Each) != 2 {
		t.Fatalf("%+v %v", o, err)
	}
	if _, err := l.Take(ctx, ration.KeyOf(""), allow, 1); !errors.Is(err, ration.ErrInvalidKey) {
		t.Fatal("bad input is never allowed:", err)
	}
	dead, cancel := context.WithCancel(ctx)
	cancel()
	calls := s.calls
	if d, err := l.Take(dead, ration.KeyOf("u"), allow, 1); !errors.Is(err, context.Canceled) || d.Allowed || s.calls != calls {
		t.Fatalf("%+v %v", d, err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		s.before = func(ctx context.Context, _ []*driver.Txn) error { <-ctx.Done(); return ctx.Err() }
		start := time.Now()
		if _, err := l.Take(ctx, ration.KeyOf("u"), chat, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Fatal(err, time.Since(start))
		}
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRunStore()
		l := ration.New(s, nil)
		one := ration.FixedWindow{Limit: 1, Window: time.Hour}
		l.Take(ctx, ration.KeyOf("u"), one, 1)
		done := make(chan error)
		for range 2 {
			go func() { done <- l.Wait(ctx, ration.KeyOf("u"), one, 1) }()
		}
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-done; !errors.Is(err, ration.ErrClosed) {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil || s.closed != 1 {
			t.Fatal(err, s.closed)
		}
		if _, err := l.Take(ctx, ration.KeyOf("u"), one, 1); !errors.Is(err, ration.ErrClosed) || errors.Is(err, ration.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
	})
}
