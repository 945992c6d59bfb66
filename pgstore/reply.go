package pgstore

import (
	"errors"
	"fmt"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// reply is what the function in the database answers.
type reply struct {
	clock int64
	wrote bool
	nums  []int64
	names [][]byte
}

// errReply says that the function answered what this version cannot read. Whether it charged is not known.
var errReply = errors.New("the reply of the database cannot be read")

// failures are the errors of a Txn by their number.
var failures = [...]error{nil, driver.ErrClock, driver.ErrOverflow, driver.ErrIDReused, driver.ErrNoHold, driver.ErrEnded, driver.ErrAmounts}

// What an answer consists of.
const (
	nothing   = 0
	states    = 1
	replayed  = 2
	flags     = 3
	afterHold = 10 // added to those
)

// take is the next n numbers; nil if there are not so many.
func (p *reply) take(n int) []int64 {
	if n < 0 || n > len(p.nums) {
		return nil
	}
	nums := p.nums[:n]
	p.nums = p.nums[n:]
	return nums
}

// answer fills in the results of q's transactions.
func (p *reply) answer(q *request) error {
	switch q.form {
	case formTakes:
		return p.takes(q)
	case formOne:
		return p.one(q.txns[0])
	}
	head := p.take(2)
	if head == nil {
		return errReply
	}
	p.clock, p.wrote = head[0], head[1] != 0
	for _, t := range q.txns {
		if err := p.txn(t); err != nil {
			return err
		}
	}
	if len(p.nums) != 0 {
		return errReply
	}
	return nil
}

func (p *reply) txn(t *driver.Txn) error {
	head := p.take(5)
	if head == nil || head[0] < 0 || head[0] >= int64(len(failures)) || head[4] < 0 || head[4] > driver.MaxOps {
		return errReply
	}
	t.Err, t.At, t.Allowed = failures[head[0]], driver.Micros(head[1]), head[2] != 0
	form, n := head[3], int(head[4])
	if form > afterHold {
		t.Ops = make([]driver.Op, n)
	}
	if form != nothing && n != len(t.Ops) {
		return fmt.Errorf("%w: %d ops", errReply, n)
	}
	for i := range n {
		op := &t.Ops[i]
		if form > afterHold {
			if err := p.heldOp(op); err != nil {
				return err
			}
		}
		var err error
		switch form % afterHold {
		case states:
			err = p.state(t, op)
		case replayed:
			err = p.replayed(op)
		default:
			err = p.flags(t, op)
		}
		if err != nil {
			return err
		}
	}
	if form == nothing && t.Err == nil { // Forget
		for i := range t.Ops {
			t.Ops[i].Result.Allowed = true
		}
	}
	if t.Verb == driver.Take && form == states && !t.Allowed && n > 1 {
		for i := range t.Ops {
			t.Ops[i].Result.Times = 0
		}
	}
	return nil
}

// heldOp reads an op as a hold keeps it.
func (p *reply) heldOp(op *driver.Op) error {
	nums := p.take(13)
	if nums == nil || nums[12] < 0 || nums[12] > int64(len(p.names))-3 {
		return errReply
	}
	*op = heldOp(nums, p.names[nums[12]:])
	return nil
}

// heldOp is the op of a hold: the numbers of its limit and its cost, and the parts of its key.
func heldOp(nums []int64, names [][]byte) driver.Op {
	return driver.Op{
		Key:  driver.Key{Space: string(names[0]), Group: string(names[1]), ID: string(names[2])},
		Kind: driver.Kind(nums[0]), Size: nums[1], Rate: nums[2], Gain: nums[3], Unit: nums[4], Tick: driver.Micros(nums[5]), Span: driver.Micros(nums[6]),
		Bounds: [4]driver.Micros{driver.Micros(nums[7]), driver.Micros(nums[8]), driver.Micros(nums[9]), driver.Micros(nums[10])},
		Cost:   nums[11],
	}
}

// state computes the answer of one op from the row that it left behind.
func (p *reply) state(t *driver.Txn, op *driver.Op) error {
	nums := p.take(9)
	if nums == nil || nums[8]%3 != 0 {
		return errReply
	}
	uses := p.take(int(nums[8]))
	if uses == nil && nums[8] != 0 {
		return errReply
	}
	st := arith.State{Level: nums[3], Unit: nums[4], Stamp: nums[5], Since: nums[6], Expires: nums[7], Uses: usesOf(uses)}
	var lim arith.Limit
	if err := driver.LimitOf(op, &lim); err != nil {
		return fmt.Errorf("%w: %w", errReply, err)
	}
	now := int64(t.At)
	if op.Kind == driver.Window && t.Verb > driver.Peek {
		now = nums[0] // a give-back may have removed the use that it was
	}
	view, _ := arith.Open(&st, &lim, now)
	res := &op.Result
	*res = driver.Result{Allowed: true, Given: nums[1]}
	switch t.Verb {
	case driver.Take, driver.Peek:
		res.Times, res.Allowed = nums[0], nums[2] != 0
		a := view.Answer(op.Cost, res.Allowed)
		res.Never, res.Used, res.RetryAfter, res.ResetAt = a.Never, a.Used, driver.Micros(a.RetryAfter), driver.Micros(a.ResetAt)
	case driver.Hit:
		res.Used, res.ResetAt = view.Used(), driver.Micros(view.ResetAt())
	case driver.Refund:
		res.Used = max(0, view.Used())
	case driver.Reset:
	default:
		if t.Verb >= driver.Progress {
			res.Allowed, res.Given = nums[2] != 0, 0
		}
		res.Used, res.ResetAt = max(0, view.Used()), driver.Micros(view.ResetAt())
		if now > int64(t.At) && int64(res.ResetAt) == now {
			res.ResetAt = t.At // no use counts
		}
		res.ResetAt = min(res.ResetAt, t.At+driver.Century)
	}
	return nil
}

// replayed reads what was answered before under the same id.
func (p *reply) replayed(op *driver.Op) error {
	nums := p.take(2)
	if nums == nil {
		return errReply
	}
	op.Result = driver.Result{Allowed: true, Times: 1, Used: nums[0], ResetAt: driver.Micros(nums[1])}
	return nil
}

// flags reads the answer of a hold that had ended before.
func (p *reply) flags(t *driver.Txn, op *driver.Op) error {
	nums := p.take(2)
	if nums == nil {
		return errReply
	}
	if t.Err == nil {
		op.Result = driver.Result{Allowed: nums[0] != 0, Given: nums[1]}
	}
	return nil
}
