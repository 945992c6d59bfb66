// Package yamlnode reads configuration files by YAML's nodes: every fault then has its line, all are found at once, and a
// value is the text that stands in the file, whatever type YAML sees in it.
package yamlnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	Line int    // 0: not known
	Name string // of the value, with dots; "": none
	Err  error
}

// Reader collects the faults of one file.
type Reader struct{ Faults []Fault }

// Fault notes what is wrong at node, which has a name.
func (r *Reader) Fault(node *yaml.Node, name string, err error) {
	r.Faults = append(r.Faults, Fault{node.Line, name, err})
}

// Document is what stands in data; nil if that is nothing, or has a fault.
func (r *Reader) Document(data []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	var doc yaml.Node
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) {
		return nil // nothing but comments
	}
	if err == nil {
		var second yaml.Node
		if err = loader.Load(&second); err == nil {
			r.Fault(&second, "", errors.New("a second document; a configuration is one"))
			return nil
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		one := Fault{Err: fmt.Errorf("not YAML: %w", err)}
		if at, ok := errors.AsType[*yaml.LoadError](err); ok {
			one.Line = at.Mark.Line
			one.Err = fmt.Errorf("not YAML: %s", at.Message)
		}
		r.Faults = append(r.Faults, one)
		return nil
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil
	}
	return doc.Content[0]
}

// Entries calls each for the entries of a map, which must have different keys. prefix is the map's name and a dot.
func (r *Reader) Entries(node *yaml.Node, prefix string, each func(key, value *yaml.Node)) {
	name := strings.TrimSuffix(prefix, ".")
	node = Followed(node)
	if node.Kind != yaml.MappingNode {
		r.Fault(node, name, errors.New("not a map of keys and values"))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := Followed(node.Content[i]), node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			r.Fault(key, name, errors.New("a key is not a word"))
			continue
		}
		if first := seen[key.Value]; first > 0 {
			r.Fault(key, prefix+key.Value, fmt.Errorf("set twice; it was set on line %d", first))
			continue
		}
		seen[key.Value] = key.Line
		each(key, value)
	}
}

// Elements calls each for the elements of a list.
func (r *Reader) Elements(node *yaml.Node, name string, each func(i int, value *yaml.Node)) {
	node = Followed(node)
	if node.Kind != yaml.SequenceNode {
		r.Fault(node, name, errors.New("not a list"))
		return
	}
	for i, value := range node.Content {
		each(i, Followed(value))
	}
}

// Text is a scalar as it stands in the file.
func (r *Reader) Text(node *yaml.Node, name string) (string, bool) {
	node = Followed(node)
	switch {
	case node.Kind != yaml.ScalarNode:
		r.Fault(node, name, errors.New("one value is expected here, not a map or a list"))
	case node.Tag == "!!null":
		r.Fault(node, name, errors.New("no value; give one, or leave the key out"))
	default:
		return node.Value, true
	}
	return "", false
}

// Followed is what an alias stands for.
func Followed(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return node
}
