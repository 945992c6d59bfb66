package activity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server/internal/activity"
)

var chat = ration.Rule{Name: "chat", Limit: ration.FixedWindow{Limit: 10, Window: time.Minute}}

func yes() *ration.Decision { return &ration.Decision{Allowed: true, Name: "chat", Limit: 10, Used: 3} }
func no() *ration.Decision {
	return &ration.Decision{Name: "chat", Limit: 10, Used: 10, RetryAfter: 1500 * time.Microsecond}
}

func limitNamed(t *testing.T, s *activity.Snapshot, name string) activity.Limit {
	t.Helper()
	i := slices.IndexFunc(s.Limits, func(l activity.Limit) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no limit %q in %+v", name, s.Limits)
	}
	return s.Limits[i]
}

func TestCountsBySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r := activity.New([]string{"chat", "idle"}, nil)
		texts := map[string]string{"chat": chat.String(), "idle": "fixed 1/1m"}
		key := ration.KeyOf("a")
		for range 3 {
			r.Decided(ctx, chat, key, 1, yes(), nil)
		}
		r.Decided(ctx, chat, key, 1, no(), nil)
		r.Decided(ctx, chat, key, 0, yes(), nil) // asked only
		time.Sleep(time.Second)
		r.Decided(ctx, chat, key, 1, nil, driver.ErrNotApplied)
		r.Decided(ctx, chat, key, 1, nil, ration.ErrInvalidCost) // the caller's fault
		degraded := yes()
		degraded.Degraded = true
		r.Decided(ctx, chat, key, 1, degraded, nil)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		r.Decided(gone, chat, key, 1, nil, errors.Join(gone.Err(), driver.ErrNotApplied))
		r.Decided(ctx, ration.FixedWindow{Limit: 1, Window: time.Minute}, key, 1, yes(), nil)
		r.Decided(ctx, ration.Rule{Name: "made-up", Limit: chat.Limit}, key, 1, yes(), nil)
		time.Sleep(time.Second)

		s := r.Snapshot(texts)
		got := limitNamed(t, s, "chat")
		if want := (activity.Counts{Allowed: 4, Refused: 1, Errors: 1, Degraded: 1}); got.Totals != want || got.Minute != want {
			t.Errorf("%+v", got)
		}
		if last := got.Allowed[57:]; len(got.Allowed) != activity.Seconds || !slices.Equal(last, []int64{0, 3, 1}) {
			t.Errorf("allowed by the second: %v", got.Allowed)
		}
		if !slices.Equal(got.Refused[57:], []int64{0, 1, 0}) || !slices.Equal(got.Errors[57:], []int64{0, 0, 1}) {
			t.Errorf("refused %v, errors %v", got.Refused, got.Errors)
		}
		if got.Limit != "fixed 10/1m" {
			t.Error(got.Limit)
		}
		if other := limitNamed(t, s, ""); other.Totals.Allowed != 2 || other.Limit != "" {
			t.Errorf("limits without a configured name: %+v", other)
		}
		if idle := limitNamed(t, s, "idle"); idle.Totals != (activity.Counts{}) || len(idle.Allowed) != 0 || idle.Allowed == nil {
			t.Errorf("%+v", idle)
		}
		if s.Totals.Allowed != 6 || s.Minute.Allowed != 6 {
			t.Errorf("%+v", s.Totals)
		}

		time.Sleep(59 * time.Second)
		if got := limitNamed(t, r.Snapshot(texts), "chat"); got.Minute != (activity.Counts{Allowed: 1, Errors: 1, Degraded: 1}) || got.Allowed[0] != 1 {
			t.Errorf("a minute after the first: %+v", got)
		}
		time.Sleep(time.Second)
		if got := limitNamed(t, r.Snapshot(texts), "chat"); got.Minute != (activity.Counts{}) || got.Totals.Allowed != 4 || len(got.Allowed) != 0 {
			t.Errorf("later: %+v", got)
		}
	})
}

