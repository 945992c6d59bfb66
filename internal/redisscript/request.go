package redisscript

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// lapse is a Txn of the sweep's own: it ends the hold of its ID if that has expired.
const lapse = driver.Renew + 1

// work is a transaction on its way.
type work struct {
	t    *driver.Txn
	tag  int
	sent []driver.Op // the ops that a hold's verb came with
	keys []string    // of a hold's ops, as far as known
}

// call is one script call: transactions of one tag, or of any on a server that is no cluster.
type call struct {
	work   []*work
	heads  int      // so many of keys, from the first, are lists of spaces and of open holds
	tags   []uint64 // a bit for each tag whose list of spaces is among them
	keys   []string
	limits []string
	args   []string // of each transaction
	holds  bool
	writes bool
	flat   bool // many.lua can decide it
	run    run
	view   viewed

	texts    *limitTexts
	index    map[string]int64 // of keys, if they are many
	buf      []byte
	lastLim  arith.Limit
	lastArgs int
}

// run is what many.lua does with states that follow each other in the keys.
type run struct {
	first, count, limit, verb, times, cost int64
}

// refuse says why t cannot be decided by any store of this version.
func refuse(t *driver.Txn) error {
	switch {
	case t.Verb == 0 || t.Verb > lapse:
		return fmt.Errorf("%w: this store does not know verb %d", driver.ErrNotApplied, t.Verb)
	case t.Verb == driver.Peek || t.Verb == driver.Reset || t.Verb >= driver.Forget || t.Verb == driver.Take && t.Hold && t.ID != "":
		return nil
	case slices.ContainsFunc(t.Ops, func(op driver.Op) bool { return op.Kind == driver.Slots }):
		return fmt.Errorf("%w: slots are taken by a hold", driver.ErrNotApplied)
	}
	return nil
}

// tagOfTxn is where t is decided. It fails if that is no one place.
func (n *names) tagOfTxn(t *driver.Txn) (int, error) {
	if t.Verb > driver.Forget {
		tag, ok := n.route(t.ID)
		if !ok {
			return 0, driver.ErrNoHold
		}
		return tag, nil
	}
	if len(t.Ops) == 0 {
		return 0, fmt.Errorf("%w: a transaction without ops", driver.ErrNotApplied)
	}
	first := &t.Ops[0].Key
	for i := 1; i < len(t.Ops); i++ {
		if k := &t.Ops[i].Key; k.Group != first.Group || k.Group == "" && k.ID != first.ID {
			return 0, driver.ErrCrossGroup
		}
	}
	tag := n.tag(first)
	if t.Verb == driver.Take && t.ID != "" {
		if route, ok := n.route(t.ID); !ok || route != tag {
			return 0, fmt.Errorf("%w: the id does not name the place %d of its keys", driver.ErrCrossGroup, tag)
		}
	}
	return tag, nil
}

// head makes name one of the keys that are no states. All of them are named before any other.
func (c *call) head(name string) {
	if !slices.Contains(c.keys, name) {
		c.keys = append(c.keys, name)
		c.heads++
	}
}

// headOf is the place of a head.
func (c *call) headOf(name string) int64 { return int64(slices.Index(c.keys[:c.heads], name) + 1) }

// key is the place of name among the keys of c.
func (c *call) key(name []byte) int64 {
	const few = 8
	if c.index == nil {
		for i := c.heads; i < len(c.keys); i++ {
			if c.keys[i] == string(name) {
				return int64(i + 1)
			}
		}
	} else if i, ok := c.index[string(name)]; ok {
		return i
	}
	c.keys = append(c.keys, string(name))
	place := int64(len(c.keys))
	if c.index != nil {
		c.index[c.keys[place-1]] = place
	} else if len(c.keys)-c.heads > few {
		c.index = make(map[string]int64, 2*len(c.keys))
		for i := c.heads; i < len(c.keys); i++ {
			c.index[c.keys[i]] = int64(i + 1)
		}
	}
	return place
}

// limit is the place of op's numbers among the limits of c.
func (c *call) limit(op *driver.Op) (int, error) {
	var l arith.Limit
	text, err := c.texts.text(op, &l)
	if err != nil {
		return 0, err
	}
	if l == c.lastLim && c.lastArgs > 0 {
		return c.lastArgs, nil
	}
	place := slices.Index(c.limits, text) + 1
	if place == 0 {
		c.limits = append(c.limits, text)
		place = len(c.limits)
	}
	c.lastLim, c.lastArgs = l, place
	return place, nil
}

