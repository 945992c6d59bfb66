package ration

import (
	"fmt"
	"strings"
)

// maxKey is the greatest length of a key or a group, in bytes, before escaping.
const maxKey = 1024

// A Key says who is counted: opaque bytes, never parsed, logged or shown. Keys are comparable. The zero Key is
// ErrInvalidKey where it is used.
type Key struct {
	group, id string
	bad       bool // a part was empty, or it was too long
}

// Global is the key of a count that everybody shares. No KeyOf equals it.
var Global = Key{id: ":"}

// KeyOf makes a key of one or more parts, 1 to 1024 bytes in all, any bytes. Different lists of parts are different keys,
// whatever the parts hold. Leave a part out to count everybody who shares the others.
//
// An empty part is ErrInvalidKey when the key is used: it is nearly always an identity that got lost. One part costs no
// allocation, more cost one.
func KeyOf(first string, rest ...string) Key {
	if len(rest) == 0 {
		if first == "" || len(first) > maxKey {
			return Key{bad: true}
		}
		if first[0] != ':' {
			return Key{id: first}
		}
	}
	return joinedKey(first, rest)
}

// joinedKey is ":" + part for each part, with % and : escaped, so that no two lists are alike. A single part that begins
// with ":" is written so too.
func joinedKey(first string, rest []string) Key {
	length := len(first)
	room := escapedLen(first)
	bad := first == ""
	for _, part := range rest {
		length += len(part)
		room += escapedLen(part)
		bad = bad || part == ""
	}
	if bad || length > maxKey {
		return Key{bad: true}
	}
	var b strings.Builder
	b.Grow(room)
	writePart(&b, first)
	for _, part := range rest {
		writePart(&b, part)
	}
	return Key{id: b.String()}
}

func escapedLen(part string) int {
	return 1 + len(part) + 2*(strings.Count(part, "%")+strings.Count(part, ":"))
}

func writePart(b *strings.Builder, part string) {
	b.WriteByte(':')
	for i := range len(part) {
		switch part[i] {
		case '%':
			b.WriteString("%25")
		case ':':
			b.WriteString("%3A")
		default:
			b.WriteByte(part[i])
		}
	}
}

// In places k with the other keys of a group, and the group is part of the key. On Redis Cluster only keys of one group
// can be decided together. A group is at most 1024 bytes, else ErrInvalidKey; "" is no group.
func (k Key) In(group string) Key {
	k.group = group
	k.bad = k.bad || len(group) > maxKey
	return k
}

// Charge is one element of a list for TakeAll: cost against limit for this key.
func (k Key) Charge(limit Limit, cost int64) Charge {
	return Charge{key: k, limit: limit, cost: cost}
}

// Parts are what In and KeyOf were given. Global and invalid keys have none. They are for programs that show a key to somebody
// who may see it; keep them out of logs, errors and metrics.
func (k Key) Parts() (group string, parts []string) {
	switch {
	case k.bad || k.id == "" || k == Global.In(k.group):
		return k.group, nil
	case k.id[0] != ':':
		return k.group, []string{k.id}
	}
	parts = strings.Split(k.id[1:], ":")
	for i, part := range parts {
		parts[i] = unescaper.Replace(part)
	}
	return k.group, parts
}

var unescaper = strings.NewReplacer("%3A", ":", "%25", "%")

func (k Key) check() error {
	switch {
	case len(k.group) > maxKey:
		return invalidf(ErrInvalidKey, "a group of %d bytes is longer than %d", len(k.group), maxKey)
	case k.bad:
		return invalidf(ErrInvalidKey, "a part of the key is empty, or it is longer than %d bytes in all; leave out a part that is absent", maxKey)
	case k.id == "":
		return invalidf(ErrInvalidKey, "the zero Key; use KeyOf, or Global for a count that all share")
	}
	return nil
}

// A Charge is a key, a limit and a cost, to be decided with others. Make it with Key.Charge.
type Charge struct {
	key   Key
	limit Limit
	cost  int64
}

// String is always the same text: keys are personal data and often secrets, so they do not get into logs by accident.
func (k Key) String() string { return "ration.Key(hidden)" }

// GoString is the same as String.
func (k Key) GoString() string { return k.String() }

// String says nothing of the key, like Key.String.
func (c Charge) String() string { return fmt.Sprintf("%v, cost %d", c.key, c.cost) }

// GoString is the same as String.
func (c Charge) GoString() string { return c.String() }