// TestListsAreRight compares with exact counts: no key that had more than its share is missing, no count is too small, or too
// large by more than it says.
func TestListsAreRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := activity.New([]string{"chat"}, nil)
		exact := map[string]int64{}
		random := rand.New(rand.NewPCG(1, 2))
		for range 200_000 {
			name := fmt.Sprintf("rare-%d", random.IntN(50_000))
			if random.IntN(2) == 0 {
				name = fmt.Sprintf("often-%d", int(random.ExpFloat64()*4))
			}
			key := ration.KeyOf(name)
			exact[r.Fingerprint(key)]++
			r.Decided(t.Context(), chat, key, 1, no(), nil)
		}
		check := func() {
			t.Helper()
			top := r.Snapshot(nil).MostRefused
			if len(top) != 20 {
				t.Fatalf("%d keys", len(top))
			}
			for _, one := range top {
				if real := exact[one.Fingerprint]; one.Count < real || one.Count-one.Over > real || one.Limit != "chat" {
					t.Errorf("%+v, really %d", one, real)
				}
			}
			for i := range 8 {
				f := r.Fingerprint(ration.KeyOf(fmt.Sprintf("often-%d", i)))
				if !slices.ContainsFunc(top, func(one activity.Top) bool { return one.Fingerprint == f }) {
					t.Errorf("often-%d, refused %d times, is missing", i, exact[f])
				}
			}
		}
		check()
		time.Sleep(5 * time.Minute)
		for range 1000 {
			exact[r.Fingerprint(ration.KeyOf("often-0"))]++
			r.Decided(t.Context(), chat, ration.KeyOf("often-0"), 1, no(), nil)
		}
		check()
		time.Sleep(10 * time.Minute)
		if s := r.Snapshot(nil); len(s.MostRefused) != 0 || s.AtUS-s.TopSinceUS > (10*time.Minute).Microseconds() {
			t.Errorf("after two turns: %+v", s.MostRefused)
		}
	})
}

func TestRecentIsASample(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := activity.New([]string{"chat"}, nil)
		key := ration.KeyOf("a")
		for range 100 {
			r.Decided(t.Context(), chat, key, 1, yes(), nil)
			r.Decided(t.Context(), chat, key, 7, no(), nil)
		}
		s := r.Snapshot(nil)
		if len(s.Recent) != 5 || s.RecentLeftOut != 195 {
			t.Errorf("%d shown, %d left out", len(s.Recent), s.RecentLeftOut)
		}
		i := slices.IndexFunc(s.Recent, func(e activity.Event) bool { return e.Outcome == "refused" })
		want := activity.Event{Who: activity.Who{Fingerprint: r.Fingerprint(key)}, AtUS: s.AtUS, Limit: "chat", Outcome: "refused", Cost: 7, Used: 10, Size: 10, RetryAfterMS: 2}
		if got := s.Recent[i]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		for range 1000 {
			time.Sleep(time.Second)
			r.Decided(t.Context(), chat, ration.KeyOf(fmt.Sprint(time.Now().UnixNano())), 1, no(), nil)
		}
		s = r.Snapshot(nil)
		if len(s.Recent) != 60 || !slices.IsSortedFunc(s.Recent, func(a, b activity.Event) int { return int(b.AtUS - a.AtUS) }) || s.Recent[0].AtUS != s.AtUS {
			t.Errorf("%d shown: %+v", len(s.Recent), s.Recent)
		}
	})
}

