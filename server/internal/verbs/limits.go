package verbs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ration-go/ration"
)

// Limits are the named limits at one moment. They are never changed, so a request that has them sees no change half done.
type Limits struct {
	byName map[string]ration.Limit // Rules; as interfaces, which would cost each request an allocation
	listed []ration.Rule

	exceptions map[string]map[[16]byte]exception // by name, and fingerprint of the key
}

// NewLimits fails if a limit has no name, a name that another one has, or is invalid.
func NewLimits(rules []ration.Rule) (*Limits, error) {
	l := &Limits{byName: map[string]ration.Limit{}}
	for _, rule := range rules {
		if err := rule.Validate(); err != nil {
			return nil, fmt.Errorf("limit %q: %w", rule.Name, err)
		}
		if rule.Name == "" {
			return nil, fmt.Errorf("the limit %q has no name", rule)
		}
		if _, twice := l.byName[rule.Name]; twice {
			return nil, fmt.Errorf("two limits have the name %q", rule.Name)
		}
		l.byName[rule.Name] = rule
	}
	l.listed = slices.SortedFunc(slices.Values(rules), func(a, b ration.Rule) int { return cmp.Compare(a.Name, b.Name) })
	return l, nil
}

// rule is the one of a name.
func (l *Limits) rule(name string) (ration.Rule, bool) {
	rule, ok := l.byName[name].(ration.Rule)
	return rule, ok
}

// Named is the one of a name; nil if there is none.
func (l *Limits) Named(name string) ration.Limit { return l.byName[name] }

// Excepts reports whether some key has an override of the limit of this name.
func (l *Limits) Excepts(name string) bool { return len(l.exceptions[name]) > 0 }

// Rules are all of them, by name. They are not to be changed.
func (l *Limits) Rules() []ration.Rule { return l.listed }
