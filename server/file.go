package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ration-go/ration"
)

// file reads one configuration file. It walks YAML's nodes itself: every fault then has its line, and a value is the text
// that stands in the file, whatever type YAML sees in it.
type file struct {
	path   string
	config *Config
	faults []fault
}

func (f *file) fault(node *yaml.Node, name string, err error) {
	f.faults = append(f.faults, fault{file: f.path, line: node.Line, name: name, err: err})
}

func (f *file) read(data []byte) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	var doc yaml.Node
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) {
		return // nothing but comments
	}
	if err == nil {
		var second yaml.Node
		if err = loader.Load(&second); err == nil {
			f.fault(&second, "", errors.New("a second document; a configuration is one"))
			return
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		one := fault{file: f.path, err: fmt.Errorf("not YAML: %w", err)}
		if at, ok := errors.AsType[*yaml.LoadError](err); ok {
			one.line = at.Mark.Line
			one.err = fmt.Errorf("not YAML: %s", at.Message)
		}
		f.faults = append(f.faults, one)
		return
	}
	if len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
		f.settings(doc.Content[0], "")
	}
}

// settings reads a map of settings; prefix is "log." for those of log.
func (f *file) settings(node *yaml.Node, prefix string) {
	f.entries(node, prefix, func(key, value *yaml.Node) {
		name := prefix + key.Value
		if name == "limits" {
			f.limits(value)
			return
		}
		if s := settingNamed(name); s != nil {
			if text, ok := f.text(value, name); ok {
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
	if prefix == "" {
		keys = append(keys, "limits")
	}
	return keys
}

// limits reads name: limit, or name: {limit: …, on_error: …}.
func (f *file) limits(node *yaml.Node) {
	f.entries(node, "limits.", func(key, value *yaml.Node) {
		name := "limits." + key.Value
		rule := ration.Rule{Name: key.Value}
		if rule.Name == "" {
			f.fault(key, name, errors.New("a limit needs a name"))
			return
		}
		value = followed(value)
		if value.Kind != yaml.MappingNode {
			f.limit(&rule, value, name)
		} else {
			f.rule(&rule, value, name)
		}
		if rule.Limit == nil {
			return
		}
		if err := checkRule(rule); err != nil {
			f.fault(key, name, err)
			return
		}
		f.config.Limits = append(f.config.Limits, rule)
	})
}

func (f *file) rule(rule *ration.Rule, node *yaml.Node, name string) {
	found := false
	f.entries(node, name+".", func(key, value *yaml.Node) {
		at := name + "." + key.Value
		switch key.Value {
		case "limit":
			found = true
			f.limit(rule, value, at)
		case "on_error":
			text, ok := f.text(value, at)
			if !ok {
				return
			}
			var err error
			if rule.OnError, err = parseOnError(text); err != nil {
				f.fault(value, at, err)
				rule.OnError = 0
			}
		default:
			f.fault(key, at, fmt.Errorf("unknown key; %w", nearest(key.Value, []string{"limit", "on_error"})))
		}
	})
	if !found {
		f.fault(node, name, errors.New("no limit; add one, as in limit: bucket 10/1m burst 20"))
	}
}

func (f *file) limit(rule *ration.Rule, node *yaml.Node, name string) {
	text, ok := f.text(node, name)
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

// entries calls each for the entries of a map, which must have different keys.
func (f *file) entries(node *yaml.Node, prefix string, each func(key, value *yaml.Node)) {
	name := strings.TrimSuffix(prefix, ".")
	node = followed(node)
	if node.Kind != yaml.MappingNode {
		f.fault(node, name, errors.New("not a map of keys and values"))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := followed(node.Content[i]), node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			f.fault(key, name, errors.New("a key is not a word"))
			continue
		}
		if first := seen[key.Value]; first > 0 {
			f.fault(key, prefix+key.Value, fmt.Errorf("set twice; it was set on line %d", first))
			continue
		}
		seen[key.Value] = key.Line
		each(key, value)
	}
}

// text is a scalar as it stands in the file.
func (f *file) text(node *yaml.Node, name string) (string, bool) {
	node = followed(node)
	switch {
	case node.Kind != yaml.ScalarNode:
		f.fault(node, name, errors.New("one value is expected here, not a map or a list"))
	case node.Tag == "!!null":
		f.fault(node, name, errors.New("no value; give one, or leave the key out"))
	default:
		return node.Value, true
	}
	return "", false
}

// followed is what an alias stands for.
func followed(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return node
}
