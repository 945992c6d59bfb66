package httplimit

import (
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-go/ration"
)

// Headers is a dialect in which answers tell what is left. Retry-After of refusals is in all of them.
type Headers uint8

// The dialects. Draft11 and Draft12 are of draft-ietf-httpapi-ratelimit-headers, with all limits in one field; the others tell
// of one limit, the tightest.
const (
	Draft11  Headers = iota // RateLimit-Policy: "day";q=100;w=86400 and RateLimit: "day";r=40;t=3600
	Draft12                 // RateLimit-Policy: "day";q=100;w=86400 and RateLimit: "day";a=40;w=3600;c=1
	Split                   // RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset (in seconds), as drafts up to 06 had them
	XHeaders                // X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset (in seconds since 1970)
	None
)

// Names of fields, as http.Header has them.
const (
	fieldLimits     = "Ratelimit"
	fieldPolicy     = "Ratelimit-Policy"
	fieldRetryAfter = "Retry-After"
)

// triple are the names of the fields that tell of one limit.
func (h Headers) triple() (limit, remaining, reset string) {
	if h == XHeaders {
		return "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"
	}
	return "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"
}

// fields are the names of all fields of the dialect.
func (h Headers) fields() []string {
	switch h {
	case Draft11, Draft12:
		return []string{fieldPolicy, fieldLimits}
	case Split, XHeaders:
		limit, remaining, reset := h.triple()
		return []string{limit, remaining, reset}
	}
	return nil
}

// maxInteger is the greatest integer of a structured field.
const maxInteger = 999_999_999_999_999

// shown is what headers tell of a limit itself.
type shown struct {
	name   string
	quota  int64
	window int64 // seconds; 0: none, or not always the same
	slots  bool
	policy string // member of RateLimit-Policy
}

func show(rule ration.Rule) shown {
	s := shown{name: rule.Name}
	switch l := rule.Limit.(type) {
	case ration.TokenBucket:
		s.quota, s.window = l.Burst, fillSeconds(l)
	case ration.SlidingWindow:
		s.quota, s.window = l.Limit, seconds(l.Window)
	case ration.FixedWindow:
		s.quota, s.window = l.Limit, seconds(l.Window)
	case ration.Concurrency:
		s.quota, s.slots = l.Limit, true
	case ration.Budget:
		s.quota = l.Limit
		switch l.Period {
		case ration.Hour:
			s.window = 60 * 60
		case ration.Day:
			s.window = 24 * 60 * 60
		case ration.Week:
			s.window = 7 * 24 * 60 * 60
		}
	}
	b := append([]byte(nil), '"')
	b = append(b, s.name...)
	b = append(b, `";q=`...)
	b = strconv.AppendInt(b, min(s.quota, maxInteger), 10)
	if s.slots {
		b = append(b, `;qu="concurrent-requests"`...)
	}
	if s.window > 0 {
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, s.window, 10)
	}
	s.policy = string(b)
	return s
}

// fillSeconds is how long a bucket takes from empty to full: so quota / window is its rate.
func fillSeconds(b ration.TokenBucket) int64 {
	if b.Burst < 1 || b.Refill.N < 1 || b.Refill.Per < 1 {
		return seconds(b.Refill.Per)
	}
	hi, lo := bits.Mul64(uint64(b.Burst), uint64(b.Refill.Per))
	if hi >= uint64(b.Refill.N) {
		return maxInteger
	}
	ns, rest := bits.Div64(hi, lo, uint64(b.Refill.N))
	if rest > 0 {
		ns++
	}
	if ns > 1<<62 {
		return maxInteger
	}
	return seconds(time.Duration(ns))
}

// seconds is d in whole seconds, rounded up, and at least 1.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return max(1, s)
}

// entry is one limit as the headers of an answer tell of it.
type entry struct {
	name        string
	refused     bool
	quota, left int64
	policy      string // member of RateLimit-Policy
	item        string // member of RateLimit
	reset       string // of the dialects that tell of one limit
}

