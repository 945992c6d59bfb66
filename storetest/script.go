package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/ration-go/ration/driver"
)

// A script turns commands into steps. As the clock is its own, every step is complete when it is read.
//
//	limit chat = bucket 10/1m burst 20     a bare limit; the word is only for the commands below
//	rule search = sliding 3/24h            the same, and its name is part of what is counted
//	namespace other                        for the commands that follow; "namespace" alone: the first one
//	at 10s, at 2026-03-29T01:00:00Z        sets the clock; +1.5s and -1s move it
//	caller 2026-01-01T00:00:00Z            the caller's clock, when it is not the store's; "caller" alone: the same
//	take KEY LIMIT COST [times N]          peek KEY LIMIT COST
//	take-all KEY:LIMIT:COST …              peek-all KEY:LIMIT:COST …
//	hit KEY WINDOW N                       refund KEY LIMIT N @TIME
//	reset KEY LIMIT                        forget KEY
//	batch … send                           what stands between goes in one call
//	repeat N SPAN COMMAND                  N times, with SPAN between; the answer is that of the last
//	sweep, restart
//
// With ids and holds:
//
//	once ID KEY LIMIT COST [ttl SPAN]      once-all ID KEY:LIMIT:COST … [ttl SPAN]
//	reserve ID KEY LIMIT COST [ttl SPAN] [return]
//	reserve-all ID KEY:LIMIT:COST … [ttl SPAN] [return]
//	settle ID [N …]                        progress ID [N …]
//	cancel ID                              renew ID [SPAN]
//	holds                                  those that are open
//
// An end names the limits of its hold, as whoever reserved it would; with by-id behind it, it does not.
//
// A KEY is a word or a quoted Go string; then *N repeats it and @GROUP, again a word or a string, places it. An ID is such a
// word without @.
type script struct {
	now, caller driver.Micros // caller 0: as now
	namespace   string
	limits      map[string]limit
	held        map[string]held
	batch       []part
	inBatch     bool
}

// A step is one call to the store, or something done to it.
type step struct {
	do    action
	parts []part // of applyBatch; else one, for its line
}

type action uint8

const (
	applyBatch action = iota
	sweepAll
	restartStore
	listHolds
)

// answers reports whether parts of st are answered.
func (st *step) answers() bool { return st.do == applyBatch || st.do == listHolds }

// A part is one command with its transaction.
type part struct {
	line   int // in its file
	text   string
	prose  string // what was said before it
	labels []string
	before []*driver.Txn // of repeat, whose answers are not looked at
	txn    *driver.Txn   // without the prefix that keeps runs apart
	now    driver.Micros
	want   []string

	held   []driver.Op // of the end of a hold: its ops, as far as is known
	anyOps bool        // nothing is
	byID   bool
}

func newScript() *script {
	return &script{now: base, limits: map[string]limit{}, held: map[string]held{}}
}

// command reads one command. It answers nil if there is nothing to do yet.
func (s *script) command(text string) (*step, error) {
	words, err := splitWords(text)
	if err != nil {
		return nil, err
	}
	name, args := words[0], words[1:]
	switch {
	case name[0] == '+' || name[0] == '-':
		args = words
		m, err := parseSpan(strings.TrimPrefix(name, "+"))
		if err != nil {
			return nil, err
		}
		s.now += m
		return nil, count(args, 1)
	case name == "limit" || name == "rule":
		return nil, s.declare(name == "rule", text)
	case name == "at":
		if err := count(args, 1); err != nil {
			return nil, err
		}
		s.now, err = parseInstant(args[0])
		return nil, err
	case name == "caller":
		if s.caller = 0; len(args) == 1 {
			s.caller, err = parseInstant(args[0])
		}
		return nil, err
	case name == "namespace":
		s.namespace = strings.Join(args, "")
		return nil, nil
	case name == "batch":
		if s.inBatch {
			return nil, errors.New("a batch within a batch")
		}
		s.inBatch = true
		return nil, nil
	case name == "send":
		st := &step{do: applyBatch, parts: s.batch}
		s.inBatch, s.batch = false, nil
		if len(st.parts) == 0 {
			return nil, nil
		}
		return st, nil
	case name == "sweep" || name == "restart" || name == "holds":
		if s.inBatch {
			return nil, fmt.Errorf("%s within a batch", name)
		}
		do := map[string]action{"sweep": sweepAll, "restart": restartStore, "holds": listHolds}[name]
		return &step{do: do, parts: []part{{text: text, now: s.now}}}, count(args, 0)
	}
	if name == "repeat" {
		return s.repeat(text, args)
	}
	p := part{text: text, now: s.now}
	if err := s.fill(&p, name, args); err != nil {
		return nil, err
	}
	p.txn.Now = s.now
	if s.inBatch {
		s.batch = append(s.batch, p)
		return nil, nil
	}
	return &step{do: applyBatch, parts: []part{p}}, nil
}

