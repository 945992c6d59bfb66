package telemetry_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/telemetry"
)

func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); code == 0 && runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// distant is a store as if behind a network that can be cut.
type distant struct {
	*memstore.Store
	down atomic.Pointer[error]
}

func (d *distant) Info() driver.Info {
	i := d.Store.Info()
	i.Kind, i.Scope, i.Instant, i.MaxBatch = "distant", driver.Network, false, 16
	return i
}

func (d *distant) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := d.down.Load(); err != nil {
		return *err
	}
	return d.Store.Apply(ctx, batch)
}

// scene is a Limiter that is watched.
type scene struct {
	*telemetry.Metrics
	limiter *ration.Limiter
	reg     *prometheus.Registry
}

func newScene(t testing.TB, store driver.Store, opts *telemetry.Options, limiterOpts *ration.Options) *scene {
	s := &scene{Metrics: telemetry.New(opts), reg: prometheus.NewPedanticRegistry()}
	if err := s.reg.Register(s); err != nil {
		t.Fatal(err)
	}
	o := ration.Options{}
	if limiterOpts != nil {
		o = *limiterOpts
	}
	o.Observer = s.Observer()
	s.limiter = ration.New(store, &o)
	t.Cleanup(func() { s.limiter.Close() })
	s.Watch(s.limiter, store)
	return s
}

// series are all that there are, as `name{label="value",…}`, with their values; a histogram's is its count.
func (s *scene) series(t testing.TB) map[string]float64 {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return seriesOf(families)
}

func seriesOf(families []*dto.MetricFamily) map[string]float64 {
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			if labels := m.GetLabel(); len(labels) > 0 {
				var texts []string
				for _, l := range labels {
					texts = append(texts, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
				name += "{" + strings.Join(texts, ",") + "}"
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// want checks values of series.
func (s *scene) want(t testing.TB, want map[string]float64) {
	t.Helper()
	got := s.series(t)
	for name, value := range want {
		if v, ok := got[name]; v != value || !ok {
			t.Errorf("%s is %v (there: %v), not %v", name, v, ok, value)
		}
	}
}

var (
	ctx  = context.Background()
	key  = ration.KeyOf("somebody")
	chat = ration.Rule{Name: "chat", Limit: ration.FixedWindow{Limit: 2, Window: time.Hour}}
	page = ration.Rule{Name: "page", Limit: ration.FixedWindow{Limit: 1, Window: time.Hour}}
)