// entries tell how us were decided. What the store did not answer is not told.
func (h Headers) entries(us []use, each []ration.Decision) []entry {
	if h >= None || len(each) != len(us) {
		return nil
	}
	es := make([]entry, 0, len(us))
	var scratch [128]byte
	for i := range us {
		d := &each[i]
		if d.Degraded {
			continue
		}
		e := entry{name: us[i].shown.name, refused: !d.Allowed, quota: d.Limit, left: min(d.Remaining, maxInteger), policy: us[i].shown.policy}
		until := d.ResetAfter
		if e.refused {
			until = d.RetryAfter
		}
		b := scratch[:0]
		switch h {
		case Draft11, Draft12:
			b = append(b, '"')
			b = append(b, e.name...)
			left, end := `";r=`, ";t="
			if h == Draft12 {
				left, end = `";a=`, ";w="
			}
			b = append(b, left...)
			b = strconv.AppendInt(b, e.left, 10)
			if until > 0 && (e.refused || !us[i].shown.slots) { // a slot is let go of when its request is over, whenever that is
				b = append(b, end...)
				b = strconv.AppendInt(b, seconds(until), 10)
			}
			if h == Draft12 {
				b = append(b, ";c="...)
				b = strconv.AppendInt(b, min(us[i].cost, maxInteger), 10)
			}
			e.item = string(b)
		case Split:
			e.reset = strconv.FormatInt(seconds(until), 10)
		case XHeaders:
			e.reset = strconv.FormatInt(unixUp(d.At.Add(until)), 10)
		}
		es = append(es, e)
	}
	slices.SortStableFunc(es, tighter)
	return es
}

// unixUp is t in seconds since 1970, rounded up.
func unixUp(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// tighter puts refusals first, then what has the smallest part left.
func tighter(a, b entry) int {
	switch {
	case a.refused && !b.refused:
		return -1
	case b.refused && !a.refused:
		return 1
	}
	ah, al := bits.Mul64(uint64(a.left), uint64(b.quota))
	bh, bl := bits.Mul64(uint64(b.left), uint64(a.quota))
	switch {
	case ah < bh || ah == bh && al < bl:
		return -1
	case ah > bh || al > bl:
		return 1
	}
	return 0
}

// set puts es into header, together with what a guard around this one has put there: each field once, tightest first.
func (h Headers) set(header http.Header, es []entry) {
	if len(es) == 0 {
		return
	}
	switch h {
	case Draft11, Draft12:
		es = withOthers(header, es)
		policies, items := make([]string, 0, len(es)), make([]string, len(es))
		for i := range es {
			items[i] = es[i].item
			if es[i].policy != "" {
				policies = append(policies, es[i].policy)
			}
		}
		lines := []string{join(policies), join(items)}
		header[fieldPolicy], header[fieldLimits] = lines[:1:1], lines[1:]
	case Split, XHeaders:
		limit, remaining, reset := h.triple()
		other := entry{quota: number(header[limit]), left: number(header[remaining])}
		if other.quota >= 0 && other.left >= 0 && len(header[reset]) > 0 && !es[0].refused && tighter(other, es[0]) <= 0 {
			header[limit], header[remaining], header[reset] = header[limit][:1], header[remaining][:1], header[reset][:1]
			return
		}
		lines := []string{strconv.FormatInt(es[0].quota, 10), strconv.FormatInt(es[0].left, 10), es[0].reset}
		header[limit], header[remaining], header[reset] = lines[:1:1], lines[1:2:2], lines[2:]
	}
}

// tells reports whether header has each field once already, with es in it as far as the dialect tells of several limits; if not,
// a refusal is what it tells of.
func (h Headers) tells(header http.Header, es []entry, status int) bool {
	for _, field := range h.fields() {
		if len(header[field]) != 1 {
			return false
		}
	}
	if h == Split || h == XHeaders {
		return status == http.StatusTooManyRequests
	}
	items, ok := parseList(header[fieldLimits][0])
	for i := range es {
		ok = ok && slices.ContainsFunc(items, func(it item) bool { return it.value.text == es[i].name })
	}
	return ok
}

func join(members []string) string {
	if len(members) == 1 {
		return members[0]
	}
	return strings.Join(members, ", ")
}

// number is the count that a field has; −1 if it has none.
func number(lines []string) int64 {
	if len(lines) == 0 {
		return -1
	}
	n, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// withOthers adds the entries that header has already under other names.
func withOthers(header http.Header, es []entry) []entry {
	if len(header[fieldLimits]) == 0 {
		return es
	}
	items, ok := parseList(strings.Join(header[fieldLimits], ","))
	policies, ok2 := parseList(strings.Join(header[fieldPolicy], ","))
	if !ok || !ok2 {
		return es
	}
	ours := len(es)
	for i := range items {
		it := &items[i]
		if it.value.kind != aString && it.value.kind != aToken || slices.ContainsFunc(es[:ours], func(e entry) bool { return e.name == it.value.text }) {
			continue
		}
		left, ok := it.count("r", "a")
		if !ok {
			continue
		}
		e := entry{name: it.value.text, item: it.text, left: left, quota: max(1, left)}
		for j := range policies {
			if policies[j].value.text == e.name {
				e.policy = policies[j].text
				if q, ok := policies[j].count("q"); ok {
					e.quota = q
				}
			}
		}
		es = append(es, e)
	}
	slices.SortStableFunc(es, tighter)
	return es
}
