package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/telemetry"
)

func TestNamesByConvention(t *testing.T) {
	t.Parallel()
	s := newScene(t, &distant{Store: memstore.New(nil)}, nil, nil)
	s.limiter.Take(ctx, key, chat, 1)
	if err := s.reg.Register(telemetry.BuildInfo("v1")); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(s.reg)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	store := &distant{Store: memstore.New(nil)}
	s := newScene(t, store, &telemetry.Options{Limits: []string{"chat", "page"}}, &ration.Options{Outage: &ration.Outage{Failures: -1}})
	s.want(t, map[string]float64{`ration_decisions_total{limit="chat",outcome="refused"}`: 0}) // there from the start

	for range 3 {
		s.limiter.Take(ctx, key, chat, 1)
	}
	s.limiter.Take(ctx, key, chat, -1)
	s.limiter.Peek(ctx, key, chat, 1)
	s.limiter.Reset(ctx, key, page)
	soon, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := s.limiter.Wait(soon, key, chat, 1); err == nil {
		t.Fatal("a Wait of half a minute passed after an hour")
	}
	cancel()
	s.limiter.Take(soon, key, chat, 1)
	down := errors.New("down")
	store.down.Store(&down)
	s.limiter.Take(ctx, key, chat, 1)
	allow := chat
	allow.OnError = ration.AllowOnError
	s.limiter.Take(ctx, key, allow, 1)

	s.want(t, map[string]float64{
		`ration_decisions_total{limit="chat",outcome="allowed"}`:          3,
		`ration_decisions_total{limit="chat",outcome="refused"}`:          2,
		`ration_decisions_total{limit="chat",outcome="invalid"}`:          1,
		`ration_decisions_total{limit="chat",outcome="canceled"}`:         1,
		`ration_decisions_total{limit="chat",outcome="error"}`:            1,
		`ration_degraded_decisions_total{limit="chat",outcome="allowed"}`: 1,
		`ration_decision_duration_seconds{outcome="allowed"}`:             3,
		`ration_decision_duration_seconds{outcome="refused"}`:             1,
		`ration_calls_total{outcome="refused",verb="take"}`:               1,
		`ration_calls_total{outcome="refused",verb="peek"}`:               1,
		`ration_calls_total{outcome="refused",verb="wait"}`:               1,
		`ration_calls_total{outcome="allowed",verb="reset"}`:              1,
	})
}

// A list counts once for each of its limits: if it was refused, for those that refused it.
func TestLists(t *testing.T) {
	t.Parallel()
	s := newScene(t, memstore.New(nil), &telemetry.Options{Limits: []string{"chat", "page"}}, nil)
	for range 2 {
		if _, err := s.limiter.TakeAll(ctx, key.Charge(chat, 1), key.Charge(page, 1)); err != nil {
			t.Fatal(err)
		}
	}
	s.limiter.TakeAll(ctx, key.Charge(chat, -1), key.Charge(page, 1))
	s.want(t, map[string]float64{
		`ration_decisions_total{limit="chat",outcome="allowed"}`: 1,
		`ration_decisions_total{limit="page",outcome="allowed"}`: 1,
		`ration_decisions_total{limit="chat",outcome="refused"}`: 0,
		`ration_decisions_total{limit="page",outcome="refused"}`: 1,
		`ration_decisions_total{limit="chat",outcome="invalid"}`: 1,
		`ration_decisions_total{limit="page",outcome="invalid"}`: 1,
		`ration_calls_total{outcome="allowed",verb="take-all"}`:  1,
		`ration_calls_total{outcome="refused",verb="take-all"}`:  1,
	})
}

// limitLabels are the values of the label limit.
func limitLabels(series map[string]float64) []string {
	labels := map[string]bool{}
	for name := range series {
		if _, rest, found := strings.Cut(name, `{limit="`); found {
			label, _, _ := strings.Cut(rest, `"`)
			labels[label] = true
		}
	}
	return slices.Sorted(maps.Keys(labels))
}

