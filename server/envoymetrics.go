package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-go/ration/server/envoyrls"
)

// envoyRules are the metrics of Envoy's rules: of each as it is configured, also where the configuration wants counts by the
// values of requests. Those have no end.
type envoyRules struct{ *Server }

var envoyMetrics = []struct {
	desc *prometheus.Desc
	of   func(*envoyrls.Stats) uint64
}{
	{envoyDesc("hits", "Hits that were asked for"), func(s *envoyrls.Stats) uint64 { return s.TotalHits }},
	{envoyDesc("within_limit", "Hits that passed"), func(s *envoyrls.Stats) uint64 { return s.WithinLimit }},
	{envoyDesc("near_limit", "Hits that passed above four fifths of the limit"), func(s *envoyrls.Stats) uint64 { return s.NearLimit }},
	{envoyDesc("over_limit", "Hits that were refused, or would have been in shadow mode"), func(s *envoyrls.Stats) uint64 { return s.OverLimit }},
	{envoyDesc("shadow_mode", "Hits that would have been refused"), func(s *envoyrls.Stats) uint64 { return s.ShadowMode }},
}

func envoyDesc(what, help string) *prometheus.Desc {
	return prometheus.NewDesc("ration_envoy_"+what+"_total", help+", by Envoy's rule.", []string{"rule"}, nil)
}

func (envoyRules) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range envoyMetrics {
		descs <- m.desc
	}
}

func (e envoyRules) Collect(metrics chan<- prometheus.Metric) {
	if e.rpc == nil || e.rpc.envoy == nil {
		return
	}
	for _, s := range e.rpc.envoy.RuleStats() {
		for _, m := range envoyMetrics {
			metrics <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.of(&s)), s.Name)
		}
	}
}
