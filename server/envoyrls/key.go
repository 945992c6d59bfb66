package envoyrls

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/ration-go/ration"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// maxKey is what a ration.Key has room for, in bytes.
const maxKey = 1024

// keyOf is the key of a descriptor: domain, and key and value of each entry, each a part of its own, so that no two
// descriptors share a count by accident. Where all that matches a pattern shares one, the pattern stands for the value.
func (d *domain) keyOf(entries []*commonv3.RateLimitDescriptor_Entry, r *rule, group bool) ration.Key {
	var room [16]string
	parts, length := room[:0], len(d.name)
	for i, e := range entries {
		value := part(e.GetValue())
		if r != nil && r.shares && r.levels[i].shared {
			value = "\x00*" + r.levels[i].value
		}
		key := part(e.GetKey())
		parts = append(parts, key, value)
		length += len(key) + len(value)
	}
	k := ration.Key{}
	if length <= maxKey {
		k = ration.KeyOf(d.name, parts...)
	} else {
		k = ration.KeyOf(d.name, hashed(parts))
	}
	if group {
		k = k.In(d.name)
	}
	return k
}

// part is s as a part of a key, which is never empty.
func part(s string) string {
	if s == "" || s[0] == 0 {
		return "\x00" + s
	}
	return s
}

// hashed stands for parts that are too long for a key. A key with it has two parts; others have an odd number.
func hashed(parts []string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(strconv.AppendInt(nil, int64(len(p)), 10))
		h.Write([]byte(":" + p))
	}
	return hex.EncodeToString(h.Sum(nil))
}
