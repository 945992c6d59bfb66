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

// Rules are all of them, by name. They are not to be changed.
func (l *Limits) Rules() []ration.Rule { return l.listed }