func TestOnlyConfiguredNamesAreLabels(t *testing.T) {
	t.Parallel()
	s := newScene(t, memstore.New(nil), &telemetry.Options{Limits: []string{"chat"}}, nil)
	s.limiter.Take(ctx, key, chat, 1)
	s.limiter.Take(ctx, key, page, 1)
	s.limiter.Take(ctx, key, page.Limit, 1)
	if got := limitLabels(s.series(t)); !slices.Equal(got, []string{"chat", "other"}) {
		t.Errorf("limits are %q", got)
	}
	s.SetLimits([]string{"page"})
	s.limiter.Take(ctx, key, chat, 1)
	s.limiter.Take(ctx, key, page, 1)
	if got := limitLabels(s.series(t)); !slices.Equal(got, []string{"other", "page"}) {
		t.Errorf("after SetLimits limits are %q", got)
	}
	s.want(t, map[string]float64{
		`ration_decisions_total{limit="page",outcome="refused"}`:  1,
		`ration_decisions_total{limit="other",outcome="allowed"}`: 3,
	})
}

func TestNamesThatAreUsedAreBounded(t *testing.T) {
	t.Parallel()
	s := newScene(t, memstore.New(nil), nil, nil)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for i := range 150 {
				s.limiter.Take(ctx, key, ration.Rule{Name: "n" + strconv.Itoa(i), Limit: chat.Limit}, 1)
			}
		})
	}
	work.Wait()
	if got := limitLabels(s.series(t)); len(got) != 101 || !slices.Contains(got, "other") {
		t.Errorf("%d limits: %q", len(got), got)
	}
}

// The number of series does not depend on how many keys there are, nor on what is in them. RATION_LONG takes a million.
func TestSeriesDoNotGrowWithKeys(t *testing.T) {
	t.Parallel()
	keys := 50_000
	if os.Getenv("RATION_LONG") != "" {
		keys = 1_000_000
	}
	s := newScene(t, memstore.New(&memstore.Options{MaxKeys: 4 * keys, MaxBytes: 1 << 30}), &telemetry.Options{Limits: []string{"chat", "page"}}, nil)
	use := func(id string) {
		s.limiter.Take(ctx, ration.KeyOf(id), chat, 1)
		s.limiter.Take(ctx, ration.KeyOf(id), chat, 3)
		s.limiter.Take(ctx, ration.KeyOf(id).In(id), ration.SlidingWindow{Limit: 1, Window: time.Hour}, 1)
	}
	use("first")
	before := s.series(t)
	for i := range keys {
		use("user-" + strconv.Itoa(i))
	}
	after := s.series(t)
	if len(before) != len(after) || len(before) == 0 {
		t.Errorf("%d series of one key, %d of %d", len(before), len(after), keys)
	}
	if got := after[`ration_decisions_total{limit="chat",outcome="allowed"}`]; got != float64(keys+1) {
		t.Errorf("%v decisions are counted of %d", got, keys+1)
	}
	if got := after["ration_store_keys"]; got != float64(2*(keys+1)) {
		t.Errorf("%v keys are kept", got)
	}
	for name := range after {
		if strings.Contains(name, "user-") {
			t.Error(name)
		}
	}
	t.Logf("%d series of %d keys", len(after), keys)
}

func TestScrapesUnderLoad(t *testing.T) {
	t.Parallel()
	s := newScene(t, &distant{Store: memstore.New(nil)}, nil, &ration.Options{RememberRefusals: time.Second})
	hot := ration.Rule{Name: "hot", Limit: ration.FixedWindow{Limit: 100_000, Window: time.Hour}, Lease: 50}
	done := make(chan struct{})
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				s.limiter.Take(ctx, ration.KeyOf("hot"), hot, 1)
				s.limiter.Take(ctx, ration.KeyOf(fmt.Sprint(i, n)), chat, int64(n%4))
			}
		})
	}
	last := 0.0
	for range 50 {
		now := s.series(t)[`ration_decisions_total{limit="hot",outcome="allowed"}`]
		if now < last {
			t.Errorf("a counter went from %v to %v", last, now)
		}
		last = now
		s.SetLimits([]string{"hot"})
	}
	close(done)
	work.Wait()
}