// appendLimit appends l as the scripts read it (core.lua, limit).
func appendLimit(b []byte, l *arith.Limit) []byte {
	b = append(b, kinds[l.Kind])
	b = strconv.AppendInt(b, l.Size, 10)
	nums := [...]int64{l.Span, 0, 0, 0}
	n := 1
	switch l.Kind {
	case arith.Bucket:
		nums, n = [...]int64{l.Gain, l.Unit, l.Tick, 0}, 3
	case arith.Budget:
		nums, n = l.Bounds, 4
	}
	for _, v := range nums[:n] {
		b = append(b, ',')
		b = strconv.AppendInt(b, v, 10)
	}
	return b
}

func (c *call) int(sep byte, n int64) {
	c.buf = append(c.buf, sep)
	c.buf = strconv.AppendInt(c.buf, n, 10)
}

// addHeads names the keys of w that are no states.
func (c *call) addHeads(n *names, w *work) {
	if w.t.Verb == driver.Peek {
		return
	}
	c.writes = true
	if c.tags == nil {
		c.tags = make([]uint64, n.tags/64+1)
	}
	if word, bit := w.tag/64, uint64(1)<<(w.tag%64); c.tags[word]&bit == 0 {
		c.tags[word] |= bit
		c.head(n.spaces(w.tag))
	}
	if held(w.t) {
		c.holds = true
		for _, name := range n.due(w.tag) {
			c.head(name)
		}
	}
}

// held reports whether t has an id.
func held(t *driver.Txn) bool { return t.Verb > driver.Forget || t.Verb == driver.Take && t.ID != "" }

// flat reports whether many.lua can decide t.
func flat(t *driver.Txn) bool {
	if len(t.Ops) != 1 || t.Now != 0 || t.ID != "" {
		return false
	}
	switch op := &t.Ops[0]; t.Verb {
	case driver.Take, driver.Peek:
		return op.Kind == driver.Bucket || op.Kind == driver.Counter || op.Kind == driver.Budget
	case driver.Hit:
		return op.Kind == driver.Counter || op.Kind == driver.Budget
	}
	return false
}

// addFlat encodes w for many.lua.
func (c *call) addFlat(n *names, w *work) error {
	op := &w.t.Ops[0]
	limit, err := c.limit(op)
	if err != nil {
		return err
	}
	var name [256]byte
	next := run{c.key(n.state(name[:0], &op.Key, w.tag)), 1, int64(limit), int64(w.t.Verb), max(op.Times, 1), op.Cost}
	if r := &c.run; r.count > 0 && next == (run{r.first + r.count, 1, r.limit, r.verb, r.times, r.cost}) {
		r.count++
	} else {
		c.endRun()
		c.run = next
	}
	c.work = append(c.work, w)
	return nil
}

// endRun makes an argument of what addFlat has put together.
func (c *call) endRun() {
	if c.run.count == 0 {
		return
	}
	c.buf = strconv.AppendInt(c.buf[:0], c.run.first, 10)
	for _, v := range [...]int64{c.run.count, c.run.limit, c.run.verb, c.run.times, c.run.cost} {
		c.int(',', v)
	}
	c.args = append(c.args, string(c.buf))
	c.run = run{}
}

// add encodes w. known are the spaces of its tag, for verb Forget.
func (c *call) add(n *names, w *work, known []string) (err error) {
	if c.flat {
		return c.addFlat(n, w)
	}
	t := w.t
	verb := int64(t.Verb)
	switch {
	case t.Verb == lapse:
		verb = 12
	case held(t) && t.Verb == driver.Take:
		verb = 11
	}
	c.buf = strconv.AppendInt(c.buf[:0], verb, 10)
	c.int(',', int64(t.Now))
	switch {
	case t.Verb == driver.Forget:
		c.forget(n, w, known)
	case verb == 11:
		err = c.takeOnce(n, w)
	case verb > 6:
		c.end(n, w)
	default:
		err = c.plain(n, w)
	}
	if err != nil {
		return err
	}
	c.args = append(c.args, string(c.buf))
	c.work = append(c.work, w)
	return nil
}

