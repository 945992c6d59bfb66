package pgstore

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// lapse is a Txn of the sweep's own: it ends the hold of its ID if that has expired.
const lapse = driver.Renew + 1

// request is a batch as a function in the database takes it.
type request struct {
	txns []*driver.Txn // those that are sent
	form form
	args []any // of the function, but for lax and the time to wait
	lax  bool  // the commit need not wait for the disk

	// Arguments of the function for all batches (schema/03_apply.sql).
	keys    [][]byte
	lims    []int64
	ops     []int64
	heads   []int64
	ids     [][]byte
	holds   []int64
	texts   [][]byte
	forgets [][]byte
	spaces  [][]byte

	fresh []string // the spaces behind spaces
	limit map[limit]int64
	last  limit
	place int64 // of last
}

// form is which of the functions serves a batch.
type form int

const (
	formApply form = iota // everything
	formTakes             // takes and peeks of one op each, on different keys
	formOne               // one of them alone
	forms
)

// functions are their statements, with the schema's name to be filled in.
var functions = [forms]string{
	formApply: "SELECT reply, names FROM %s.ration_apply_v1($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], " +
		"$5::bytea[], $6::bigint[], $7::bytea[], $8::bytea[], $9::bytea[], $10::boolean, $11::bigint)",
	formTakes: "SELECT %s.ration_take_v1($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], " +
		"$9::bigint[], $10::bigint, $11::boolean, $12::bigint)",
	formOne: "SELECT %s.ration_one_v1($1::bytea, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint[], $10::bigint, " +
		"$11::bigint, $12::boolean, $13::bigint)",
}

// newRequest takes over batch. A Txn that cannot be sent gets its error.
func newRequest(batch []*driver.Txn, known *spaces) *request {
	if len(batch) == 1 {
		if q := one(batch[0], known); q != nil {
			return q
		}
	}
	q := &request{
		txns: make([]*driver.Txn, 0, len(batch)), keys: make([][]byte, 0, len(batch)), lims: []int64{},
		ops: make([]int64, 0, 5*len(batch)), heads: make([]int64, 0, 7*len(batch)),
		ids: [][]byte{}, holds: []int64{}, texts: [][]byte{}, forgets: [][]byte{}, spaces: [][]byte{},
	}
	q.lax = true
	writes := false
	for _, t := range batch {
		if t.Err = refuse(t); t.Err != nil {
			continue
		}
		if t.Err = q.add(t); t.Err != nil {
			continue
		}
		if t.Verb != driver.Peek {
			writes = true
			q.lax = q.lax && t.Async && t.ID == ""
			q.newSpaces(t, known)
		}
	}
	q.lax = q.lax && writes && len(q.spaces) == 0
	q.sort()
	if !q.takes() {
		q.args = []any{q.keys, q.lims, q.ops, q.heads, q.ids, q.holds, q.texts, q.forgets, q.spaces}
	}
	return q
}

// refuse says why t cannot be decided by any store of this version.
func refuse(t *driver.Txn) error {
	switch {
	case t.Verb == 0 || t.Verb > lapse:
		return fmt.Errorf("%w: pgstore does not know verb %d", driver.ErrNotApplied, t.Verb)
	case t.Verb == driver.Peek || t.Verb == driver.Reset || t.Verb >= driver.Forget || t.Verb == driver.Take && t.ID != "":
		return nil
	case slices.ContainsFunc(t.Ops, func(op driver.Op) bool { return op.Kind == driver.Slots }):
		return fmt.Errorf("%w: slots are taken by a hold", driver.ErrNotApplied)
	}
	return nil
}