// A store that is killed is down in the metrics, and up again when it is back; each change is counted.
func TestOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Store: memstore.New(&memstore.Options{SweepEvery: -1})}
		s := newScene(t, store, nil, &ration.Options{Outage: &ration.Outage{Failures: 3}})
		defer s.limiter.Close()
		s.want(t, map[string]float64{
			"ration_store_up": 1, `ration_store_changes_total{state="down"}`: 0, `ration_store_changes_total{state="up"}`: 0,
			`ration_store_info{durable="false",kind="distant",scope="network"}`: 1,
		})
		for round := range 2 {
			round := float64(round)
			dead := fmt.Errorf("%w: connection refused", driver.ErrNotApplied)
			store.down.Store(&dead)
			for range 5 {
				s.limiter.Take(ctx, key, chat, 1)
			}
			s.want(t, map[string]float64{
				"ration_store_up": 0, `ration_store_changes_total{state="down"}`: round + 1, `ration_store_changes_total{state="up"}`: round,
			})
			store.down.Store(nil)
			time.Sleep(2 * time.Second)
			s.want(t, map[string]float64{
				"ration_store_up": 1, `ration_store_changes_total{state="down"}`: round + 1, `ration_store_changes_total{state="up"}`: round + 1,
			})
		}
		s.want(t, map[string]float64{
			`ration_decisions_total{limit="chat",outcome="error"}`: 10,
			// Three calls and no probe in each outage: when the first comes, the store is back.
			`ration_store_call_duration_seconds{outcome="error"}`: 6,
			`ration_store_call_duration_seconds{outcome="ok"}`:    2,
			"ration_store_batch_size":                             8,
			"ration_store_operations_total":                       8,
		})
	})
}

func TestFiguresOfSweeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{SweepEvery: -1})
		s := newScene(t, store, nil, nil)
		defer s.limiter.Close()
		s.limiter.Take(ctx, key, ration.FixedWindow{Limit: 1, Window: time.Second}, 1)
		if got := s.series(t); got["ration_store_keys"] != 1 || got["ration_store_bytes"] < 1 || got["ration_store_swept_total"] != 0 {
			t.Errorf("%v", got)
		}
		time.Sleep(time.Minute)
		if _, err := store.Sweep(ctx, 0, 10); err != nil {
			t.Fatal(err)
		}
		s.want(t, map[string]float64{"ration_store_sweeps_total": 1, "ration_store_swept_total": 1, "ration_store_keys": 0})
	})
}

// Counting costs the caller no allocation.
func TestObserverAllocatesNothing(t *testing.T) {
	s := newScene(t, memstore.New(nil), &telemetry.Options{Limits: []string{"bucket"}}, nil)
	var limit ration.Limit = ration.Rule{Name: "bucket", Limit: ration.TokenBucket{Burst: 1 << 20, Refill: ration.PerSecond(1)}}
	if n := testing.AllocsPerRun(1000, func() { s.limiter.Take(ctx, key, limit, 1) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkTake(b *testing.B) {
	limit := ration.Rule{Name: "bucket", Limit: ration.TokenBucket{Burst: 1 << 40, Refill: ration.PerSecond(1)}}
	b.Run("alone", func(b *testing.B) {
		l := ration.New(memstore.New(nil), nil)
		defer l.Close()
		for b.Loop() {
			l.Take(ctx, key, limit, 1)
		}
	})
	b.Run("counted", func(b *testing.B) {
		s := newScene(b, memstore.New(nil), &telemetry.Options{Limits: []string{"bucket"}}, nil)
		for b.Loop() {
			s.limiter.Take(ctx, key, limit, 1)
		}
	})
}
