package pgstore

import (
	"fmt"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// one is the request for t alone, if it is a plain take or peek.
func one(t *driver.Txn, known *spaces) *request {
	if t.Verb > driver.Peek || t.Verb == 0 || len(t.Ops) != 1 || t.ID != "" {
		return nil
	}
	op := &t.Ops[0]
	if op.Kind == driver.Slots || t.Verb == driver.Take && !known.has(op.Key.Space) {
		return nil
	}
	lim, err := limitOf(op)
	if err != nil {
		return nil
	}
	brim, per, gain, unit, tick := op.Size, op.Cost, int64(0), int64(0), int64(0)
	if op.Kind == driver.Bucket {
		gain, unit, tick = lim[3], lim[4], lim[5]
		brim, per = brim*unit, per*unit
	}
	if op.Cost > op.Size {
		per = -1
	}
	var bounds []int64
	if op.Kind == driver.Budget {
		bounds = lim[7:]
	}
	times := max(op.Times, 1)
	if t.Verb == driver.Peek {
		times = -times
	}
	return &request{
		txns: []*driver.Txn{t}, form: formOne, lax: t.Async && t.Verb == driver.Take,
		args: []any{rowKey(op.Key), int64(op.Kind), brim, per, gain, unit, tick, int64(op.Span), bounds, times, int64(t.Now)},
	}
}

// takes makes the arguments of the function for plain takes (schema/04_take.sql), if q is made of nothing else.
func (q *request) takes() bool {
	if len(q.fresh) > 0 || len(q.ids) > 0 || len(q.keys) != len(q.txns) || len(q.ops) != 5*len(q.txns) {
		return false
	}
	n := len(q.txns)
	columns := make([]int64, 7*n) // in one piece
	column := func(i int) []int64 { return columns[i*n : (i+1)*n : (i+1)*n] }
	brims, pers, gains, units, ticks, times, places := column(0), column(1), column(2), column(3), column(4), column(5), column(6)
	single, buckets := true, true
	for i, t := range q.txns {
		op := q.ops[5*i : 5*i+5]
		k, place := op[0]-1, int64(len(limit{}))*(op[1]-1)
		lim := limit(q.lims[place:])
		if t.Verb > driver.Peek || t.Now != q.txns[0].Now {
			return false
		}
		brims[k], pers[k] = lim[1], op[2]
		switch t.Ops[0].Kind {
		case driver.Bucket:
			brims[k], pers[k] = lim[1]*lim[4], op[2]*lim[4]
			gains[k], units[k], ticks[k] = lim[3], lim[4], lim[5]
		case driver.Counter, driver.Budget:
			buckets = false
		default:
			return false
		}
		if op[2] > lim[1] {
			pers[k] = -1
		}
		if times[k], places[k] = op[3], place; t.Verb == driver.Peek {
			times[k] = -op[3]
		}
		single = single && times[k] == 1
	}
	lims := q.lims
	if single {
		times = times[:0]
	}
	if buckets {
		lims, places = lims[:0], places[:0]
	}
	q.form, q.args = formTakes, []any{q.keys, brims, pers, gains, units, ticks, times, lims, places, int64(q.txns[0].Now)}
	return true
}

// takes fills in the results of q's transactions from the reply of that function.
func (p *reply) takes(q *request) error {
	head := p.take(8)
	if head == nil {
		return errReply
	}
	p.clock, p.wrote = head[0], head[1] != 0
	rows := make([][]int64, len(q.keys))
	for len(p.nums) > 0 {
		row := p.take(8)
		if row == nil || row[0] < 1 || row[0] > int64(len(rows)) || rows[row[0]-1] != nil {
			return errReply
		}
		rows[row[0]-1] = row[1:]
	}
	for i, t := range q.txns {
		row := rows[q.ops[5*i]-1]
		if row == nil {
			return errReply
		}
		if err := p.taken(t, row, nil); err != nil {
			return err
		}
	}
	return nil
}

// one fills in the result of a take that was sent alone.
func (p *reply) one(t *driver.Txn) error {
	row := p.take(9)
	if row == nil || len(p.nums)%3 != 0 {
		return errReply
	}
	p.clock, p.wrote = row[0], row[1] != 0
	return p.taken(t, row[2:], p.nums)
}

// taken answers t, a take or peek of one op, from the row that it left behind.
func (p *reply) taken(t *driver.Txn, row, uses []int64) error {
	if t.At = driver.Micros(p.clock); t.Now != 0 {
		t.At = t.Now
	}
	if row[0] == 1 {
		t.Err = driver.ErrClock
		return nil
	}
	op := &t.Ops[0]
	var lim arith.Limit
	if err := driver.LimitOf(op, &lim); err != nil {
		return fmt.Errorf("%w: %w", errReply, err)
	}
	st := arith.State{Level: row[2], Unit: row[3], Stamp: row[4], Since: row[5], Expires: row[6], Uses: usesOf(uses)}
	view, _ := arith.Open(&st, &lim, int64(t.At))
	t.Allowed = row[1] == max(op.Times, 1)
	a := view.Answer(op.Cost, t.Allowed)
	op.Result = driver.Result{
		Allowed: t.Allowed, Never: a.Never, Times: row[1], Used: a.Used,
		RetryAfter: driver.Micros(a.RetryAfter), ResetAt: driver.Micros(a.ResetAt),
	}
	return nil
}

// usesOf reads the uses of a row: times, then costs, then windows.
func usesOf(nums []int64) []arith.Use {
	n := len(nums) / 3
	if n == 0 {
		return nil
	}
	uses := make([]arith.Use, n)
	for i := range uses {
		uses[i] = arith.Use{At: nums[i], Cost: nums[n+i], Window: nums[2*n+i]}
	}
	return uses
}
