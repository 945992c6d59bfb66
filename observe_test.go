package ration_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// watched notes what an Observer is told.
type watched struct {
	mu     sync.Mutex
	events []ration.Event
	calls  []ration.StoreCall
}

func (w *watched) observer() *ration.Observer {
	return &ration.Observer{
		Decided: func(_ context.Context, e ration.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
		Stored: func(_ context.Context, c ration.StoreCall) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
		},
	}
}

func TestEventsNameTheirLimits(t *testing.T) {
	t.Parallel()
	w := new(watched)
	s := newDistant()
	l := ration.New(s, &ration.Options{Observer: w.observer()})
	defer l.Close()
	key := ration.KeyOf("u")
	day := ration.Rule{Name: "day", Limit: ration.FixedWindow{Limit: 5, Window: time.Hour}}
	hour := ration.Rule{Name: "hour", Limit: ration.FixedWindow{Limit: 2, Window: time.Hour}}
	bare := ration.FixedWindow{Limit: 5, Window: time.Hour}

	names := func(each []ration.Decision) (list []string) {
		for _, d := range each {
			list = append(list, d.Name)
		}
		return list
	}
	last := func(verb, name string, failed bool, each ...string) ration.Event {
		t.Helper()
		e := w.events[len(w.events)-1]
		if e.Verb != verb || e.Name != name || (e.Err != nil) != failed || !slices.Equal(names(e.Each), each) {
			t.Errorf("got %s of %q, each %q, error %v; want %s of %q, each %q, failed: %v", e.Verb, e.Name, names(e.Each), e.Err, verb, name, each, failed)
		}
		return e
	}
	l.Take(ctx, key, day, 1)
	last("take", "day", false)
	l.Take(ctx, key, bare, 1)
	last("take", "", false)
	l.Take(ctx, key, day, -1)
	last("take", "day", true)
	l.TakeAll(ctx, key.Charge(day, 1))
	last("take-all", "day", false)
	l.TakeAll(ctx, key.Charge(day, 1), key.Charge(hour, 3), key.Charge(bare, 1))
	if e := last("take-all", "", false, "day", "hour", ""); e.Decision.Allowed || !e.Each[0].Allowed || e.Each[1].Allowed {
		t.Errorf("%+v", e)
	}
	r, err := l.Reserve(ctx, nil, key.Charge(day, 1))
	if err != nil {
		t.Fatal(err)
	}
	last("reserve", "day", false)
	if err := r.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	last("settle", "day", false)
	l.Wait(ctx, key, hour, 1)
	last("wait", "hour", false)
	l.Reset(ctx, key, hour)
	last("reset", "hour", false)

	s.cut(errDead)
	l.Take(ctx, key, day, 1)
	last("take", "day", true)
	l.TakeAll(ctx, key.Charge(day, 1), key.Charge(bare, 1))
	last("take-all", "", true, "day", "")
}

// Calls to the store are told of, whoever made them, with the callers that travelled together.
func TestStoredTellsOfBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := new(watched)
		s := newRunStore()
		s.info.MaxBatch = 10
		l := ration.New(s, &ration.Options{Observer: w.observer()})
		defer l.Close()
		hold := make(chan struct{})
		s.before = func(context.Context, []*driver.Txn) error { <-hold; return nil }
		type mark struct{}
		var work sync.WaitGroup
		take := func(i int, id string) {
			work.Go(func() { l.Take(context.WithValue(ctx, mark{}, i), ration.KeyOf(id), chat, 1) })
			synctest.Wait()
		}
		take(0, "a")
		take(1, "b")
		take(2, "b") // the same as 1, so one transaction with it
		take(3, "c")
		if got := l.Stats(); got.Queued != 3 || got.InFlight != 1 || !got.StoreUp {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Second)
		close(hold)
		work.Wait()
		if len(w.calls) != 2 {
			t.Fatalf("%d calls to the store were told of: %+v", len(w.calls), w.calls)
		}
		if c := w.calls[0]; c.Transactions != 1 || c.Operations != 1 || c.Callers != nil || c.Err != nil || c.Duration != time.Second {
			t.Errorf("the lone one: %+v", c)
		}
		c := w.calls[1]
		if c.Transactions != 2 || c.Operations != 2 || len(c.Callers) != 3 {
			t.Fatalf("the joined one: %+v", c)
		}
		for i, caller := range c.Callers {
			if caller.Value(mark{}) != i+1 {
				t.Errorf("caller %d is %v", i, caller.Value(mark{}))
			}
		}
		failed := errors.New("down")
		s.before = func(context.Context, []*driver.Txn) error { return failed }
		l.Take(ctx, ration.KeyOf("a"), chat, 1)
		if c := w.calls[2]; !errors.Is(c.Err, failed) {
			t.Errorf("%+v", c)
		}
	})
}