// TestKeysAreHidden: unless they are asked for, and of two servers with one secret the fingerprints are the same.
func TestKeysAreHidden(t *testing.T) {
	t.Parallel()
	keys := []ration.Key{ration.KeyOf("needle"), ration.KeyOf("needle", "b").In("needle"), ration.KeyOf("needle\xff"), ration.Global}
	secret := []byte("0123456789abcdef")
	record := func(opts *activity.Options) (*activity.Recorder, string) {
		r := activity.New([]string{"chat"}, opts)
		for _, key := range keys {
			r.Decided(t.Context(), chat, key, 1, no(), nil)
			r.Decided(t.Context(), chat, key, 1, yes(), nil)
		}
		return r, fmt.Sprintf("%+v", r.Snapshot(nil))
	}
	one, hidden := record(nil)
	two, _ := record(&activity.Options{Secret: secret})
	three, shown := record(&activity.Options{Secret: secret, ClearKeys: true})
	if strings.Contains(hidden, "needle") || !strings.Contains(hidden, one.Fingerprint(keys[0])) {
		t.Error(hidden)
	}
	for _, want := range []string{"Key:[needle]", "Key:[needle b]", "Group:needle", "KeyBase64:[bmVlZGxl/w==]", "Shared:true"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not in %s", want, shown)
		}
	}
	seen := map[string]bool{}
	for _, key := range keys {
		f := two.Fingerprint(key)
		if f != three.Fingerprint(key) || f == one.Fingerprint(key) || len(f) != 16 || seen[f] {
			t.Errorf("%q", f)
		}
		seen[f] = true
		if got, ok := two.Find(f); !ok || got != key {
			t.Errorf("the key of %s is not found", f)
		}
		if _, ok := one.Find(f); ok {
			t.Error("another's fingerprint is found")
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	r := activity.New([]string{"chat"}, nil)
	a, b := ration.KeyOf("a"), ration.KeyOf("b")
	for _, key := range []ration.Key{a, b} {
		r.Decided(t.Context(), chat, key, 1, no(), nil)
		r.Decided(t.Context(), chat, key, 1, yes(), nil)
	}
	r.Snapshot(nil)
	r.Forget(a)
	s := fmt.Sprintf("%+v", r.Snapshot(nil))
	if _, ok := r.Find(r.Fingerprint(a)); ok || strings.Contains(s, r.Fingerprint(a)) || !strings.Contains(s, r.Fingerprint(b)) {
		t.Error(s)
	}
}

// TestManyLimitsAndKeysAreBounded: what callers make up does not grow what is remembered.
func TestManyLimitsAndKeysAreBounded(t *testing.T) {
	t.Parallel()
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("limit-%04d", i)
	}
	r := activity.New(names, nil)
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 10_000 {
				key := ration.KeyOf(fmt.Sprintf("%d-%d", w, i))
				r.Decided(t.Context(), ration.Rule{Name: names[i%len(names)]}, key, 1, no(), nil)
				if i%1000 == 0 {
					r.Snapshot(nil)
				}
			}
		})
	}
	work.Wait()
	r.Forget(ration.KeyOf("nobody"))
	s := r.Snapshot(nil)
	if len(s.Limits) != 200 || s.LeftOut != 800 || s.Totals.Refused != 40_000 {
		t.Errorf("%d limits, %d left out, %d decisions", len(s.Limits), s.LeftOut, s.Totals.Refused)
	}
	if limitNamed(t, s, "").Totals.Refused != 40_000-8*999 {
		t.Errorf("%+v", limitNamed(t, s, ""))
	}
	if len(s.MostRefused) != 20 || len(s.Recent) != 60 {
		t.Errorf("%d keys, %d decisions", len(s.MostRefused), len(s.Recent))
	}
}

func TestNoRecorderRecordsNothing(t *testing.T) {
	t.Parallel()
	var r *activity.Recorder
	r.SetLimits([]string{"a"})
	r.Decided(t.Context(), chat, ration.KeyOf("a"), 1, yes(), nil)
	r.Forget(ration.KeyOf("a"))
	if _, ok := r.Find("0123456789abcdef"); ok || r.ClearKeys() {
		t.Error("it has something")
	}
}

func BenchmarkDecided(b *testing.B) {
	keys := make([]ration.Key, 1<<16)
	for i := range keys {
		keys[i] = ration.KeyOf(fmt.Sprintf("user-%d", i))
	}
	for _, c := range []struct {
		name string
		keys int
	}{{"one-key", 1}, {"128-keys", 128}, {"65536-keys", 1 << 16}} {
		b.Run(c.name, func(b *testing.B) {
			r := activity.New([]string{"chat"}, nil)
			d := yes()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.Decided(b.Context(), chat, keys[i&(c.keys-1)], 1, d, nil)
				i++
			}
		})
		b.Run(c.name+"-parallel", func(b *testing.B) {
			r := activity.New([]string{"chat"}, nil)
			ctx := b.Context()
			b.RunParallel(func(pb *testing.PB) {
				d := yes()
				for i := rand.Int(); pb.Next(); i++ {
					r.Decided(ctx, chat, keys[i&(c.keys-1)], 1, d, nil)
				}
			})
		})
	}
	b.Run("off", func(b *testing.B) {
		var r *activity.Recorder
		d := yes()
		for b.Loop() {
			r.Decided(b.Context(), chat, keys[0], 1, d, nil)
		}
	})
}
