package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-go/ration"
)

// Limits are the named limits at one moment. They are never changed, so a request that has them sees no change half done.
type Limits struct {
	byName map[string]ration.Limit // Rules; as interfaces, which would cost each request an allocation
	asked  map[string]ration.Limit // the same, but onTrial those that are
	listed []ration.Rule
	trials map[string]*trial

	exceptions map[string]map[[16]byte]exception // by name, and fingerprint of the key
}

// NewLimits fails if a limit has no name, a name that another one has, or is invalid.
func NewLimits(rules []ration.Rule, trials ...Trial) (*Limits, error) {
	l := &Limits{byName: map[string]ration.Limit{}, asked: map[string]ration.Limit{}, trials: map[string]*trial{}}
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
		l.asked[rule.Name] = l.byName[rule.Name]
	}
	for _, one := range trials {
		if err := l.try(one); err != nil {
			return nil, fmt.Errorf("limit %q: %w", one.Limit, err)
		}
	}
	l.listed = slices.SortedFunc(slices.Values(rules), func(a, b ration.Rule) int { return cmp.Compare(a.Name, b.Name) })
	return l, nil
}

// try adds a trial.
func (l *Limits) try(one Trial) error {
	rule, ok := l.rule(one.Limit)
	if !ok {
		return errors.New("there is no limit of this name")
	}
	if err := one.Check(rule, func(name string) bool { return l.byName[name] != nil }); err != nil {
		return err
	}
	t := &trial{shadow: one.Shadow}
	text := fmt.Sprint(one.Shadow)
	if one.Candidate != nil {
		candidate := ration.Rule{Name: CandidateName(rule.Name), Limit: one.Candidate, OnError: ration.DenyOnError}
		t.candidate, text = candidate, text+" "+candidate.String()
	}
	t.report = newReport(text)
	l.trials[rule.Name] = t
	l.asked[rule.Name] = onTrial{rule, t}
	return nil
}

// Check says what is wrong with a trial of rule. taken reports whether a limit has a name.
func (t *Trial) Check(rule ration.Rule, taken func(name string) bool) error {
	if _, slots := rule.Limit.(ration.Concurrency); slots {
		return errors.New("a limit of the kind concurrent holds slots, so nothing about it can be tried out")
	}
	if t.Shadow {
		// What reservations hold in its place.
		stand := ration.Rule{Name: shadowName(rule.Name), Limit: ration.FixedWindow{Limit: ration.MaxCount, Window: time.Millisecond}}
		if taken(stand.Name) {
			return fmt.Errorf("a shadow needs the name %s too, which another limit has", stand.Name)
		}
		if err := stand.Validate(); err != nil {
			return fmt.Errorf("a shadow needs another name, too: %w", err)
		}
	}
	if t.Candidate == nil {
		return nil
	}
	if _, slots := t.Candidate.(ration.Concurrency); slots {
		return errors.New("a candidate cannot be of the kind concurrent: nobody would let go of its slots")
	}
	name := CandidateName(rule.Name)
	if taken(name) {
		return fmt.Errorf("its candidate would count under the name %s, which another limit has", name)
	}
	if err := (ration.Rule{Name: name, Limit: t.Candidate}).Validate(); err != nil {
		return fmt.Errorf("its candidate: %w", err)
	}
	return nil
}

// keep takes over the reports of before whose trials are the same.
func (l *Limits) keep(before *Limits) {
	if before == nil {
		return
	}
	for name, t := range l.trials {
		if was := before.trials[name]; was != nil && was.report.text == t.report.text {
			t.report = was.report
		}
	}
}

// trialOf is the trial of a name, which there is.
func (l *Limits) trialOf(name string) Trial {
	t := l.trials[name]
	one := Trial{Limit: name, Shadow: t.shadow}
	if rule, ok := t.candidate.(ration.Rule); ok {
		one.Candidate = rule.Limit
	}
	return one
}

// Trials are what is tried out, in no order.
func (l *Limits) Trials() map[string]Trial {
	all := map[string]Trial{}
	for name := range l.trials {
		all[name] = l.trialOf(name)
	}
	return all
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
