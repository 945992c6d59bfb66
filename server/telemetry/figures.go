package telemetry

import (
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// watched is what figures are read from.
type watched struct {
	limiter *ration.Limiter
	store   driver.Store
}

// figure is a metric that is read when somebody asks.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*ration.Stats) float64   // or
	from func(*driver.Figures) float64 // negative: not known
}

func gauge(name, help string, of func(*ration.Stats) float64) *figure {
	return &figure{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.GaugeValue, of: of}
}

func counter(name, help string, of func(*ration.Stats) float64) *figure {
	return &figure{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.CounterValue, of: of}
}

func ofStore(kind prometheus.ValueType, name, help string, from func(*driver.Figures) float64) *figure {
	return &figure{desc: prometheus.NewDesc(name, help, nil, nil), kind: kind, from: from}
}

var storeInfo = &figure{desc: prometheus.NewDesc("ration_store_info", "What the store is; always 1.", []string{"kind", "scope", "durable"}, nil)}

var figures = []*figure{
	gauge("ration_store_up", "Whether decisions go to the store: 1, or 0 while it is down and limits follow their outage policy.",
		func(s *ration.Stats) float64 {
			if s.StoreUp {
				return 1
			}
			return 0
		}),
	gauge("ration_store_queued_calls", "Calls that wait for a call to the store to take them along.",
		func(s *ration.Stats) float64 { return float64(s.Queued) }),
	gauge("ration_store_calls_in_flight", "Calls to the store that are under way, where calls travel together.",
		func(s *ration.Stats) float64 { return float64(s.InFlight) }),
	gauge("ration_waiting_calls", "Calls of Wait, and of Reserve where it waits, that have not passed yet.",
		func(s *ration.Stats) float64 { return float64(s.Waiting) }),
	gauge("ration_leased_keys", "Keys for which this process takes uses ahead.",
		func(s *ration.Stats) float64 { return float64(s.LeasedKeys) }),
	gauge("ration_leased_uses", "Uses that the store is charged with and that this process has not served yet.",
		func(s *ration.Stats) float64 { return float64(s.LeasedAhead) }),
	counter("ration_lease_served_total", "Calls that were answered from uses taken ahead.",
		func(s *ration.Stats) float64 { return float64(s.LeaseServed) }),
	counter("ration_repeated_refusals_total", "Refusals that were repeated from memory.",
		func(s *ration.Stats) float64 { return float64(s.RefusalsRepeated) }),
	gauge("ration_local_keys", "Keys that are counted in memory because the store is down.",
		func(s *ration.Stats) float64 { return float64(s.LocalKeys) }),
	gauge("ration_local_debts", "Charges that were made in memory and that the store, which is up again, has not been told of yet.",
		func(s *ration.Stats) float64 { return float64(s.LocalDebts) }),
	storeInfo,
	ofStore(prometheus.CounterValue, "ration_store_sweeps_total", "Sweeps of the store by this process.",
		func(f *driver.Figures) float64 { return float64(f.Sweeps) }),
	ofStore(prometheus.CounterValue, "ration_store_swept_total", "States that these removed, and reservations that they ended.",
		func(f *driver.Figures) float64 { return float64(f.Swept) }),
	ofStore(prometheus.GaugeValue, "ration_store_keys", "States that the store keeps; only of a store in memory.",
		func(f *driver.Figures) float64 { return float64(f.Keys) }),
	ofStore(prometheus.GaugeValue, "ration_store_bytes", "Memory that these take; only of a store in memory.",
		func(f *driver.Figures) float64 { return float64(f.Bytes) }),
}

func (w *watched) collect(metrics chan<- prometheus.Metric) {
	stats := w.limiter.Stats()
	var known *driver.Figures
	if m, ok := w.store.(driver.Meter); ok {
		f := m.Figures()
		known = &f
	}
	for _, f := range figures {
		switch {
		case f.of != nil:
			metrics <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&stats))
		case f.from != nil && known != nil:
			if v := f.from(known); v >= 0 {
				metrics <- prometheus.MustNewConstMetric(f.desc, f.kind, v)
			}
		}
	}
	if w.store != nil {
		info := w.store.Info()
		metrics <- prometheus.MustNewConstMetric(storeInfo.desc, prometheus.GaugeValue, 1, info.Kind, info.Scope.String(), strconv.FormatBool(info.Durable))
	}
}

// BuildInfo is the metric ration_build_info, which says what runs.
func BuildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ration_build_info", Help: "The program's version, and the Go that built it; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