func (s *script) repeat(text string, args []string) (*step, error) {
	if len(args) < 3 || s.inBatch {
		return nil, errors.New("it is: repeat N SPAN COMMAND, and not within a batch")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > 100_000 {
		return nil, fmt.Errorf("%q is not how often to repeat", args[0])
	}
	span, err := parseSpan(args[1])
	if err != nil {
		return nil, err
	}
	p := part{text: text}
	for i := range n {
		if i > 0 {
			s.now += span
			p.before = append(p.before, p.txn)
		}
		if err := s.fill(&p, args[2], args[3:]); err != nil {
			return nil, err
		}
		p.txn.Now = s.now
	}
	p.now = s.now
	return &step{do: applyBatch, parts: []part{p}}, nil
}

func (s *script) declare(isRule bool, text string) error {
	_, text, _ = strings.Cut(text, " ")
	name, text, ok := strings.Cut(text, " = ")
	if !ok {
		return errors.New("a limit is declared as: limit NAME = TEXT")
	}
	rule := ""
	if isRule {
		rule = name
	}
	l, err := parseLimit(rule, text)
	s.limits[name] = l
	return err
}

func (s *script) callerNow() driver.Micros {
	if s.caller != 0 {
		return s.caller
	}
	return s.now
}

// fill sets p to a command that the store decides.
func (s *script) fill(p *part, name string, args []string) (err error) {
	if _, ok := holdVerbs[name]; ok {
		p.held = nil
		return s.holdPart(p, name, args)
	}
	p.txn, p.labels, err = s.txn(name, args)
	return err
}

func (s *script) txn(name string, args []string) (*driver.Txn, []string, error) {
	verbs := map[string]driver.Verb{
		"take": driver.Take, "peek": driver.Peek, "take-all": driver.Take, "peek-all": driver.Peek,
		"hit": driver.Hit, "refund": driver.Refund, "reset": driver.Reset, "forget": driver.Forget,
	}
	t := &driver.Txn{Verb: verbs[name]}
	if t.Verb == 0 {
		return nil, nil, fmt.Errorf("%q is not a command", name)
	}
	if strings.HasSuffix(name, "-all") {
		labels, err := s.list(t, args)
		return t, labels, err
	}
	if len(args) == 0 {
		return nil, nil, errors.New("no key")
	}
	key, rest, err := parseKey(args[0])
	if err == nil && rest != "" {
		err = fmt.Errorf("%q after a key", rest)
	}
	if err != nil {
		return nil, nil, err
	}
	key.Space = s.namespace
	args = args[1:]
	if name == "forget" {
		key.Space += "|" // all of this namespace
		t.Ops = []driver.Op{{Key: key}}
		return t, nil, count(args, 0)
	}
	if len(args) == 0 {
		return nil, nil, errors.New("no limit")
	}
	var l limit
	if name == "hit" {
		l.op.Kind, l.op.Key.Space = driver.Counter, space(driver.Counter, "", "")
		l.op.Span, err = parseSpan(args[0])
	} else {
		l, err = s.limit(args[0])
	}
	if err != nil {
		return nil, nil, err
	}
	args = args[1:]
	cost := int64(0)
	if name != "reset" {
		if len(args) == 0 {
			return nil, nil, errors.New("no number")
		}
		if cost, err = strconv.ParseInt(args[0], 10, 64); err != nil {
			return nil, nil, err
		}
		args = args[1:]
	}
	op := l.at(key, cost, s.callerNow())
	op.Key.Space = s.namespace + l.op.Key.Space
	switch {
	case op.Kind == driver.Slots && t.Verb != driver.Peek && t.Verb != driver.Reset:
		err = errNoSlots
	case name == "refund":
		if len(args) != 1 || args[0][0] != '@' {
			return nil, nil, errors.New("a refund says of when: @TIME")
		}
		op.At, err = parseInstant(args[0][1:])
	case name == "take" && len(args) == 2 && args[0] == "times":
		op.Times, err = strconv.ParseInt(args[1], 10, 64)
	default:
		err = count(args, 0)
	}
	t.Ops = []driver.Op{op}
	return t, nil, err
}

// list makes t of KEY:LIMIT:COST words.
func (s *script) list(t *driver.Txn, words []string) (labels []string, err error) {
	items, labels, err := s.items(words)
	for _, item := range items {
		if item.limit.op.Kind == driver.Slots && t.Verb != driver.Peek {
			return nil, errNoSlots
		}
		t.Ops = append(t.Ops, item.op(s.callerNow()))
	}
	return labels, err
}

var errNoSlots = errors.New("slots are held, so they are reserved")

// items reads KEY:LIMIT:COST words.
func (s *script) items(words []string) (items []heldItem, labels []string, err error) {
	if len(words) == 0 {
		return nil, nil, errors.New("an empty list")
	}
	for _, word := range words {
		key, rest, err := parseKey(word)
		if err != nil {
			return nil, nil, err
		}
		parts := strings.Split(rest, ":")
		if len(parts) != 3 || parts[0] != "" {
			return nil, nil, fmt.Errorf("%q is not KEY:LIMIT:COST", word)
		}
		l, err := s.limit(parts[1])
		if err != nil {
			return nil, nil, err
		}
		cost, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return nil, nil, err
		}
		key.Space = s.namespace
		item := heldItem{key: key, limit: l, cost: cost}
		if state := item.op(0).Key; slices.ContainsFunc(items, func(it heldItem) bool { return it.op(0).Key == state }) {
			return nil, nil, fmt.Errorf("%q means a state that the list has already", word)
		}
		items = append(items, item)
		labels = append(labels, strings.TrimSuffix(word, ":"+parts[2]))
	}
	return items, labels, nil
}

