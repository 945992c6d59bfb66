package access

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Verb is a kind of thing to do.
type Verb uint8

// The verbs. The zero Verb is none.
const (
	Read  Verb = iota + 1 // look: peek, lists, metrics, the dashboard
	Take                  // charge: take, refund, hit, checks, reservations
	Reset                 // forget counts
	Admin                 // all of these, and change the server
)

var verbNames = [...]string{Read: "read", Take: "take", Reset: "reset", Admin: "admin"}

// String is the verb as scopes have it.
func (v Verb) String() string {
	if v < Read || v > Admin {
		return fmt.Sprintf("Verb(%d)", uint8(v))
	}
	return verbNames[v]
}

// Scope is one thing that a caller may do. The zero Scope is nothing.
type Scope struct {
	Verb Verb
	// Limit is the name of a configured limit, or what names begin with and an asterisk; "" is every limit, also those that a
	// caller brings as text.
	Limit string
	// Namespace is "" for the server's own, and "*" for every one.
	Namespace string
}

// limitForm is a limit's name or its beginning, and what stands for a domain of Envoy's: envoy/edge.
var limitForm = regexp.MustCompile(`^[A-Za-z0-9_./-]+\*?$`)

// ParseScopes reads scopes with commas between them. Characters of a namespace that are not printable ASCII, and %, @, the
// comma and the asterisk, are escaped as in URLs.
func ParseScopes(text string) (scopes []Scope, err error) {
	for one := range strings.SplitSeq(text, ",") {
		scope, err := parseScope(one)
		if err != nil {
			return nil, fmt.Errorf("the scope %q: %w", one, err)
		}
		scopes = append(scopes, scope)
	}
	return scopes, nil
}

func parseScope(text string) (s Scope, err error) {
	rest, namespace, elsewhere := strings.Cut(text, "@")
	verb, limit, limited := strings.Cut(rest, ":")
	for v := Read; v <= Admin; v++ {
		if v.String() == verb {
			s.Verb = v
		}
	}
	switch {
	case s.Verb == 0:
		return s, errors.New("it begins with read, take, reset or admin, as in take:chat")
	case limited && limit == "*":
	case limited && s.Verb == Admin:
		return s, errors.New("admin is of all limits; leave out the name")
	case limited && !limitForm.MatchString(limit):
		return s, errors.New("behind the colon is the name of a limit, or what names begin with and *")
	case limited:
		s.Limit = limit
	}
	switch {
	case !elsewhere:
	case namespace == "*":
		s.Namespace = "*"
	default:
		if s.Namespace, err = url.PathUnescape(namespace); err != nil || s.Namespace == "" || s.Namespace == "*" {
			return s, errors.New("behind the @ is a namespace, escaped as in URLs, or *; without @ it is the server's own")
		}
	}
	return s, nil
}

// String is the scope as ParseScopes reads it.
func (s Scope) String() string {
	text := s.Verb.String()
	if s.Limit != "" {
		text += ":" + s.Limit
	}
	switch s.Namespace {
	case "":
	case "*":
		text += "@*"
	default:
		text += "@" + escape(s.Namespace)
	}
	return text
}

func escape(namespace string) string {
	var b strings.Builder
	for i := range len(namespace) {
		if c := namespace[i]; c <= ' ' || c >= 0x7F || strings.IndexByte("%@,*#", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func formatScopes(scopes []Scope) string {
	texts := make([]string, len(scopes))
	for i, s := range scopes {
		texts[i] = s.String()
	}
	return strings.Join(texts, ",")
}

// has reports whether s is of verb at all.
func (s *Scope) has(verb Verb) bool { return s.Verb == verb || s.Verb == Admin }

// in reports whether s is about a namespace, for a server whose own is own.
func (s *Scope) in(namespace, own string) bool {
	switch s.Namespace {
	case "*":
		return true
	case "":
		return namespace == own
	}
	return namespace == s.Namespace
}

// covers reports whether s lets verb be done to limit ("": not a configured one) in a namespace, for a server whose own is own.
func (s *Scope) covers(verb Verb, namespace, limit, own string) bool {
	if !s.has(verb) || !s.in(namespace, own) {
		return false
	}
	if begin, ok := strings.CutSuffix(s.Limit, "*"); ok {
		return limit != "" && strings.HasPrefix(limit, begin)
	}
	return s.Limit == "" || s.Limit == limit
}
