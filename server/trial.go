package server

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/internal/verbs"
)

// TrialConfig is what is tried out about one of Config.Limits, of any kind but concurrent.
type TrialConfig struct {
	// Limit is its name.
	Limit string
	// Shadow has it decide and count, and refuse nobody.
	Shadow bool
	// Candidate is decided beside it, on counts of its own, and refuses nobody; nil: there is none. GET
	// /v1/limits/{limit}/candidate says what it would have done.
	Candidate ration.Limit
}

// String is t in words, for people.
func (t *TrialConfig) String() string {
	switch {
	case t.Candidate == nil && t.Shadow:
		return "shadow"
	case t.Candidate == nil:
		return "nothing"
	case t.Shadow:
		return "shadow, candidate " + t.Candidate.String()
	}
	return "candidate " + t.Candidate.String()
}

// trials are those of c that try something.
func (c *Config) trials() (trials []verbs.Trial) {
	for _, t := range c.Trials {
		if t.Shadow || t.Candidate != nil {
			trials = append(trials, verbs.Trial(t))
		}
	}
	return trials
}

// check says what is wrong with t, given all limits.
func (t *TrialConfig) check(limits []ration.Rule) error {
	known := map[string]ration.Rule{}
	for _, rule := range limits {
		known[rule.Name] = rule
	}
	rule, ok := known[t.Limit]
	if !ok {
		return errors.New("there is no limit of this name")
	}
	trial := verbs.Trial(*t)
	return trial.Check(rule, func(name string) bool { _, ok := known[name]; return ok })
}

// validateTrials says what is wrong with the trials.
func (c *Config) validateTrials() (faults []error) {
	seen := map[string]bool{}
	for _, t := range c.Trials {
		at := "limits." + t.Limit
		err := t.check(c.Limits)
		if seen[t.Limit] {
			err = errors.New("there are two trials of it")
		}
		if seen[t.Limit] = true; err != nil {
			faults = append(faults, fault{name: at, err: err})
		}
	}
	return faults
}

// trialEntry reads what a limit's map says of a trial.
func (f *file) trialEntry(trial *TrialConfig, at string, key, value *yaml.Node) {
	text, ok := f.nodes.Text(value, at)
	if !ok {
		return
	}
	if key.Value == "shadow" {
		word, err := oneOf(text, "true", "false")
		if trial.Shadow = word == "true"; err != nil {
			f.fault(value, at, err)
		}
		return
	}
	candidate, err := ration.ParseLimit(text)
	if err != nil {
		f.fault(value, at, fmt.Errorf("the candidate is the text of a limit: %w", err))
		return
	}
	trial.Candidate = candidate
}

// addTrial adds what is tried out about a limit whose text is right, to be tested once all limits are known.
func (f *file) addTrial(trial *TrialConfig, key *yaml.Node, name string) {
	if !trial.Shadow && trial.Candidate == nil {
		return
	}
	f.config.Trials = append(f.config.Trials, *trial)
	f.later = append(f.later, func() {
		if err := trial.check(f.config.Limits); err != nil {
			f.fault(key, name, err)
		}
	})
}