func (s *script) limit(name string) (limit, error) {
	l, ok := s.limits[name]
	if !ok {
		return l, fmt.Errorf("no limit %q was declared", name)
	}
	return l, nil
}

func count(args []string, want int) error {
	if len(args) != want {
		return fmt.Errorf("%d words after the command, not %d", len(args), want)
	}
	return nil
}

// splitWords cuts text at spaces outside of quoted strings.
func splitWords(text string) (words []string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimLeftFunc(text, unicode.IsSpace) {
		end := 0
		for end < len(text) && text[end] != ' ' {
			if text[end] != '"' {
				end++
				continue
			}
			quoted, err := strconv.QuotedPrefix(text[end:])
			if err != nil {
				return nil, fmt.Errorf("a string without an end in %q", text)
			}
			end += len(quoted)
		}
		words = append(words, text[:end])
		text = text[end:]
	}
	if len(words) == 0 {
		return nil, errors.New("no command")
	}
	return words, nil
}

// parseKey reads a key at the start of text and answers what follows it.
func parseKey(text string) (key driver.Key, rest string, err error) {
	if key.ID, rest, err = parseBytes(text); err != nil {
		return key, rest, err
	}
	if times, ok := strings.CutPrefix(rest, "*"); ok {
		end := strings.IndexFunc(times+" ", func(r rune) bool { return r < '0' || r > '9' })
		n, err := strconv.Atoi(times[:end])
		if err != nil || n < 1 || n > driver.MaxID {
			return key, rest, fmt.Errorf("%q does not say how often to repeat the key", rest)
		}
		key.ID, rest = strings.Repeat(key.ID, n), times[end:]
	}
	if group, ok := strings.CutPrefix(rest, "@"); ok {
		key.Group, rest, err = parseBytes(group)
	}
	if err == nil && (len(key.ID) == 0 || len(key.ID) > driver.MaxID || len(key.Group) > driver.MaxID) {
		err = fmt.Errorf("%q is not a key", text)
	}
	return key, rest, err
}

func parseBytes(text string) (value, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return "", text, err
		}
		value, err = strconv.Unquote(quoted)
		return value, text[len(quoted):], err
	}
	end := strings.IndexAny(text, ":@*\"")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], nil
}
