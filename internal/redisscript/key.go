package redisscript

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/ration-go/ration/driver"
)

// Defaults of a store.
const (
	DefaultPrefix = "ration:"
	DefaultTags   = 256
	maxTags       = 16384
)

// names makes the names of keys: prefix, space, the hash tag in braces, and what tells keys of one tag apart. All is
// printable ASCII without spaces, and no two states have one name. Braces in what users chose are escaped, so that only
// ours name a hash tag.
type names struct {
	prefix string // escaped
	tags   uint64

	spacesKeys []string    // of each tag
	dueKeys    [][2]string // of each tag
}

// CheckTags is an error if there cannot be so many tags. 0 is the default.
func CheckTags(n int) error {
	if n < 0 || n > maxTags || n > 0 && bits.OnesCount(uint(n)) != 1 {
		return fmt.Errorf("%d tags are not a power of two up to %d", n, maxTags)
	}
	return nil
}

func newNames(prefix string, tags int) names {
	n := names{prefix: string(escape(nil, prefix, 0)), tags: uint64(tags)}
	for tag := range tags {
		n.spacesKeys = append(n.spacesKeys, n.own("spaces", tag))
		n.dueKeys = append(n.dueKeys, [2]string{n.own("due", tag), n.own("due:clock", tag)})
	}
	return n
}

// tag is the number of the place of a key: by its group, or the key itself if it has none.
func (n *names) tag(k *driver.Key) int {
	s := k.Group
	if s == "" {
		s = k.ID
	}
	return n.tagOf(s)
}

// tagOf hashes by FNV-1a, folded.
func (n *names) tagOf(s string) int {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return int((h ^ h>>32) & (n.tags - 1))
}

// space is how the name of a state under a Space begins, before its tag.
func (n *names) space(space string) string {
	return n.prefix + string(escape(nil, space, 0))
}

func (n *names) appendTag(b []byte, tag int) []byte {
	b = append(b, '{')
	b = strconv.AppendInt(b, int64(tag), 10)
	return append(b, '}')
}

// state is the name of a state.
func (n *names) state(b []byte, k *driver.Key, tag int) []byte {
	b = append(b, n.prefix...)
	b = escape(b, k.Space, 0)
	return n.place(b, k, tag)
}

// place is a state's name after its space.
func (n *names) place(b []byte, k *driver.Key, tag int) []byte {
	b = n.appendTag(b, tag)
	b = append(b, ':')
	b = escape(b, k.Group, ':')
	b = append(b, ':')
	return escape(b, k.ID, 0)
}

// key is the Key of a state's name.
func (n *names) key(name string) (k driver.Key, ok bool) {
	rest, ok := strings.CutPrefix(name, n.prefix)
	space, rest, ok1 := strings.Cut(rest, "{")
	_, rest, ok2 := strings.Cut(rest, "}:")
	group, id, ok3 := strings.Cut(rest, ":")
	var bad [3]bool
	k.Space, bad[0] = unescape(space)
	k.Group, bad[1] = unescape(group)
	k.ID, bad[2] = unescape(id)
	return k, ok && ok1 && ok2 && ok3 && bad == [3]bool{}
}

// hold is the name of the record under an id.
func (n *names) hold(id string, tag int) string {
	b := n.appendTag([]byte(n.prefix), tag)
	return string(escape(append(b, "hold:"...), id, 0))
}

func (n *names) own(what string, tag int) string {
	return string(append(n.appendTag([]byte(n.prefix), tag), what...))
}

// spaces is the name of the list of spaces that states of a tag are under.
func (n *names) spaces(tag int) string { return n.spacesKeys[tag] }

// due are the names of the sorted sets of a tag's open holds by expiry: those by the server's clock, and those by an
// injected one.
func (n *names) due(tag int) [2]string { return n.dueKeys[tag] }

// route is the tag that an id of "namespace|route.id" names.
func (n *names) route(id string) (tag int, ok bool) {
	_, rest, _ := strings.Cut(id, "|")
	text, _, found := strings.Cut(rest, ".")
	if !found || text == "" || len(text) > 5 || text[0] == '0' && text != "0" {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		tag = 10*tag + int(text[i]-'0')
	}
	return tag, uint64(tag) < n.tags
}

const digits = "0123456789ABCDEF"

// escape appends s with %, braces, also, and all that is not printable or a space written as %XX.
func escape(b []byte, s string, also byte) []byte {
	from := 0
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7F || c == '%' || c == '{' || c == '}' || c == also {
			b = append(append(b, s[from:i]...), '%', digits[c>>4], digits[c&15])
			from = i + 1
		}
	}
	return append(b, s[from:]...)
}

func unescape(s string) (_ string, bad bool) {
	if !strings.Contains(s, "%") {
		return s, false
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", true
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", true
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), false
}
