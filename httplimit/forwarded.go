package httplimit

import (
	"net/http"
	"net/netip"
	"strings"
)

// client is the address of who sent r; the zero Addr if that cannot be told.
func (o *IPOptions) client(r *http.Request) netip.Addr {
	addr := parseAddr(r.RemoteAddr)
	if !o.trusts(addr) {
		return addr
	}
	forwarded := strings.EqualFold(o.Header, "Forwarded")
	lines := r.Header.Values(o.Header)
	// From the right: what a trusted proxy added stands there. Anything to the left of the first stranger is the stranger's word.
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var element string
			rest, element, more = cutLast(rest, ',', forwarded)
			if element == "" {
				continue // empty elements of a list count for nothing
			}
			if forwarded {
				element = forwardedFor(element)
			}
			addr = parseAddr(element)
			if !o.trusts(addr) {
				return addr
			}
		}
	}
	return addr
}

func (o *IPOptions) trusts(addr netip.Addr) bool {
	for _, p := range o.Trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// parseAddr reads an address as it stands in RemoteAddr and in headers: alone, in brackets, or with a port. The zero Addr is
// none.
func parseAddr(s string) netip.Addr {
	host := s
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, port, found := strings.Cut(inner, "]")
		if !found || port != "" && !isPort(port) || !strings.Contains(inner, ":") {
			return netip.Addr{}
		}
		host = inner
	} else if before, port, found := strings.Cut(s, ":"); found && !strings.Contains(port, ":") {
		if !isPort(":" + port) {
			return netip.Addr{}
		}
		host = before
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.WithZone("").Unmap()
}

// isPort reports whether s is a colon and a port. RFC 7239 lets ports be hidden behind a name.
func isPort(s string) bool {
	if len(s) < 2 || len(s) > 32 || s[0] != ':' {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

// cutLast cuts the last element off a list, without the spaces around it; more says whether there is anything before it. A
// separator between quotes, if they count, is none. It goes from the right, so what a stranger wrote to the left, such as a
// quote that never ends, cannot hide what a trusted proxy added.
func cutLast(list string, separator byte, quotes bool) (rest, element string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case quotes && list[i] == '"':
			quoted = !quoted
		case list[i] == separator && !quoted:
			return list[:i], strings.Trim(list[i+1:], " \t"), true
		}
	}
	return "", strings.Trim(list, " \t"), false
}

// forwardedFor is the node of an element's "for", without quotes; "-" if there is none, which is no address.
func forwardedFor(element string) string {
	for more := true; more; {
		var pair string
		element, pair, more = cutLast(element, ';', true)
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if value != "" {
			return value
		}
	}
	return "-"
}
