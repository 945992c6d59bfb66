package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/memstore"
)

// rules are a limit of each kind that Take is for.
var rules = []string{"bucket 1/1h burst 5", "sliding 5/1h", "fixed 5/1h", "budget 5/month Europe/Berlin from day 15"}

func newService(t *testing.T, store driver.Store, opts *ration.Options) *Service {
	t.Helper()
	var limits []ration.Rule
	for _, text := range append(rules, "concurrent 5 lease 30s") {
		limit, err := ration.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, ration.Rule{Name: strings.Fields(text)[0], Limit: limit})
	}
	l := ration.New(store, opts)
	t.Cleanup(func() { l.Close() })
	s, err := New(l, store, limits, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, s *Service) {
	t.Helper()
	s.OpenOverrides(t.Context(), "ns", time.Second, slog.New(slog.DiscardHandler))
}

func set(t *testing.T, s *Service, key ration.Key, limit, text string, life time.Duration) *Override {
	t.Helper()
	o, err := s.SetOverride(t.Context(), key, Override{Limit: limit, Set: text}, life)
	if err != nil {
		t.Fatalf("%s, %s: %v", limit, text, err)
	}
	return o
}

// take answers whether cost passes, and the size that it was decided by.
func take(t *testing.T, s *Service, key ration.Key, name string, cost int64) (bool, int64) {
	t.Helper()
	limit, err := s.Limit(s.Limits(), key, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Take(t.Context(), nil, key, limit, cost)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d.Allowed, d.Limit
}

// An override has other numbers and the same count, for its key alone.
func TestOverrideKeepsTheCount(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(nil), nil)
	open(t, s)
	larger := map[string]string{
		"bucket": "bucket 1000000/1s burst 9", "sliding": "sliding 9/1h", "fixed": "fixed 9/1h", "budget": "budget 9/month Europe/Berlin from day 15",
	}
	for name, text := range larger {
		key, other := ration.KeyOf("key"), ration.KeyOf("other")
		for range 5 {
			if ok, size := take(t, s, key, name, 1); !ok || size != 5 {
				t.Errorf("%s: %v of %d", name, ok, size)
			}
		}
		if ok, _ := take(t, s, key, name, 1); ok {
			t.Errorf("%s: the sixth passes", name)
		}
		if o := set(t, s, key, name, text, 0); !o.Applies {
			t.Errorf("%s: %+v", name, o)
		}
		if ok, size := take(t, s, other, name, 1); !ok || size != 5 {
			t.Errorf("%s: another key: %v of %d", name, ok, size)
		}
		passed := 0
		for range 20 {
			ok, size := take(t, s, key, name, 1)
			if size != 9 {
				t.Errorf("%s: decided by %d", name, size)
			}
			if ok {
				passed++
			}
		}
		if name != "bucket" && passed != 4 { // of 9, 5 were used
			t.Errorf("%s: %d more pass, not 4", name, passed)
		}
		set(t, s, key, name, Blocked, 0)
		if ok, size := take(t, s, key, name, 1); ok || size != 0 {
			t.Errorf("%s: blocked, and %v of %d", name, ok, size)
		}
		set(t, s, key, name, Unlimited, 0)
		for range 3 { // each as much as the limit allows in years
			if ok, _ := take(t, s, key, name, 1_000_000); !ok {
				t.Errorf("%s: unlimited, and it is refused", name)
			}
		}
		if existed, err := s.RemoveOverride(t.Context(), key, name); err != nil || !existed {
			t.Errorf("%s: %v, %v", name, existed, err)
		}
		if _, size := take(t, s, key, name, 0); size != 5 {
			t.Errorf("%s: after its end decided by %d", name, size)
		}
		if existed, err := s.RemoveOverride(t.Context(), key, name); err != nil || existed {
			t.Errorf("%s: removed twice: %v, %v", name, existed, err)
		}
	}
	set(t, s, ration.Global, "concurrent", Blocked, 0)
	limit := s.For(s.Limits(), "concurrent", ration.Global)
	r, err := s.Limiter.Reserve(t.Context(), nil, ration.Global.Charge(limit, 1))
	if err != nil || r.Allowed {
		t.Errorf("a slot of a blocked key: %+v, %v", r, err)
	}
}

