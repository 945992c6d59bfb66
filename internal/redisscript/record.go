package redisscript

import (
	"strings"

	"github.com/ration-go/ration/driver"
)

// record is what is kept of a hold, or of the answer under an id (hold.lua).
type record struct {
	open    bool
	ret     bool
	clock   bool // an injected one wrote it last
	at      driver.Micros
	expires driver.Micros
	keys    []string    // names of the states
	ops     []driver.Op // as charged
	charged []int64     // what counts now
}

const openState = 2

// parseRecord reads what is kept under an id.
func (n *names) parseRecord(text string) (rec record, ok bool) {
	text, ok = strings.CutPrefix(text, "h")
	r := reader{s: text}
	rec.open = r.int(',') == openState
	rec.ret = r.int(',') == 1
	rec.clock = r.int(',') == 1
	r.word(',') // digest
	rec.at = driver.Micros(r.int(','))
	r.int(',') // ttl
	rec.expires = driver.Micros(r.int(','))
	r.int(',') // keep
	count := r.int(' ')
	if !ok || r.bad || count < 0 || count > driver.MaxOps {
		return rec, false
	}
	rec.ops = make([]driver.Op, count)
	for i := range rec.ops {
		op := &rec.ops[i]
		name, limit, raw := r.word(' '), r.word(' '), reader{s: r.word(' ')}
		key, ok := n.key(name)
		kind := strings.IndexByte(kinds, (limit + " ")[0])
		if !ok || kind < 1 {
			return rec, false
		}
		op.Key, op.Kind = key, driver.Kind(kind)
		for _, v := range rawNumbers(op) {
			*v = raw.int(':')
		}
		op.Cost = r.int(',')
		r.int(',') // used
		r.int(',') // reset
		rec.charged = append(rec.charged, r.int(','))
		r.int(',') // reported
		r.int(',') // settled
		r.int(',') // given
		r.int(' ') // at
		rec.keys = append(rec.keys, name)
		if raw.bad || raw.s != "" {
			return rec, false
		}
	}
	return rec, !r.bad && r.s == ""
}

// kinds are the letters of the kinds of state, each at its number.
const kinds = " bwcms"
