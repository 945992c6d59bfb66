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
		case listHolds:
			n.caps |= driver.CapHolds
		}
		for _, p := range st.parts {
			if p.txn == nil {
				continue
			}
			if p.txn.Verb == driver.Forget {
				n.caps |= driver.CapForget
				continue
			}
			if p.txn.Hold || p.txn.Verb > driver.Forget {
				n.caps |= driver.CapHolds
			}
			if p.txn.ID != "" {
				n.caps |= driver.CapIDs
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

// runs numbers the uses of a store, so that many can share one without seeing each other.
var runs atomic.Int64

func runName() string { return "t" + strconv.FormatInt(runs.Add(1), 36) + "." }

// executor runs steps on one store.
type executor struct {
	store driver.Store
	again func(s driver.Store) driver.Store
	space string // before each Space: the namespace of this run
	group string // before each Group, for runs so many that they would make too many Spaces
	most  int    // transactions in one call
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
func onModel(m *model) *executor {
	same := func(s driver.Store) driver.Store { return s }
	return &executor{store: m, again: same, most: 100}
}

// fresh starts over, as if on an empty store. A Space of its own leaves keys without a group as they are.
func (e *executor) fresh(oneGroup bool) {
	e.space, e.group = runName(), ""
	if oneGroup {
		e.group = "one"
	}
}

// freshGroup starts over in a group of its own. Groups may be many, Spaces may not.
func (e *executor) freshGroup() { e.space, e.group = "random.", runName() }

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
	case listHolds:
		lines, err := e.openHolds(st.parts[0].now)
		return [][]string{lines}, err
	}
	var batch []*driver.Txn
	for i := range st.parts {
		p := &st.parts[i]
		for _, txn := range append(p.before, p.txn) {
			batch = append(batch, e.own(p, txn))
		}
	}
	for i := 0; i < len(batch); i += e.most {
		if err := apply(e.store, batch[i:min(i+e.most, len(batch))]...); err != nil {
			return nil, err
		}
	}
	batch = batch[len(batch)-len(st.parts):] // a part that repeats stands alone
	for i, txn := range batch {
		answer := answerTo(txn, st.parts[i].now)
		if txn.Err == nil && !e.sameOps(&st.parts[i], txn) {
			answer[0] += " on ops that are not those of the hold"
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// own is a copy of txn, of p, in this run's namespace.
func (e *executor) own(p *part, txn *driver.Txn) *driver.Txn {
	t := *txn
	t.Ops = slices.Clone(txn.Ops)
	for i := range t.Ops {
		t.Ops[i].Key = e.ownKey(t.Ops[i].Key)
	}
	if t.ID != "" {
		t.ID = e.ownID(p, txn.ID)
	}
	return &t
}

func (e *executor) ownKey(key driver.Key) driver.Key {
	key.Space, key.Group = e.space+key.Space, e.group+key.Group
	return key
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
	call := fmt.Sprintf("%s at %s", quote(d.part.text), instantText(d.part.now))
	if d.err != nil {
		return fmt.Sprintf("%s should answer %s, but the call failed: %v", call, quote(d.want...), d.err)
	}
	if len(d.want) == len(d.got) {
		for i := range d.want {
			if d.want[i] == d.got[i] {
				continue
			}
			of := ""
			if len(d.want) > 1 {
				of = fmt.Sprintf(" (line %d of its answer)", i+1)
			}
			return fmt.Sprintf("%s should answer %s, but the store answered %s%s", call, quote(d.want[i]), quote(d.got[i]), of)
		}
	}
	return fmt.Sprintf("%s should answer %s, but the store answered %s", call, quote(d.want...), quote(d.got...))
}

// quote marks off what stands in a case file, where keys have quotation marks of their own.
func quote(lines ...string) string {
	if len(lines) == 0 {
		return "nothing"
	}
	return "`" + strings.Join(lines, "; ") + "`"
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
			if st.answers() && !slices.Equal(p.want, p.labelled(answers[j])) {
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
