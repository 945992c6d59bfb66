package envoyrls

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-go/ration"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Config is the rules of some domains. It is never changed, so safe for concurrent use.
type Config struct {
	domains map[string]*domain
	rules   int
	digest  [sha256.Size]byte // of the files
}

// Equal reports whether c and other come from the same files, to the byte, in the same order.
func (c *Config) Equal(other *Config) bool { return other != nil && c.digest == other.digest }

// Domains are the names, sorted.
func (c *Config) Domains() []string { return slices.Sorted(maps.Keys(c.domains)) }

// Rules is how many limits there are.
func (c *Config) Rules() int { return c.rules }

type domain struct {
	name  string
	apart bool // each descriptor is decided by itself
	top   node
}

// node is a descriptor of a file, or the top.
type node struct {
	exact     map[entry]*node
	wildcards []wildcard
	plain     map[string]*node // by key alone
	rule      *rule            // nil: no limit
}

type entry struct{ key, value string }

type wildcard struct {
	key     string
	pattern []string // what stands between the asterisks
	node    *node
}

// rule is a limit and what else a descriptor says.
type rule struct {
	limit     ration.Limit // nil: unlimited
	sliding   bool
	window    time.Duration                      // of what slides
	current   *rlsv3.RateLimitResponse_RateLimit // shared by answers, never changed
	name      string
	replaces  []string
	shadow    bool
	quota     bool
	metadata  *structpb.Value // nil: none
	domain    string
	levels    []level
	shares    bool // some level shares a count
	dynamic   bool // the metric's name has values of the request in it
	counters  *counters
	unlimited bool
}

// level is one step of the path to a rule.
type level struct {
	key, value string // as in the file
	shared     bool   // all that the value with * matches is one count
	detailed   bool   // the request's value goes into the metric's name
}

// find is the rule for a descriptor of a request; nil if there is none.
func (d *domain) find(entries []*commonv3.RateLimitDescriptor_Entry) *rule {
	at := &d.top
	for _, e := range entries {
		if at = at.next(e.GetKey(), e.GetValue()); at == nil {
			return nil
		}
	}
	return at.rule
}

func (n *node) next(key, value string) *node {
	if found := n.exact[entry{key, value}]; found != nil {
		return found
	}
	for i := range n.wildcards {
		if w := &n.wildcards[i]; w.key == key && matches(w.pattern, value) {
			return w.node
		}
	}
	return n.plain[key]
}

// matches reports whether value is the parts of pattern in their order, with anything between them.
func matches(pattern []string, value string) bool {
	value, ok := strings.CutPrefix(value, pattern[0])
	if !ok {
		return false
	}
	last := len(pattern) - 1
	for _, part := range pattern[1:last] {
		i := strings.Index(value, part)
		if i < 0 {
			return false
		}
		value = value[i+len(part):]
	}
	return strings.HasSuffix(value, pattern[last])
}
