package envoyrls

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/internal/yamlnode"
)

// File is one configuration file.
type File struct {
	Name string // for errors
	Data []byte // YAML
}

// Fault is one thing that is wrong with a file.
type Fault struct {
	File string
	Line int    // 0: not known
	Name string // of the value: "descriptors[0].rate_limit.unit"; "": none
	Err  error
}

// Error is "envoy.yaml:3: descriptors[0].rate_limit.unit: …".
func (f *Fault) Error() string {
	text := f.File
	if f.Line > 0 {
		text += ":" + strconv.Itoa(f.Line)
	}
	if f.Name != "" {
		text += ": " + f.Name
	}
	return text + ": " + f.Err.Error()
}

// Unwrap is Err.
func (f *Fault) Unwrap() error { return f.Err }

// maxFile bounds a file, in bytes.
const maxFile = 16 << 20

// Load reads files, and of folders all files *.yaml and *.yml, in order of their names. Its errors are those of Parse, and
// of files that cannot be read.
func Load(paths []string, merge bool) (*Config, error) {
	var files []File
	var faults []error
	for _, path := range paths {
		names, err := filesOf(path)
		if err != nil {
			faults = append(faults, &Fault{File: path, Err: err})
		}
		for _, name := range names {
			data, err := read(name)
			if err != nil {
				faults = append(faults, &Fault{File: name, Err: err})
				continue
			}
			files = append(files, File{name, data})
		}
	}
	cfg, err := Parse(files, merge)
	if err = errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	return cfg, nil
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, plain(err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return nil, plain(err)
	}
	var names []string
	for _, e := range entries {
		// A folder that Kubernetes mounts has links to files, and folders whose names begin with dots.
		ext := filepath.Ext(e.Name())
		if (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the folder has no files *.yaml")
	}
	return names, nil
}

func read(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("%d bytes are more than a configuration may have (%d)", info.Size(), maxFile)
	}
	data, err := os.ReadFile(name)
	return data, plain(err)
}

