package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Other is the label of limits without a name, and of names that are not to have a label of their own.
const Other = "other"

// maxNames is how many names get a label if Options.Limits does not say which.
const maxNames = 100

// limits are the counters of each limit.
type limits struct {
	decisions, degraded *prometheus.CounterVec

	mu     sync.Mutex // held while byName is replaced
	byName atomic.Pointer[map[string]*counters]
	other  *counters
	open   bool // names come as they are used
}

// counters are those of one limit.
type counters struct {
	label     string
	decisions [outcomes]prometheus.Counter
	degraded  [refused + 1]prometheus.Counter
}

func (ls *limits) init(names []string) {
	ls.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ration_decisions_total", Help: "Decisions of Take, Wait, TakeAll, TakeOnce and Reserve, by limit and outcome.",
	}, []string{"limit", "outcome"})
	ls.degraded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ration_degraded_decisions_total", Help: "Decisions made by a limit's outage policy and not by the store, by limit and outcome.",
	}, []string{"limit", "outcome"})
	ls.other = ls.counters(Other)
	ls.byName.Store(&map[string]*counters{})
	if ls.open = names == nil; !ls.open {
		ls.set(names)
	}
}

func (ls *limits) counters(name string) *counters {
	c := &counters{label: name}
	for o := range c.decisions {
		c.decisions[o] = ls.decisions.WithLabelValues(name, outcome(o).String())
	}
	for o := range c.degraded {
		c.degraded[o] = ls.degraded.WithLabelValues(name, outcome(o).String())
	}
	return c
}

// set makes names those that have a label.
func (ls *limits) set(names []string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.open = false
	before := *ls.byName.Load()
	after := make(map[string]*counters, len(names))
	for _, name := range names {
		switch c := before[name]; {
		case name == "" || name == Other:
		case c != nil:
			after[name] = c
		default:
			after[name] = ls.counters(name)
		}
	}
	ls.byName.Store(&after)
	for name := range before {
		if after[name] == nil {
			ls.decisions.DeletePartialMatch(prometheus.Labels{"limit": name})
			ls.degraded.DeletePartialMatch(prometheus.Labels{"limit": name})
		}
	}
}

// of is the counters of the limit of this name.
func (ls *limits) of(name string) *counters {
	if name == "" {
		return ls.other
	}
	byName := *ls.byName.Load()
	if c := byName[name]; c != nil {
		return c
	}
	if len(byName) >= maxNames {
		return ls.other
	}
	return ls.admit(name)
}

// admit gives a label to a name that is used for the first time, if it may have one.
func (ls *limits) admit(name string) *counters {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	byName := *ls.byName.Load()
	if c := byName[name]; c != nil {
		return c
	}
	if !ls.open || len(byName) >= maxNames || name == Other {
		return ls.other
	}
	byName = maps.Clone(byName)
	byName[name] = ls.counters(name)
	ls.byName.Store(&byName)
	return byName[name]
}

// names are those that have a label, in order.
func (ls *limits) names() []string { return slices.Sorted(maps.Keys(*ls.byName.Load())) }
