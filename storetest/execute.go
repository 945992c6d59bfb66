package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/ration-go/ration/driver"
)

// needs is what a list of steps asks of a store.
type needs struct {
	caps             driver.Caps
	restart, sweep   bool
	groups, twoLists bool // lists over several groups
}

func needsOf(steps []step) (n needs) {
	for _, st := range steps {
		switch st.do {
		case sweepAll:
			n.sweep = true
		case restartStore:
			n.restart = true
		}
		for _, p := range st.parts {
			if p.txn == nil {
				continue
			}
			if p.txn.Verb == driver.Forget {
				n.caps |= driver.CapForget
				continue
			}
			if len(p.txn.Ops) > 1 {
				n.caps |= driver.CapList
			}
			for _, op := range p.txn.Ops {
				n.caps |= kindCaps[op.Kind]
				n.groups = n.groups || op.Key.Group != p.txn.Ops[0].Key.Group
			}
		}
	}
	return n
}

// missing says what s lacks for steps that need n; "" if nothing.
func (n needs) missing(s *suite) string {
	switch {
	case n.caps&^s.info.Caps != 0:
		return "the store does not claim " + capNames(n.caps&^s.info.Caps)
	case n.restart && s.h.Again == nil:
		return "Harness.Again is not set"
	case n.groups && s.info.OneGroup:
		return "the store decides only keys of one group together"
	}
	return ""
}

// spaces gives every run of some steps a namespace of its own, so that many can use one store.
var spaces atomic.Int64

// executor runs steps on one store.
type executor struct {
	store  driver.Store
	again  func(s driver.Store) driver.Store
	prefix string
	group  string // of keys that name none, on a store that wants one
	most   int    // transactions in one call
}

func (s *suite) executor(t scope, store driver.Store) *executor {
	e := &executor{store: store, again: func(old driver.Store) driver.Store { return s.h.Again(t, old) }, most: s.maxBatch()}
	e.fresh(s.info.OneGroup)
	return e
}

// maxBatch is how many transactions go in one call at most. A store that gains nothing by batches still decides them.
func (s *suite) maxBatch() int {
	if s.info.MaxBatch > 1 {
		return min(s.info.MaxBatch, 100)
	}
	return 100
}

// onModel is an executor on a model.
func onModel(m *model) *executor { return &executor{store: m, most: 100} }

// fresh starts over, as if on an empty store.
func (e *executor) fresh(oneGroup bool) {
	e.prefix = "t" + strconv.FormatInt(spaces.Add(1), 36) + "."
	if oneGroup {
		e.group = "one"
	}
}

// do runs one step and answers what each of its parts was answered.
func (e *executor) do(st *step) (answers [][]string, err error) {
	switch st.do {
	case sweepAll:
		if sweeper, ok := e.store.(driver.Sweeper); ok {
			return nil, sweepUntilDone(sweeper, st.parts[0].now)
		}
		return nil, nil // then nothing is ever swept, or by itself
	case restartStore:
		e.store = e.again(e.store)
		return nil, nil
	}
	var batch []*driver.Txn
	for _, p := range st.parts {
		for _, txn := range append(p.before, p.txn) {
			batch = append(batch, e.own(txn))
		}
	}
	for i := 0; i < len(batch); i += e.most {
		if err := apply(e.store, batch[i:min(i+e.most, len(batch))]...); err != nil {
			return nil, err
		}
	}
	if last := len(batch) - 1; len(st.parts) == 1 {
		batch = batch[last:]
	}
	for _, txn := range batch {
		answers = append(answers, answerTo(txn))
	}
	return answers, nil
}

// own is a copy of txn in this run's namespace.
func (e *executor) own(txn *driver.Txn) *driver.Txn {
	t := *txn
	t.Ops = slices.Clone(txn.Ops)
	for i := range t.Ops {
		key := &t.Ops[i].Key
		key.Space = e.prefix + key.Space
		if key.Group == "" {
			key.Group = e.group
		}
	}
	return &t
}

const sweepStep = 100

// sweepUntilDone sweeps in steps until there is nothing left.
func sweepUntilDone(s driver.Sweeper, now driver.Micros) error {
	for range 100_000 {
		ctx, cancel := context.WithTimeout(context.Background(), applyTime)
		n, err := s.Sweep(ctx, now, sweepStep)
		cancel()
		switch {
		case err != nil:
			return fmt.Errorf("Sweep failed: %w", err)
		case n < 0 || n > sweepStep:
			return fmt.Errorf("Sweep of at most %d says that it removed %d", sweepStep, n)
		case n == 0:
			return nil
		}
	}
	return fmt.Errorf("Sweep found something to remove %d times", 100_000)
}

// A difference is where a store answered something else than expected.
type difference struct {
	part      part
	want, got []string
	err       error
}

// sentence explains d.
func (d *difference) sentence() string {
	call := fmt.Sprintf("%q at %s", d.part.text, instantText(d.part.now))
	if d.err != nil {
		return fmt.Sprintf("%s should answer %s, but the call failed: %v", call, quoteAll(d.want), d.err)
	}
	for i := range min(len(d.want), len(d.got)) {
		if d.want[i] != d.got[i] {
			of := ""
			if len(d.want) > 1 {
				of = fmt.Sprintf(" (line %d of its answer)", i+1)
			}
			return fmt.Sprintf("%s should answer %q, but the store answered %q%s", call, d.want[i], d.got[i], of)
		}
	}
	return fmt.Sprintf("%s should answer %s, but the store answered %s", call, quoteAll(d.want), quoteAll(d.got))
}

func quoteAll(lines []string) string {
	if len(lines) == 0 {
		return "without error"
	}
	return strconv.Quote(strings.Join(lines, "; "))
}

// firstDifference runs steps and compares with what they want.
func (e *executor) firstDifference(steps []step) *difference {
	for i := range steps {
		st := &steps[i]
		answers, err := e.do(st)
		for j, p := range st.parts {
			if err != nil {
				return &difference{part: p, want: p.want, err: err}
			}
			if st.do == applyBatch && !slices.Equal(p.want, p.labelled(answers[j])) {
				return &difference{part: p, want: p.want, got: p.labelled(answers[j])}
			}
		}
	}
	return nil
}

// labelled puts the key and limit before each line of a list's answer.
func (p *part) labelled(answer []string) []string {
	if len(answer) != len(p.labels)+1 || len(p.labels) < 2 {
		return answer
	}
	lines := slices.Clone(answer)
	for i, label := range p.labels {
		lines[i+1] = label + " " + lines[i+1]
	}
	return lines
}
