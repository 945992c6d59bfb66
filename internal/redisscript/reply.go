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

// answer fills in the results of c's transactions, and answers those that were not decided, with what the first of them
// lacks.
func (c *call) answer(reply string) (rest []*driver.Txn, lacks string, err error) {
	r := reader{s: reply}
	clock := r.int(' ') * 1_000_000
	clock += r.int('\n')
	for i, t := range c.txns {
		if r.bad || r.s == "" {
			return nil, "", errReply
		}
		line := reader{s: r.word('\n')}
		code := line.int(' ')
		if code == stale {
			return c.txns[i:], line.s, nil
		}
		t.At = driver.Micros(clock)
		if t.Now != 0 {
			t.At = t.Now
		}
		if line.bad || code < 0 || code >= int64(len(failures)) {
			return nil, "", errReply
		}
		if t.Err = failures[code]; t.Err != nil {
			continue
		}
		if err := txnAnswer(t, &line); err != nil {
			return nil, "", err
		}
	}
	if r.s != "" || r.bad {
		return nil, "", errReply
	}
	return nil, "", nil
}

// txnAnswer reads the line of a transaction without a hold.
func txnAnswer(t *driver.Txn, line *reader) error {
	t.Allowed = true
	for i := range t.Ops {
		op := &t.Ops[i]
		if t.Verb == driver.Reset || t.Verb == driver.Forget {
			op.Result.Allowed = true
			continue
		}
		n := line.int(',')
		op.Result.Allowed = line.int(',') != 0
		t.Allowed = t.Allowed && op.Result.Allowed
		if err := opAnswer(t, op, n, line.word(' ')); err != nil {
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
func opAnswer(t *driver.Txn, op *driver.Op, n int64, row string) error {
	var st arith.State
	if !parseRow(&st, row) {
		return fmt.Errorf("%w: row %q", errReply, strings.ToValidUTF8(row[:min(len(row), 100)], "?"))
	}
	var lim arith.Limit
	if err := driver.LimitOf(op, &lim); err != nil {
		return fmt.Errorf("%w: %w", errReply, err)
	}
	view, _ := arith.Open(&st, &lim, int64(t.At))
	res := &op.Result
	switch t.Verb {
	case driver.Take, driver.Peek:
		res.Times = n
		a := view.Answer(op.Cost, res.Allowed)
		res.Never, res.Used, res.RetryAfter, res.ResetAt = a.Never, a.Used, driver.Micros(a.RetryAfter), driver.Micros(a.ResetAt)
	case driver.Hit:
		res.Used, res.ResetAt = view.Used(), driver.Micros(view.ResetAt())
	case driver.Refund:
		res.Given, res.Used = n, max(0, view.Used())
	}
	return nil
}
