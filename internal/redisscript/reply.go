package redisscript

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// errReply says that a script answered what this version cannot read. Whether it charged is not known.
var errReply = errors.New("the reply of the script cannot be read")

// failures are the errors of a Txn by their number.
var failures = [...]error{nil, driver.ErrClock, driver.ErrOverflow, driver.ErrIDReused, driver.ErrNoHold, driver.ErrEnded, driver.ErrAmounts, driver.ErrCorrupt}

// stale is a script's answer to a transaction that came without all its keys. It and those after it are not decided.
const stale = 20

// replayed is that to a Take under an id that was used for the same before.
const replayed = 21

// answer fills in the results of c's transactions, and answers those that were not decided, with what the first of them
// lacks.
func (c *call) answer(n *names, reply string) (rest []*work, lacks string, err error) {
	r := reader{s: reply}
	clock := r.int(' ') * 1_000_000
	clock += r.int('\n')
	for i, w := range c.work {
		if r.bad || r.s == "" {
			return nil, "", errReply
		}
		t := w.t
		line := reader{s: r.word('\n')}
		code := line.int(' ')
		if code == stale {
			return c.work[i:], line.s, nil
		}
		t.At = driver.Micros(clock)
		if t.Now != 0 {
			t.At = t.Now
		}
		switch {
		case line.bad || code < 0 || code >= int64(len(failures)) && code != replayed:
			err = errReply
		case code == replayed:
			err = replay(t, &line)
		default:
			t.Err = failures[code]
			switch {
			case t.Verb > driver.Forget && t.Verb < lapse && line.s != "":
				err = n.endAnswer(w, &line)
			case t.Err == nil && t.Verb != lapse:
				err = txnAnswer(t, &line, &c.view)
			}
		}
		if err != nil {
			return nil, "", err
		}
	}
	if r.s != "" || r.bad {
		return nil, "", errReply
	}
	return nil, "", nil
}

// txnAnswer reads the line of a transaction without a hold.
func txnAnswer(t *driver.Txn, line *reader, v *viewed) error {
	t.Allowed = true
	for i := range t.Ops {
		op := &t.Ops[i]
		if t.Verb == driver.Reset || t.Verb == driver.Forget {
			op.Result.Allowed = true
			continue
		}
		n := line.int(',')
		if t.Verb == driver.Refund {
			op.Result = driver.Result{Allowed: true, Given: n, Used: line.int(' ')}
			continue
		}
		op.Result.Allowed = line.int(',') != 0
		t.Allowed = t.Allowed && op.Result.Allowed
		if err := opAnswer(t, op, n, line.word(' '), v); err != nil {
			return err
		}
		if line.bad {
			return errReply
		}
	}
	if line.s != "" {
		return errReply
	}
	return nil
}

// opAnswer computes the answer of one op from the row that it left behind.
func opAnswer(t *driver.Txn, op *driver.Op, n int64, row string, v *viewed) error {
	if len(row) > 0 && row[0] == 'v' {
		return windowAnswer(t, op, n, row[1:])
	}
	view, err := v.open(t, op, row)
	if err != nil {
		return err
	}
	res := &op.Result
	switch t.Verb {
	case driver.Take, driver.Peek:
		res.Times = n
		a := view.Answer(op.Cost, res.Allowed)
		res.Never, res.Used, res.RetryAfter, res.ResetAt = a.Never, a.Used, driver.Micros(a.RetryAfter), driver.Micros(a.ResetAt)
	case driver.Hit:
		res.Used, res.ResetAt = view.Used(), driver.Micros(view.ResetAt())
	}
	return nil
}

// replay reads what was answered before under the same id.
func replay(t *driver.Txn, line *reader) error {
	t.At, t.Allowed = driver.Micros(line.int(' ')), true
	for i := range t.Ops {
		used, reset := line.int(','), line.int(',')
		line.word(' ')
		t.Ops[i].Result = driver.Result{Allowed: true, Times: 1, Used: used, ResetAt: driver.Micros(reset)}
	}
	if line.bad || line.s != "" {
		return errReply
	}
	return nil
}

// endAnswer reads the line of a transaction on a hold: whether it is allowed, for each op what went back, whether it fits,
// what is used and when that is over, and the record.
func (n *names) endAnswer(w *work, line *reader) error {
	t := w.t
	t.Allowed = line.int(' ') != 0
	results := reader{s: line.word('!')}
	rec, ok := n.parseRecord(line.s)
	if !ok {
		return errReply
	}
	t.Ops = rec.ops
	for i := range t.Ops {
		op := &t.Ops[i]
		op.Result = driver.Result{}
		if len(w.sent) == len(t.Ops) && w.sent[i].Kind == driver.Budget {
			op.Bounds = w.sent[i].Bounds
		}
		if results.s == "" {
			continue
		}
		op.Result.Given, op.Result.Allowed = results.int(','), results.int(',') != 0
		op.Result.Used, op.Result.ResetAt = results.int(','), driver.Micros(results.int(' '))
	}
	if results.bad || results.s != "" || line.bad {
		return errReply
	}
	return nil
}

// viewed is room for a state and a limit.
type viewed struct {
	st  arith.State
	lim arith.Limit
}

// open is the state in a row as op's limit sees it.
func (v *viewed) open(t *driver.Txn, op *driver.Op, row string) (view arith.View, err error) {
	if !parseRow(&v.st, row) {
		return view, fmt.Errorf("%w: row %q", errReply, strings.ToValidUTF8(row[:min(len(row), 100)], "?"))
	}
	v.lim = arith.Limit{}
	if err := driver.LimitOf(op, &v.lim); err != nil {
		return view, fmt.Errorf("%w: %w", errReply, err)
	}
	view, _ = arith.Open(&v.st, &v.lim, int64(t.At))
	return view, nil
}

// windowAnswer reads what is answered of a sliding window instead of its row: what is used, when the last use is over, and
// when there is room.
func windowAnswer(t *driver.Txn, op *driver.Op, n int64, text string) error {
	r := reader{s: text}
	used, reset, room := r.int(','), driver.Micros(r.int(',')), driver.Micros(r.int(0))
	if r.bad || r.s != "" {
		return errReply
	}
	res := &op.Result
	res.Times, res.Never, res.Used = n, op.Cost > op.Size, used
	res.ResetAt = min(max(reset, t.At), t.At+driver.Century)
	if !res.Allowed {
		wait := op.Span
		if !res.Never {
			wait = room - t.At
		}
		res.RetryAfter = min(max(wait, 1), driver.Century)
	}
	return nil
}
