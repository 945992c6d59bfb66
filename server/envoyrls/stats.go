package envoyrls

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/ration-go/ration"
)

// Stats count what was asked of one rule since its configuration was loaded, in hits.
type Stats struct {
	// Name is the domain and the path of the rule: "messaging.message_type_marketing.to_number". Values of requests are in
	// it only where the configuration wants that (detailed_metric, value_to_metric).
	Name        string
	TotalHits   uint64
	OverLimit   uint64 // refused, or would have been in shadow mode
	NearLimit   uint64 // above four fifths of the limit, and not refused
	WithinLimit uint64
	ShadowMode  uint64 // would have been refused
}

type counters struct {
	name                              string
	rule                              string // if that is not name: the rule's, without values of requests
	total, over, near, within, shadow atomic.Uint64
}

func (c *counters) stats() Stats {
	return Stats{
		Name: c.name, TotalHits: c.total.Load(), OverLimit: c.over.Load(), NearLimit: c.near.Load(),
		WithinLimit: c.within.Load(), ShadowMode: c.shadow.Load(),
	}
}

// count adds a decision about cost hits.
func (c *counters) count(d *ration.Decision, cost int64, shadow bool) {
	hits := uint64(cost)
	c.total.Add(hits)
	if !d.Allowed {
		c.over.Add(hits)
		if shadow {
			c.shadow.Add(hits)
		}
		return
	}
	c.within.Add(hits)
	if near := d.Used - d.Limit*4/5; near > 0 {
		c.near.Add(uint64(min(near, cost)))
	}
}

// Bounds of the metrics whose names have values of requests in them, which whoever sends requests chooses. What is beyond counts for
// the rule.
const (
	maxNames = 10_000
	maxName  = 512 // bytes
)

// detailed are the counters of names that have values of requests in them.
type detailed struct {
	mu     sync.RWMutex
	byName map[string]*counters
}

// of is the counters for a descriptor that r decides.
func (d *detailed) of(r *rule, entries []*commonv3.RateLimitDescriptor_Entry) *counters {
	if !r.dynamic {
		return r.counters
	}
	var b strings.Builder
	b.WriteString(r.domain)
	for i, l := range r.levels {
		b.WriteString("." + l.key)
		if l.detailed {
			l.value = entries[i].GetValue()
		}
		if l.value != "" {
			b.WriteString("_" + l.value)
		}
		if b.Len() > maxName && l.detailed {
			return r.counters
		}
	}
	name := b.String()
	d.mu.RLock()
	c := d.byName[name]
	d.mu.RUnlock()
	if c != nil {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c = d.byName[name]; c != nil {
		return c
	}
	if len(d.byName) >= maxNames {
		return r.counters
	}
	if d.byName == nil {
		d.byName = map[string]*counters{}
	}
	c = &counters{name: name, rule: r.counters.name}
	d.byName[name] = c
	return c
}

// Stats are those of all rules that were asked, by name.
func (s *Service) Stats() []Stats {
	var all []Stats
	s.state.Load().each(func(c *counters) {
		if one := c.stats(); one.TotalHits > 0 {
			all = append(all, one)
		}
	})
	slices.SortFunc(all, func(a, b Stats) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// RuleStats are those of each configured rule, asked or not, by name. No values of requests are in the names, so there are never
// more of them than rules.
func (s *Service) RuleStats() []Stats {
	byName := map[string]*Stats{}
	s.state.Load().each(func(c *counters) {
		name := cmp.Or(c.rule, c.name)
		sum := byName[name]
		if sum == nil {
			sum = &Stats{Name: name}
			byName[name] = sum
		}
		one := c.stats()
		sum.TotalHits += one.TotalHits
		sum.OverLimit += one.OverLimit
		sum.NearLimit += one.NearLimit
		sum.WithinLimit += one.WithinLimit
		sum.ShadowMode += one.ShadowMode
	})
	all := make([]Stats, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}

// each calls f for all counters.
func (st *state) each(f func(*counters)) {
	for _, d := range st.config.domains {
		d.top.each(func(r *rule) { f(r.counters) })
	}
	st.detailed.mu.RLock()
	defer st.detailed.mu.RUnlock()
	for _, c := range st.detailed.byName {
		f(c)
	}
}

// each calls f for the rules of n and below.
func (n *node) each(f func(*rule)) {
	if n.rule != nil {
		f(n.rule)
	}
	for _, c := range n.exact {
		c.each(f)
	}
	for i := range n.wildcards {
		n.wildcards[i].node.each(f)
	}
	for _, c := range n.plain {
		c.each(f)
	}
}