func (q *request) add(t *driver.Txn) error {
	hold := t.Verb > driver.Forget || t.Verb == driver.Take && t.ID != ""
	first := len(q.ops)/5 + 1
	head := [7]int64{int64(t.Verb), int64(t.Now), int64(first), int64(len(t.Ops)), 0, 0, 0}
	if t.Verb == driver.Forget {
		head[6] = int64(len(q.forgets) + 1)
	}
	for i := range t.Ops {
		op := &t.Ops[i]
		if t.Verb == driver.Forget {
			q.forgets = append(q.forgets, []byte(op.Key.Space), tail(op.Key))
			q.ops = append(q.ops, 0, 0, 0, 1, 0)
			continue
		}
		lim, err := q.lim(op)
		if err != nil {
			q.ops = q.ops[:5*(first-1)]
			return err
		}
		if t.Verb > driver.Forget { // only its bounds count
			q.ops = append(q.ops, 0, lim, 0, 1, 0)
			continue
		}
		q.keys = append(q.keys, rowKey(op.Key))
		q.ops = append(q.ops, int64(len(q.keys)), lim, op.Cost, max(op.Times, 1), int64(op.At))
	}
	if hold {
		flags := int64(0)
		if t.Hold {
			flags |= 1
		}
		if t.Return {
			flags |= 2
		}
		q.ids = append(q.ids, holdKey(t.ID))
		head[4], head[5], head[6] = int64(len(q.ids)), int64(len(q.holds)+1), int64(len(q.texts)+1)
		q.holds = append(q.holds, flags, int64(t.TTL), holder(t.ID), int64(len(t.Amounts)))
		q.holds = append(q.holds, t.Amounts...)
		digest := t.Digest()
		q.texts = append(q.texts, []byte(t.ID), digest[:])
		if t.Verb == driver.Take {
			for i := range t.Ops {
				k := &t.Ops[i].Key
				q.texts = append(q.texts, []byte(k.Space), []byte(k.Group), []byte(k.ID))
			}
		}
	}
	q.heads = append(q.heads, head[:]...)
	q.txns = append(q.txns, t)
	return nil
}

// limit is the numbers of a limit: kind, size, rate, gain, unit, tick, span, four bounds.
type limit [11]int64

func limitOf(op *driver.Op) (limit, error) {
	var l arith.Limit
	if err := driver.LimitOf(op, &l); err != nil {
		return limit{}, err
	}
	return limit{int64(op.Kind), op.Size, op.Rate, l.Gain, l.Unit, l.Tick, int64(op.Span), l.Bounds[0], l.Bounds[1], l.Bounds[2], l.Bounds[3]}, nil
}

// lim is the place of op's limit among lims.
func (q *request) lim(op *driver.Op) (int64, error) {
	nums, err := limitOf(op)
	if err != nil {
		return 0, err
	}
	if q.place > 0 && nums == q.last {
		return q.place, nil
	}
	place, ok := q.limit[nums]
	if !ok {
		q.lims = append(q.lims, nums[:]...)
		place = int64(len(q.lims) / len(nums))
		if q.limit == nil {
			q.limit = make(map[limit]int64)
		}
		q.limit[nums] = place
	}
	q.last, q.place = nums, place
	return place, nil
}

func (q *request) newSpaces(t *driver.Txn, known *spaces) {
	if t.Verb > driver.Refund {
		return
	}
	for i := range t.Ops {
		space := t.Ops[i].Key.Space
		if !known.has(space) && !slices.Contains(q.fresh, space) {
			q.fresh = append(q.fresh, space)
			q.spaces = append(q.spaces, prefix(space))
		}
	}
}

// sort puts keys and ids in order, each once: the order in which the database locks them.
func (q *request) sort() {
	if len(q.keys) > 1 {
		var places []int64
		q.keys, places = sorted(q.keys)
		for i := 0; i < len(q.ops); i += 5 {
			if p := q.ops[i]; p > 0 {
				q.ops[i] = places[p-1]
			}
		}
	}
	if len(q.ids) > 1 {
		var places []int64
		q.ids, places = sorted(q.ids)
		for i := 4; i < len(q.heads); i += 7 {
			if p := q.heads[i]; p > 0 {
				q.heads[i] = places[p-1]
			}
		}
	}
}

// sorted is keys in order, each once, and for each of keys its place there, from 1.
func sorted(keys [][]byte) (out [][]byte, places []int64) {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(keys[a], keys[b]) })
	out, places = make([][]byte, 0, len(keys)), make([]int64, len(keys))
	for _, i := range order {
		if len(out) == 0 || !bytes.Equal(out[len(out)-1], keys[i]) {
			out = append(out, keys[i])
		}
		places[i] = int64(len(out))
	}
	return out, places
}
