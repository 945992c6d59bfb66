package simulate

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// Kinds of parts of a key, in the form in which it is kept.
const (
	partIPv4 = '4'
	partIPv6 = '6'
	partText = 't'
)

// prefixes say how many bits of an address are a key.
type prefixes struct{ v4, v6 int }

// append adds an address to a key, cut to its prefix. What is no address, such as the name of a host, stays as it is.
// An IPv4 address that is mapped to IPv6 is one of IPv4.
func (p prefixes) append(key, text []byte) []byte {
	if ip, ok := parseIPv4(text); ok {
		return p.append4(key, ip)
	}
	addr, ok := parseAddress(text)
	switch {
	case !ok:
		return append(append(key, partText), text...)
	case addr.Is4():
		return p.append4(key, addr.As4())
	}
	b := addr.As16()
	for i := range b {
		b[i] &= byte(uint16(0xff00) >> min(max(p.v6-8*i, 0), 8))
	}
	return append(append(key, partIPv6), b[:]...)
}

func (p prefixes) append4(key []byte, ip [4]byte) []byte {
	for i := range ip {
		ip[i] &= byte(uint16(0xff00) >> min(max(p.v4-8*i, 0), 8))
	}
	return append(append(key, partIPv4), ip[:]...)
}

// parseIPv4 reads 192.0.2.1, as most addresses of a log are.
func parseIPv4(b []byte) (ip [4]byte, ok bool) {
	if len(b) < 7 || len(b) > 15 {
		return ip, false
	}
	part, n, digits := 0, 0, 0
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			n = n*10 + int(c-'0')
			if digits++; digits > 3 || n > 255 {
				return ip, false
			}
		case c == '.' && digits > 0 && part < 3:
			ip[part] = byte(n)
			part, n, digits = part+1, 0, 0
		default:
			return ip, false
		}
	}
	ip[part] = byte(n)
	return ip, part == 3 && digits > 0
}

// parseAddress reads any address, also with a port, in brackets, or as the first of a list.
func parseAddress(b []byte) (netip.Addr, bool) {
	if i := bytes.IndexByte(b, ','); i >= 0 {
		b = b[:i]
	}
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '[' {
		i := bytes.IndexByte(b, ']')
		if i < 0 {
			return netip.Addr{}, false
		}
		b = b[1:i]
	} else if i := bytes.IndexByte(b, ':'); i > 0 && bytes.IndexByte(b[i+1:], ':') < 0 {
		b = b[:i]
	}
	if len(b) == 0 || len(b) > 64 || bytes.IndexByte(b, '%') >= 0 {
		return netip.Addr{}, false
	}
	// A string of its own would be an allocation a line. Only a zone and an error would keep it.
	addr, err := netip.ParseAddr(unsafe.String(&b[0], len(b)))
	return addr.Unmap(), err == nil
}
