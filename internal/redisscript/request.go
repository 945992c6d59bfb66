package redisscript

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// call is one script call: transactions of one tag, or of any on a server that is no cluster.
type call struct {
	txns   []*driver.Txn
	tags   []int // of the keys that name spaces
	keys   []string
	limits []string
	args   []string // of each txn
	holds  bool
	writes bool

	buf      []byte
	lastLim  arith.Limit
	lastArgs int
}

// refuse says why t cannot be decided by any store of this version.
func refuse(t *driver.Txn) error {
	switch {
	case t.Verb == 0 || t.Verb > driver.Renew:
		return fmt.Errorf("%w: this store does not know verb %d", driver.ErrNotApplied, t.Verb)
	case t.Verb == driver.Peek || t.Verb == driver.Reset || t.Verb >= driver.Forget || t.Verb == driver.Take && t.ID != "":
		return nil
	case slices.ContainsFunc(t.Ops, func(op driver.Op) bool { return op.Kind == driver.Slots }):
		return fmt.Errorf("%w: slots are taken by a hold", driver.ErrNotApplied)
	}
	return nil
}

// tagOf is where t is decided. It fails if that is no one place.
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

func plainWrite(v driver.Verb) bool { return v != driver.Peek }

// key is the place of name among the keys of c.
func (c *call) key(name []byte) int {
	for i := len(c.tags); i < len(c.keys); i++ {
		if c.keys[i] == string(name) {
			return i + 1
		}
	}
	c.keys = append(c.keys, string(name))
	return len(c.keys)
}

// limit is the place of op's numbers among the limits of c.
func (c *call) limit(op *driver.Op) (int, error) {
	var l arith.Limit
	if err := driver.LimitOf(op, &l); err != nil {
		return 0, err
	}
	if l == c.lastLim && c.lastArgs > 0 {
		return c.lastArgs, nil
	}
	text := appendLimit(c.buf[len(c.buf):], &l)
	place := 0
	for i := range c.limits {
		if c.limits[i] == string(text) {
			place = i + 1
		}
	}
	if place == 0 {
		c.limits = append(c.limits, string(text))
		place = len(c.limits)
	}
	c.lastLim, c.lastArgs = l, place
	return place, nil
}

// appendLimit appends l as the scripts read it (core.lua, limit).
func appendLimit(b []byte, l *arith.Limit) []byte {
	b = append(b, " bwcms"[l.Kind])
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

// add encodes t, which is at tag.
func (c *call) add(n *names, t *driver.Txn, tag int, known []string) error {
	c.buf = strconv.AppendInt(c.buf[:0], int64(t.Verb), 10)
	c.int(',', int64(t.Now))
	var name [256]byte
	switch {
	case t.Verb == driver.Forget:
		c.int(',', int64(slices.Index(c.tags, tag)+1))
		c.int(',', int64(len(known)))
		for i := range t.Ops {
			k := &t.Ops[i].Key
			prefix := n.space(k.Space)
			for _, space := range known {
				if len(space) >= len(prefix) && space[:len(prefix)] == prefix {
					c.int(';', int64(c.key(n.place(append(name[:0], space...), k, tag))))
				}
			}
		}
	default:
		for i := range t.Ops {
			op := &t.Ops[i]
			place, err := c.limit(op)
			if err != nil {
				return err
			}
			more := max(op.Times, 1)
			if t.Verb == driver.Refund {
				more = int64(op.At)
			}
			c.int(';', int64(c.key(n.state(name[:0], &op.Key, tag))))
			c.int(',', int64(place))
			c.int(',', op.Cost)
			c.int(',', more)
		}
	}
	c.args = append(c.args, string(c.buf))
	c.txns = append(c.txns, t)
	return nil
}

// cmd is c as a command.
func (c *call) cmd() Cmd {
	s := &plainScript
	if c.holds {
		s = &holdScript
	}
	args := make([]string, 0, 5+len(c.keys)+len(c.limits)+len(c.args))
	args = append(args, "EVALSHA", s.sha, strconv.Itoa(len(c.keys)))
	args = append(args, c.keys...)
	args = append(args, strconv.Itoa(len(c.tags)), strconv.Itoa(len(c.limits)))
	args = append(args, c.limits...)
	args = append(args, c.args...)
	return Cmd{Args: args, Key: c.keys[0], Keys: len(c.keys), Sure: c.writes}
}

// withText makes cmd carry the script itself.
func (c *call) withText(cmd *Cmd) {
	cmd.Args[0], cmd.Args[1] = "EVAL", plainScript.text
	if c.holds {
		cmd.Args[1] = holdScript.text
	}
}