func TestOverrideFaults(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(nil), nil)
	key := ration.KeyOf("key")
	if _, err := s.SetOverride(t.Context(), key, Override{Limit: "fixed", Set: Blocked}, 0); !errors.Is(err, ration.ErrUnsupported) {
		t.Errorf("a server without overrides: %v", err)
	}
	open(t, s)
	for name, c := range map[string]struct {
		key  ration.Key
		o    Override
		code wire.Code
		at   string
	}{
		"another kind":   {key, Override{Limit: "fixed", Set: "sliding 5/1h"}, wire.CodeInvalidLimit, "/override"},
		"another period": {key, Override{Limit: "budget", Set: "budget 9/month"}, wire.CodeInvalidLimit, "/override"},
		"no limit":       {key, Override{Limit: "fixed", Set: "9"}, wire.CodeInvalidLimit, "/override"},
		"long":           {key, Override{Limit: "fixed", Set: strings.Repeat("x", 300)}, wire.CodeInvalidLimit, "/override"},
		"unknown":        {key, Override{Limit: "nobody", Set: Blocked}, CodeUnknownLimit, "/limit"},
		"text":           {key, Override{Limit: "fixed 5/1h", Set: Blocked}, CodeUnknownLimit, "/limit"},
		"no key":         {ration.Key{}, Override{Limit: "fixed", Set: Blocked}, wire.CodeInvalidKey, "/key"},
		"over":           {key, Override{Limit: "fixed", Set: Blocked, Expires: 1}, wire.CodeInvalidTime, "/expires_at_us"},
		"too late":       {key, Override{Limit: "fixed", Set: Blocked, Expires: driver.MaxNow + 1}, wire.CodeInvalidTime, "/expires_at_us"},
		"note":           {key, Override{Limit: "fixed", Set: Blocked, Note: strings.Repeat("x", 201)}, CodeInvalidOverride, "/note"},
	} {
		_, err := s.SetOverride(t.Context(), c.key, c.o, 0)
		known, ok := errors.AsType[*Error](err)
		if !ok || known.Code != c.code || known.Pointer != c.at {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if list, _, err := s.Overrides(t.Context(), "", 10); err != nil || len(list) != 0 {
		t.Errorf("there are %d overrides (%v)", len(list), err)
	}
}

// A limit whose kind changes is decided as configured; its override is listed as one that does not apply.
func TestOverrideOfAnotherKindRests(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(nil), nil)
	open(t, s)
	key := ration.KeyOf("key")
	set(t, s, key, "fixed", "fixed 9/1h", 0)
	set(t, s, key, "sliding", Blocked, 0)
	next, err := NewLimits([]ration.Rule{{Name: "fixed", Limit: ration.SlidingWindow{Limit: 3, Window: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	s.SetLimits(next)
	if _, size := take(t, s, key, "fixed", 1); size != 3 {
		t.Errorf("decided by %d", size)
	}
	list, _, err := s.Overrides(t.Context(), "", 10)
	if err != nil || len(list) != 2 || list[0].Applies || list[1].Applies {
		t.Errorf("%+v, %v", list, err)
	}
	if existed, err := s.RemoveOverride(t.Context(), key, "sliding"); err != nil || !existed {
		t.Errorf("one of a limit that is gone: %v, %v", existed, err)
	}
}

// Keys are kept as fingerprints, which the secret makes, unless they are to be kept.
func TestOverrideShowsNoKey(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	s := newService(t, store, &ration.Options{KeySecret: []byte("a secret of sixteen")})
	open(t, s)
	key := ration.KeyOf("alice", "in a group").In("wonderland")
	set(t, s, key, "fixed", Blocked, 0)
	kept := Override{Limit: "sliding", Set: Blocked, Key: &KeptKey{Parts: []string{"alice", "in a group"}, Group: "wonderland"}}
	if _, err := s.SetOverride(t.Context(), key, kept, 0); err != nil {
		t.Fatal(err)
	}
	if ok, _ := take(t, s, key, "fixed", 1); ok {
		t.Error("a blocked key passes")
	}
	if ok, _ := take(t, s, ration.KeyOf("alice", "in a group"), "fixed", 1); !ok {
		t.Error("a key of another group is blocked")
	}
	l, err := store.DocumentsSince(t.Context(), s.overrides.space, 0, 10)
	if err != nil || len(l.Documents) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	if text := fmt.Sprintf("%s %s", l.Documents[0].Name, l.Documents[0].Value); strings.Contains(text, "alice") || strings.Contains(text, "YWxpY2U") {
		t.Errorf("the store has the key: %s", text)
	}
	o, err := s.Override(t.Context(), key, "sliding")
	if err != nil || o.Key == nil || o.Key.Group != "wonderland" || len(o.Key.Parts) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = s.Override(t.Context(), key, "fixed"); err != nil || o.Key != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// Two services on one store: what one sets, the other decides by within twice the poll; so too removals and ends.
func TestOverridesFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{SweepEvery: -1})
		one, two := newService(t, store, nil), newService(t, store, nil)
		open(t, one)
		ctx, cancel := context.WithCancel(t.Context())
		follow := two.OpenOverrides(ctx, "ns", time.Second, slog.New(slog.DiscardHandler))
		ended := make(chan struct{})
		go func() { defer close(ended); follow(ctx) }()
		key := ration.KeyOf("key")
		expect := func(what string, want int64) {
			t.Helper()
			time.Sleep(two.Within())
			if _, size := take(t, two, key, "fixed", 0); size != want {
				t.Errorf("%s: decided by %d, not %d", what, size, want)
			}
		}
		expect("before", 5)
		set(t, one, key, "fixed", "fixed 9/1h", 0)
		expect("set", 9)
		set(t, one, key, "fixed", "fixed 11/1h", 10*time.Second)
		expect("changed", 11)
		time.Sleep(7900 * time.Millisecond)
		if _, size := take(t, two, key, "fixed", 0); size != 11 {
			t.Errorf("a moment before its end: decided by %d", size)
		}
		time.Sleep(200 * time.Millisecond)
		if _, size := take(t, two, key, "fixed", 0); size != 5 {
			t.Errorf("after its end: decided by %d", size)
		}
		set(t, one, key, "fixed", Blocked, 0)
		expect("blocked", 0)
		if _, err := one.RemoveOverride(ctx, key, "fixed"); err != nil {
			t.Error(err)
		}
		expect("removed", 5)
		other := newService(t, store, nil) // of another namespace
		other.OpenOverrides(ctx, "other", time.Second, slog.New(slog.DiscardHandler))
		set(t, other, key, "fixed", Blocked, 0)
		expect("in another namespace", 5)
		cancel()
		<-ended
	})
}

// forgetful is a store whose documents can fail, or be lost.
type forgetful struct {
	driver.Store
	docs atomic.Pointer[memstore.Store]
	err  atomic.Pointer[error]
}

func (f *forgetful) PutDocument(ctx context.Context, space string, d driver.Document) (int64, error) {
	return f.docs.Load().PutDocument(ctx, space, d)
}

func (f *forgetful) DeleteDocument(ctx context.Context, space, name string) (bool, error) {
	return f.docs.Load().DeleteDocument(ctx, space, name)
}

func (f *forgetful) DocumentsSince(ctx context.Context, space string, since int64, most int) (l driver.DocumentList, err error) {
	if err := f.err.Load(); err != nil {
		return l, *err
	}
	return f.docs.Load().DocumentsSince(ctx, space, since, min(most, 3)) // many pages
}

// While the store cannot be read, what is known stays in force; what it has lost is in force no more.
func TestOverridesOfABadStore(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	f := &forgetful{Store: store}
	f.docs.Store(memstore.New(nil))
	s := newService(t, f, nil)
	open(t, s)
	key := func(i int) ration.Key { return ration.KeyOf(fmt.Sprint(i)) }
	for i := range 10 {
		set(t, s, key(i), "fixed", fmt.Sprintf("fixed %d/1h", 10+i), 0)
	}
	gone := errors.New("gone")
	f.err.Store(&gone)
	if err := s.refresh(t.Context()); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if _, _, err := s.Overrides(t.Context(), "", 10); !errors.Is(err, gone) {
		t.Errorf("a list that cannot be read: %v", err)
	}
	if _, size := take(t, s, key(3), "fixed", 0); size != 13 {
		t.Errorf("decided by %d", size)
	}
	f.err.Store(nil)
	f.docs.Store(memstore.New(nil))
	if err := s.refresh(t.Context()); err != nil {
		t.Error(err)
	}
	if _, size := take(t, s, key(3), "fixed", 0); size != 5 {
		t.Errorf("decided by %d, of an override that the store has lost", size)
	}
	set(t, s, key(4), "fixed", "fixed 20/1h", 0)
	if list, more, err := s.Overrides(t.Context(), "", 10); err != nil || more || len(list) != 1 {
		t.Errorf("%v, %v, %v", list, more, err)
	}
}