func (c *call) plain(n *names, w *work) error {
	var name [256]byte
	for i := range w.t.Ops {
		op := &w.t.Ops[i]
		place, err := c.limit(op)
		if err != nil {
			return err
		}
		more := max(op.Times, 1)
		if w.t.Verb == driver.Refund {
			more = int64(op.At)
		}
		c.int(';', c.key(n.state(name[:0], &op.Key, w.tag)))
		c.int(',', int64(place))
		c.int(',', op.Cost)
		c.int(',', more)
	}
	return nil
}

func (c *call) forget(n *names, w *work, known []string) {
	var name [256]byte
	c.int(',', c.headOf(n.spaces(w.tag)))
	c.int(',', int64(len(known)))
	for i := range w.t.Ops {
		k := &w.t.Ops[i].Key
		prefix := n.space(k.Space)
		for _, space := range known {
			if strings.HasPrefix(space, prefix) {
				c.int(';', c.key(n.place(append(name[:0], space...), k, w.tag)))
			}
		}
	}
}

// places are the record and the list of a hold.
func (c *call) places(n *names, w *work) {
	c.int(',', c.key([]byte(n.hold(w.t.ID, w.tag))))
	c.int(',', c.headOf(n.due(w.tag)[0]))
}

func (c *call) takeOnce(n *names, w *work) error {
	t := w.t
	c.places(n, w)
	flags := int64(0)
	if t.Hold {
		flags |= 1
	}
	if t.Return {
		flags |= 2
	}
	c.int(',', flags)
	c.int(',', int64(t.TTL))
	c.int(',', holder(t.ID))
	digest := t.Digest()
	c.buf = append(c.buf, ',')
	c.buf = hex.AppendEncode(c.buf, digest[:])
	var name [256]byte
	for i := range t.Ops {
		op := &t.Ops[i]
		place, err := c.limit(op)
		if err != nil {
			return err
		}
		c.int(';', c.key(n.state(name[:0], &op.Key, w.tag)))
		c.int(',', int64(place))
		c.int(',', op.Cost)
		for j, v := range rawNumbers(op) {
			c.int(",:"[min(j, 1)], *v)
		}
	}
	return nil
}

// end encodes the verbs that end or renew a hold.
func (c *call) end(n *names, w *work) {
	c.places(n, w)
	c.int(',', holder(w.t.ID))
	c.int(',', int64(w.t.TTL))
	c.buf = append(c.buf, ',')
	for i, a := range w.t.Amounts {
		if i > 0 {
			c.buf = append(c.buf, ':')
		}
		c.buf = strconv.AppendInt(c.buf, a, 10)
	}
	for i, key := range w.keys {
		c.int(';', c.key([]byte(key)))
		if len(w.sent) == len(w.keys) && w.sent[i].Kind == driver.Budget {
			for _, b := range w.sent[i].Bounds {
				c.int(',', int64(b))
			}
		}
	}
}

// holder names a hold in a state of slots: 1 to 2^53 − 1.
func holder(id string) int64 {
	h := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(h[:])>>11) | 1
}

// rawNumbers are the numbers of op that a record keeps as they were given.
func rawNumbers(op *driver.Op) [10]*int64 {
	m := func(n *driver.Micros) *int64 { return (*int64)(n) }
	return [...]*int64{&op.Size, &op.Rate, &op.Gain, &op.Unit, m(&op.Tick), m(&op.Span), m(&op.Bounds[0]), m(&op.Bounds[1]), m(&op.Bounds[2]), m(&op.Bounds[3])}
}

// cmd is c as a command.
func (c *call) cmd() Cmd {
	c.endRun()
	script := &plainScript
	switch {
	case c.holds:
		script = &holdScript
	case c.flat:
		script = &manyScript
	}
	args := make([]string, 0, 5+len(c.keys)+len(c.limits)+len(c.args))
	args = append(args, "EVALSHA", script.sha, strconv.Itoa(len(c.keys)))
	args = append(args, c.keys...)
	args = append(args, strconv.Itoa(c.heads), strconv.Itoa(len(c.limits)))
	args = append(args, c.limits...)
	args = append(args, c.args...)
	return Cmd{Args: args, Key: c.keys[0], Keys: len(c.keys), Script: script.text, Sure: c.writes}
}
