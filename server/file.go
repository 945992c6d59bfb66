package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/internal/yamlnode"
)

// file reads one configuration file.
type file struct {
	path   string
	config *Config
	nodes  yamlnode.Reader
	later  []func() // when all of the file has been read
}

func (f *file) fault(node *yaml.Node, name string, err error) { f.nodes.Fault(node, name, err) }

func (f *file) read(data []byte) (faults []fault) {
	if top := f.nodes.Document(data); top != nil {
		f.settings(top, "")
	}
	for _, test := range f.later {
		test()
	}
	for _, one := range f.nodes.Faults {
		faults = append(faults, fault{file: f.path, line: one.Line, name: one.Name, err: one.Err})
	}
	return faults
}

// settings reads a map of settings; prefix is "log." for those of log.
func (f *file) settings(node *yaml.Node, prefix string) {
	f.nodes.Entries(node, prefix, func(key, value *yaml.Node) {
		name := prefix + key.Value
		switch name {
		case "limits":
			f.limits(value)
			return
		case "check":
			f.checks(value)
			return
		}
		if f.accessLists(name, value) {
			return
		}
		if s := settingNamed(name); s != nil {
			if text, ok := f.nodes.Text(value, name); ok {
				if err := s.set(f.config, text); err != nil {
					f.fault(value, name, err)
				}
			}
			return
		}
		known := keysUnder(prefix)
		if slices.Contains(known, key.Value) {
			f.settings(value, name+".")
			return
		}
		f.fault(key, name, fmt.Errorf("unknown key; %w", nearest(key.Value, known)))
	})
}

// keysUnder is the keys of one map of the file.
func keysUnder(prefix string) (keys []string) {
	for _, s := range settings {
		if rest, ok := strings.CutPrefix(s.name, prefix); ok {
			key, _, _ := strings.Cut(rest, ".")
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	switch prefix {
	case "":
		keys = append(keys, "limits", "check")
	case "access.":
		keys = append(keys, "tokens", "certificates")
	}
	return keys
}

// limits reads name: limit, or name: {limit: …, on_error: …, lease: …, shadow: …, candidate: …}.
func (f *file) limits(node *yaml.Node) {
	f.nodes.Entries(node, "limits.", func(key, value *yaml.Node) {
		name := "limits." + key.Value
		rule := ration.Rule{Name: key.Value}
		trial := TrialConfig{Limit: key.Value}
		if rule.Name == "" {
			f.fault(key, name, errors.New("a limit needs a name"))
			return
		}
		value = yamlnode.Followed(value)
		if value.Kind != yaml.MappingNode {
			f.limit(&rule, value, name)
		} else {
			f.rule(&rule, &trial, value, name)
		}
		if rule.Limit == nil {
			return
		}
		if err := rule.Validate(); err != nil {
			f.fault(key, name, err)
			return
		}
		f.config.Limits = append(f.config.Limits, rule)
		f.addTrial(&trial, key, name)
	})
}

func (f *file) rule(rule *ration.Rule, trial *TrialConfig, node *yaml.Node, name string) {
	found := false
	f.nodes.Entries(node, name+".", func(key, value *yaml.Node) {
		at := name + "." + key.Value
		switch key.Value {
		case "limit":
			found = true
			f.limit(rule, value, at)
		case "on_error":
			text, ok := f.nodes.Text(value, at)
			if !ok {
				return
			}
			var err error
			if rule.OnError, err = parseOnError(text); err != nil {
				f.fault(value, at, err)
				rule.OnError = 0
			}
		case "lease":
			text, ok := f.nodes.Text(value, at)
			if !ok {
				return
			}
			var err error
			if rule.Lease, err = parseCount(text, ration.MaxCount); err != nil {
				f.fault(value, at, err)
			}
		case "shadow", "candidate":
			f.trialEntry(trial, at, key, value)
		default:
			f.fault(key, at, fmt.Errorf("unknown key; %w", nearest(key.Value, []string{"limit", "on_error", "lease", "shadow", "candidate"})))
		}
	})
	if !found {
		f.fault(node, name, errors.New("no limit; add one, as in limit: bucket 10/1m burst 20"))
	}
}

func (f *file) limit(rule *ration.Rule, node *yaml.Node, name string) {
	text, ok := f.nodes.Text(node, name)
	if !ok {
		return
	}
	limit, err := ration.ParseLimit(text)
	if err != nil {
		f.fault(node, name, err)
		return
	}
	rule.Limit = limit
}
