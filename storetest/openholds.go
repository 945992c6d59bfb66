package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/ration-go/ration/driver"
)

// ownID is id, which p speaks of, in this run's namespace: with the route of its hold in front, on a store that has routes.
func (e *executor) ownID(p *part, id string) string {
	router, ok := e.store.(driver.Router)
	if !ok {
		return e.space + e.group + id
	}
	home := driver.Key{Space: "|c||", ID: "k"}
	if len(p.held) > 0 {
		home = p.held[0].Key
	}
	namespace, id, _ := strings.Cut(id, "|")
	return e.space + e.group + namespace + "|" + router.Route(e.ownKey(home)) + "." + id
}

// sameOps reports whether t, the answered p, has the ops of the hold that p is about.
func (e *executor) sameOps(p *part, t *driver.Txn) bool {
	if t.Verb <= driver.Forget || p.anyOps {
		return true
	}
	return slices.EqualFunc(t.Ops, p.held, func(a, b driver.Op) bool {
		return a.Key == e.ownKey(b.Key) && a.Kind == b.Kind
	})
}

// openHolds lists the holds of this run that are open at now, as lines of a case file. What has expired is left out: until
// a sweep or an end it may be listed or not.
func (e *executor) openHolds(now driver.Micros) (lines []string, err error) {
	lister, ok := e.store.(driver.HoldLister)
	if !ok {
		return nil, fmt.Errorf("the store is not a driver.HoldLister")
	}
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	for h, err := range lister.Holds(ctx) {
		if err != nil {
			return nil, fmt.Errorf("Holds failed: %w", err)
		}
		id, ours := strings.CutPrefix(h.ID, e.space+e.group)
		if ours && h.Expires > now {
			lines = append(lines, e.holdText(id, h))
		}
	}
	slices.Sort(lines)
	return append([]string{strconv.Itoa(len(lines)) + " open"}, lines...), nil
}

func (e *executor) holdText(id string, h driver.Hold) string {
	namespace, name, _ := strings.Cut(id, "|")
	if _, ok := e.store.(driver.Router); ok {
		_, name, _ = strings.Cut(name, ".")
	}
	if namespace != "" {
		namespace += "|"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s from %s to %s", namespace, wordText(name), instantText(h.At), instantText(h.Expires))
	for i := range h.Ops {
		op := &h.Ops[i]
		group := strings.TrimPrefix(op.Key.Group, e.group)
		if group != "" {
			group = "@" + wordText(group)
		}
		fmt.Fprintf(&b, " %s%s:%s:%d", wordText(op.Key.ID), group, kindNames[op.Kind], op.Cost)
	}
	if h.Return {
		b.WriteString(" return")
	}
	return b.String()
}

// wordText is text as a key or id of a case file.
func wordText(text string) string {
	plain := func(r rune) bool { return r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-') }
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return strconv.Quote(text)
}