// plain is err without the path, which a Fault names.
func plain(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// Parse makes a Config of files, each of which describes one domain. With merge, several files may describe parts of the
// same domain. The error holds every fault, each a *Fault.
func Parse(files []File, merge bool) (*Config, error) {
	cfg := &Config{domains: map[string]*domain{}}
	var faults []error
	digest := sha256.New()
	fmt.Fprintln(digest, merge)
	for _, f := range files {
		fmt.Fprintf(digest, "%q %d\n", f.Name, len(f.Data))
		_, _ = digest.Write(f.Data) // never fails
		r := &reader{cfg: cfg, merge: merge}
		r.file(f.Data)
		slices.SortStableFunc(r.Faults, func(a, b yamlnode.Fault) int { return cmp.Compare(a.Line, b.Line) })
		for _, one := range r.Faults {
			faults = append(faults, &Fault{f.Name, one.Line, one.Name, one.Err})
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	digest.Sum(cfg.digest[:0])
	return cfg, nil
}

// Bounds of what a file describes. Aliases can stand for more than there is, also for themselves.
const (
	maxDepth = 32
	maxCount = 1 << 16
)

// reader reads one file.
type reader struct {
	yamlnode.Reader
	cfg   *Config
	merge bool
	count int // of descriptors
}

func unknownKey(known ...string) error {
	return fmt.Errorf("unknown key; known are %s", strings.Join(known, ", "))
}

func (r *reader) file(data []byte) {
	top := r.Document(data)
	if top == nil {
		if len(r.Faults) == 0 {
			r.Faults = append(r.Faults, yamlnode.Fault{Err: errors.New("the file is empty; it needs a domain")})
		}
		return
	}
	d := &domain{}
	var list *yaml.Node
	var named *yaml.Node
	r.Entries(top, "", func(key, value *yaml.Node) {
		switch key.Value {
		case "domain":
			d.name, _ = r.Text(value, "domain")
			named = value
		case "descriptors":
			list = value
		case "all_or_nothing":
			d.apart = !r.yes(value, "all_or_nothing")
		default:
			r.Fault(key, key.Value, unknownKey("domain", "descriptors", "all_or_nothing"))
		}
	})
	switch before := r.cfg.domains[d.name]; {
	case named == nil:
		r.Fault(top, "domain", errors.New("no domain; it is the name that Envoy's filter asks for"))
		return
	case d.name == "" || len(d.name) > 256:
		r.Fault(named, "domain", errors.New("a domain has 1 to 256 bytes"))
		return
	case before != nil && !r.merge:
		r.Fault(named, "domain", fmt.Errorf("another file describes the domain %q", d.name))
		return
	case before != nil:
		before.apart = before.apart || d.apart
		d = before
	}
	r.cfg.domains[d.name] = d
	r.descriptors(list, "", &d.top, []level{{key: d.name}})
}

// descriptors reads a list of them into n. path is the levels above, the first of which is the domain.
func (r *reader) descriptors(list *yaml.Node, prefix string, n *node, path []level) {
	if absent(list) {
		return
	}
	if len(path) > maxDepth {
		r.Fault(list, prefix+"descriptors", fmt.Errorf("descriptors are nested more than %d deep", maxDepth))
		return
	}
	r.Elements(list, prefix+"descriptors", func(i int, value *yaml.Node) {
		if r.count++; r.count >= maxCount {
			if r.count == maxCount {
				r.Fault(value, prefix+"descriptors", fmt.Errorf("more than %d descriptors", maxCount-1))
			}
			return
		}
		r.descriptor(value, fmt.Sprintf("%sdescriptors[%d].", prefix, i), n, path)
	})
}

// absent reports whether a value is not there, or there without a value.
func absent(value *yaml.Node) bool {
	if value == nil {
		return true
	}
	value = yamlnode.Followed(value)
	return value.Kind == yaml.ScalarNode && value.Tag == "!!null"
}

// text is a scalar that may be absent.
func (r *reader) text(value *yaml.Node, name string) string {
	if absent(value) {
		return ""
	}
	text, _ := r.Text(value, name)
	return text
}

var truths = map[string]bool{"true": true, "yes": true, "on": true, "y": true, "false": false, "no": false, "off": false, "n": false}

func (r *reader) yes(value *yaml.Node, name string) bool {
	text := r.text(value, name)
	yes, ok := truths[strings.ToLower(text)]
	if !ok && !absent(value) {
		r.Fault(value, name, fmt.Errorf("%q is not true or false", text))
	}
	return yes
}

func (r *reader) descriptor(value *yaml.Node, prefix string, parent *node, path []level) {
	var lvl level
	var found rule
	var all bool // values of all levels go into the metric's name
	var limit, inner *yaml.Node
	key := value // for faults
	r.Entries(value, prefix, func(k, v *yaml.Node) {
		name := prefix + k.Value
		switch k.Value {
		case "key":
			lvl.key, key = r.text(v, name), v
		case "value":
			lvl.value = r.text(v, name)
		case "rate_limit":
			limit = v
		case "descriptors":
			inner = v
		case "shadow_mode":
			found.shadow = r.yes(v, name)
		case "quota_mode":
			found.quota = r.yes(v, name)
		case "detailed_metric":
			all = r.yes(v, name)
		case "value_to_metric":
			lvl.detailed = r.yes(v, name)
		case "share_threshold":
			lvl.shared = r.yes(v, name)
		case "metadata":
			found.metadata = r.metadata(v, name)
		default:
			r.Fault(k, name, unknownKey("key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric",
				"value_to_metric", "share_threshold", "metadata"))
		}
	})
	if lvl.key == "" {
		r.Fault(key, prefix+"key", errors.New("a descriptor needs a key"))
		return
	}
	if lvl.shared && !strings.Contains(lvl.value, "*") {
		r.Fault(key, prefix+"share_threshold", errors.New("only what a value with * matches can share a threshold"))
		lvl.shared = false
	}
	path = append(slices.Clip(path), lvl)
	n, fresh := parent.child(lvl)
	if !fresh && (!r.merge || n.rule != nil && !absent(limit)) {
		r.Fault(key, prefix+"key", fmt.Errorf("a descriptor with this key and value stands beside this one already"))
	}
	if !absent(limit) {
		r.rule(&found, limit, prefix+"rate_limit.")
		found.measure(path, all)
		n.rule = &found
	}
	r.descriptors(inner, prefix, n, path)
}

// child is the node below n for a level; fresh if it was not there before.
func (n *node) child(l level) (c *node, fresh bool) {
	switch {
	case l.value == "":
		if c = n.plain[l.key]; c == nil {
			c, fresh = new(node), true
			if n.plain == nil {
				n.plain = map[string]*node{}
			}
			n.plain[l.key] = c
		}
	case strings.Contains(l.value, "*"):
		pattern := strings.Split(l.value, "*")
		for i := range n.wildcards {
			if w := &n.wildcards[i]; w.key == l.key && slices.Equal(w.pattern, pattern) {
				return w.node, false
			}
		}
		c, fresh = new(node), true
		n.wildcards = append(n.wildcards, wildcard{l.key, pattern, c})
	default:
		at := entry{l.key, l.value}
		if c = n.exact[at]; c == nil {
			c, fresh = new(node), true
			if n.exact == nil {
				n.exact = map[entry]*node{}
			}
			n.exact[at] = c
		}
	}
	return c, fresh
}

func (r *reader) metadata(value *yaml.Node, name string) *structpb.Value {
	if absent(value) {
		return nil
	}
	var any any
	err := value.Decode(&any)
	if err == nil {
		var v *structpb.Value
		if v, err = structpb.NewValue(any); err == nil {
			return v
		}
	}
	r.Fault(value, name, fmt.Errorf("this cannot be sent as metadata, which is like JSON: %w", err))
	return nil
}

// rule reads a rate_limit.
func (r *reader) rule(found *rule, value *yaml.Node, prefix string) {
	var n numbers
	var unitNode *yaml.Node
	r.Entries(value, prefix, func(k, v *yaml.Node) {
		name := prefix + k.Value
		switch k.Value {
		case "unit":
			n.unit = r.unit(v, name)
			unitNode = v
		case "requests_per_unit":
			n.requests = r.number(v, name, 0)
		case "unit_multiplier":
			n.multiplier = r.number(v, name, 1)
		case "algorithm":
			n.algorithm = r.text(v, name)
		case "burst":
			burst := int64(r.number(v, name, 0))
			n.burst = &burst
		case "lease":
			n.lease = int64(r.number(v, name, 0))
		case "zone":
			n.zone = r.text(v, name)
		case "from":
			n.from = r.text(v, name)
		case "unlimited":
			found.unlimited = r.yes(v, name)
		case "name":
			found.name = r.text(v, name)
		case "replaces":
			found.replaces = r.replaces(v, name)
		default:
			r.Fault(k, name, unknownKey("unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier", "algorithm", "burst", "zone", "from", "lease"))
		}
	})
	if slices.Contains(found.replaces, found.name) {
		r.Fault(value, prefix+"replaces", errors.New("a limit cannot replace itself"))
	}
	r.cfg.rules++
	switch {
	case found.unlimited && unitNode != nil:
		r.Fault(unitNode, prefix+"unit", errors.New("what is unlimited has no unit"))
	case found.unlimited:
	case unitNode == nil:
		r.Fault(value, prefix+"unit", errors.New("no unit"))
	case n.unit == nil:
	case (n.zone != "" || n.from != "") && n.algorithm != calendar:
		r.Fault(value, strings.TrimSuffix(prefix, "."), fmt.Errorf("zone and from are for the algorithm %s", calendar))
	case n.burst != nil && n.algorithm != tokenBucket:
		r.Fault(value, prefix+"burst", fmt.Errorf("a burst is for the algorithm %s", tokenBucket))
	default:
		limit, err := n.limit("envoy")
		if err != nil {
			r.Fault(value, strings.TrimSuffix(prefix, "."), errors.New(strings.TrimPrefix(err.Error(), "ration: ")))
			return
		}
		found.limit, found.current = limit, n.current(found.name)
		if found.sliding = n.algorithm == slidingWindow; found.sliding {
			found.window = limit.(ration.Rule).Limit.(ration.SlidingWindow).Window
		}
	}
}

// measure sets what r's metric is called, and which levels share a count. path begins with the domain.
func (r *rule) measure(path []level, all bool) {
	r.domain, r.levels = path[0].key, slices.Clone(path[1:])
	name := r.domain
	for i := range r.levels {
		l := &r.levels[i]
		l.detailed = !l.shared && (l.detailed || all)
		r.shares = r.shares || l.shared
		r.dynamic = r.dynamic || l.detailed
		name += "." + l.key
		if l.value != "" {
			name += "_" + l.value
		}
	}
	r.counters = &counters{name: name}
}

func (r *reader) unit(value *yaml.Node, name string) *unit {
	text := r.text(value, name)
	for i := range units {
		if strings.EqualFold(units[i].name, text) {
			return &units[i]
		}
	}
	r.Fault(value, name, fmt.Errorf("%q is not second, minute, hour, day, week, month or year", text))
	return nil
}

func (r *reader) number(value *yaml.Node, name string, least uint64) uint32 {
	text := r.text(value, name)
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < least {
		r.Fault(value, name, fmt.Errorf("%q is not a whole number from %d to 4294967295", text, least))
		return 0
	}
	return uint32(n)
}

func (r *reader) replaces(value *yaml.Node, name string) (names []string) {
	if absent(value) {
		return nil
	}
	r.Elements(value, name, func(i int, one *yaml.Node) {
		at := fmt.Sprintf("%s[%d].", name, i)
		replaced := ""
		r.Entries(one, at, func(k, v *yaml.Node) {
			if k.Value != "name" {
				r.Fault(k, at+k.Value, unknownKey("name"))
				return
			}
			replaced = r.text(v, at+"name")
		})
		if replaced == "" {
			r.Fault(one, at+"name", errors.New("the name of a limit is missing"))
			return
		}
		names = append(names, replaced)
	})
	return names
}
