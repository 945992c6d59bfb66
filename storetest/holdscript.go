package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ration-go/ration/driver"
)

// holdVerbs are the commands about ids and holds.
var holdVerbs = map[string]driver.Verb{
	"once": driver.Take, "once-all": driver.Take, "reserve": driver.Take, "reserve-all": driver.Take,
	"settle": driver.Settle, "cancel": driver.Cancel, "progress": driver.Progress, "renew": driver.Renew,
}

// held is what a script knows of the reservation under an id: as much as whoever made it.
type held struct {
	items  []heldItem
	labels []string
	mixed  bool // several were asked for under the id, so nobody knows which it is
}

type heldItem struct {
	key   driver.Key // with the namespace as its Space
	limit limit
	cost  int64
}

func (h held) keys() (all []driver.Key) {
	for _, item := range h.items {
		all = append(all, item.op(0).Key)
	}
	return all
}

func (it heldItem) op(caller driver.Micros) driver.Op {
	op := it.limit.at(it.key, it.cost, caller)
	op.Key.Space = it.key.Space + it.limit.op.Key.Space
	return op
}

// holdTTL is the life of holds and ids for which none is given: ten minutes.
const holdTTL = driver.Micros(600e6)

// holdPart reads a command about an id: what it does, and for the end of a hold what is known of that.
func (s *script) holdPart(p *part, name string, args []string) error {
	if len(args) == 0 {
		return errors.New("no id")
	}
	word, rest, err := parseKey(args[0])
	if err == nil && (rest != "" || word.Group != "") {
		err = fmt.Errorf("%q is not an id", args[0])
	}
	if err != nil {
		return err
	}
	p.txn = &driver.Txn{Verb: holdVerbs[name], ID: s.namespace + "|" + word.ID}
	if p.txn.Verb == driver.Take {
		p.txn.Hold = name == "reserve" || name == "reserve-all"
		return s.reserve(p, name, args[1:])
	}
	return s.endHold(p, name, args[1:])
}

// reserve reads what follows the id of a charge that is made once.
func (s *script) reserve(p *part, name string, args []string) (err error) {
	t := p.txn
	t.TTL = holdTTL
	for {
		if n := len(args); n > 0 && args[n-1] == "return" && t.Hold && !t.Return {
			t.Return, args = true, args[:n-1]
		} else if n > 1 && args[n-2] == "ttl" && t.TTL == holdTTL {
			if t.TTL, err = parseSpan(args[n-1]); err != nil {
				return err
			}
			args = args[:n-2]
		} else {
			break
		}
	}
	if name == "once" || name == "reserve" {
		if err := count(args, 3); err != nil {
			return err
		}
		args = []string{args[0] + ":" + args[1] + ":" + args[2]}
	}
	items, labels, err := s.items(args)
	if err != nil {
		return err
	}
	for _, item := range items {
		if item.limit.op.Kind == driver.Slots && !t.Hold {
			return errNoSlots
		}
		t.Ops = append(t.Ops, item.op(s.callerNow()))
	}
	if p.labels = labels; len(labels) < 2 {
		p.labels = nil
	}
	now := held{items: items, labels: p.labels}
	if old, known := s.held[t.ID]; known {
		now = old
		now.mixed = old.mixed || !slices.Equal(old.keys(), held{items: items}.keys())
	}
	s.held[t.ID], p.held = now, t.Ops
	return nil
}

// endHold reads what follows the id of a reservation that is ended or goes on.
func (s *script) endHold(p *part, name string, args []string) (err error) {
	t := p.txn
	known := s.held[t.ID]
	for _, item := range known.items {
		p.held = append(p.held, item.op(s.callerNow()))
	}
	p.labels, p.anyOps = known.labels, known.mixed || len(known.items) == 0
	if n := len(args); n > 0 && args[n-1] == "by-id" {
		args, p.byID = args[:n-1], true
	}
	if !p.byID && !p.anyOps {
		t.Ops = slices.Clone(p.held)
	}
	if known.mixed {
		p.labels = nil
	}
	switch name {
	case "settle", "progress":
		for _, arg := range args {
			n, err := strconv.ParseInt(arg, 10, 64)
			if err != nil || n < 0 || n > driver.MaxNumber {
				return fmt.Errorf("%q is not an amount", arg)
			}
			t.Amounts = append(t.Amounts, n)
		}
		return nil
	case "renew":
		if len(args) > 0 {
			t.TTL, err = parseSpan(args[0])
			args = args[1:]
		}
	}
	if err == nil {
		err = count(args, 0)
	}
	return err
}