func TestStoredIsNotOfInstantStores(t *testing.T) {
	t.Parallel()
	w := new(watched)
	l := ration.New(memstore.New(nil), &ration.Options{Observer: w.observer()})
	defer l.Close()
	l.Take(ctx, ration.KeyOf("a"), chat, 1)
	if len(w.calls) != 0 || len(w.events) != 1 || !l.Stats().StoreUp {
		t.Errorf("%+v", w)
	}
}

func TestStatsOfLeasesRefusalsAndOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		l := ration.New(s, &ration.Options{RememberRefusals: time.Second, OnError: ration.LocalOnError, Outage: &ration.Outage{Failures: 1}})
		defer l.Close()
		hot := ration.Rule{Name: "hot", Limit: ration.FixedWindow{Limit: 10_000, Window: time.Hour}, Lease: 100}
		for range 50 {
			l.Take(ctx, ration.KeyOf("k"), hot, 1)
			synctest.Wait() // for what is fetched ahead
		}
		got := l.Stats()
		if calls := s.calls.Load(); got.LeasedKeys != 1 || got.LeasedAhead < 1 || got.LeaseServed < 30 || got.LeaseServed+calls < 50 {
			t.Errorf("with %d calls to the store: %+v", calls, got)
		}
		once := ration.FixedWindow{Limit: 1, Window: time.Hour}
		for range 5 {
			l.Take(ctx, ration.KeyOf("k"), once, 1)
		}
		if got := l.Stats(); got.RefusalsRepeated != 3 {
			t.Errorf("of four refusals the store made one: %+v", got)
		}
		s.cut(errDead)
		for range 2 {
			l.Take(ctx, ration.KeyOf("other"), chat, 1)
		}
		if got := l.Stats(); got.StoreUp || got.LocalKeys != 1 {
			t.Errorf("%+v", got)
		}
		s.mend()
		time.Sleep(5 * time.Second)
		if got := l.Stats(); !got.StoreUp || got.LocalKeys != 0 || got.LocalDebts != 0 || got.LeasedAhead != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestStatsOfWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ration.New(memstore.New(nil), nil)
		defer l.Close()
		one := ration.FixedWindow{Limit: 1, Window: time.Minute}
		var work sync.WaitGroup
		for range 3 {
			work.Go(func() { l.Wait(ctx, ration.KeyOf("k"), one, 1) })
		}
		synctest.Wait()
		if got := l.Stats().Waiting; got != 2 {
			t.Errorf("%d wait", got)
		}
		work.Wait()
		if got := l.Stats().Waiting; got != 0 {
			t.Errorf("%d wait", got)
		}
	})
}

// An Observer costs nothing but the time it takes.
func TestObserverAllocatesNothing(t *testing.T) {
	n := 0
	l := ration.New(memstore.New(nil), &ration.Options{Observer: &ration.Observer{Decided: func(context.Context, ration.Event) { n++ }}})
	defer l.Close()
	var limit ration.Limit = ration.Rule{Name: "chat", Limit: ration.TokenBucket{Burst: 1 << 20, Refill: ration.PerSecond(1)}}
	if a := testing.AllocsPerRun(1000, func() { l.Take(ctx, ration.KeyOf("user-17"), limit, 1) }); a != 0 || n == 0 {
		t.Errorf("%v allocations a call, %d events", a, n)
	}
}
