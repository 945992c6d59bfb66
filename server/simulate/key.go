package simulate

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// keying makes the key of a record, for all limits that have the same.
type keying struct {
	fields []string
	parts  []keyPart
	prefix prefixes
	table  table
	limits []*limit

	noKey    int64 // requests without one
	requests int64 // with a key that is followed
	full     int64 // with a key that there was no room for
}

type keyPart struct {
	slot    int
	address bool
}

// longestKey is that of a ration.Key.
const longestKey = 1024

// append makes a key: of each part its kind and its bytes, with the length before it if there are several. It reports
// false if a part is absent or the key too long.
func (k *keying) append(key []byte, rec *record) ([]byte, bool) {
	for _, p := range k.parts {
		value := rec.values[p.slot]
		if len(value) == 0 || len(value) > longestKey {
			return key, false
		}
		from := len(key)
		if len(k.parts) > 1 {
			key = append(key, 0, 0)
		}
		if p.address {
			key = k.prefix.append(key, value)
		} else {
			key = append(append(key, partText), value...)
		}
		if len(k.parts) > 1 {
			binary.BigEndian.PutUint16(key[from:], uint16(len(key)-from-2))
		}
	}
	return key, len(key) <= longestKey
}

// text is a key for people.
func (k *keying) text(key []byte) string {
	if len(k.parts) == 1 {
		return k.partText(key)
	}
	var parts []string
	for len(key) > 2 {
		n := int(binary.BigEndian.Uint16(key))
		parts = append(parts, k.partText(key[2:2+n]))
		key = key[2+n:]
	}
	return strings.Join(parts, " · ")
}

func (k *keying) partText(part []byte) string {
	kind, value := part[0], part[1:]
	bits, all := 0, 0
	switch kind {
	case partIPv4:
		bits, all = k.prefix.v4, 32
	case partIPv6:
		bits, all = k.prefix.v6, 128
	default:
		return printable(value)
	}
	addr, _ := netip.AddrFromSlice(value)
	if bits == all {
		return addr.String()
	}
	return netip.PrefixFrom(addr, bits).String()
}

// printable is bytes of a log for a terminal: escaped if they could do something to it.
func printable(b []byte) string {
	if utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return string(b)
	}
	return strconv.QuoteToASCII(string(b))
}

// said is what the key is made of: "address (/24, /64) and user".
func (k *keying) said() string {
	names := make([]string, len(k.fields))
	for i, f := range k.fields {
		names[i] = f
		if k.parts[i].address {
			names[i] += " (/" + strconv.Itoa(k.prefix.v4) + ", /" + strconv.Itoa(k.prefix.v6) + ")"
		}
	}
	return strings.Join(names, " and ")
}
