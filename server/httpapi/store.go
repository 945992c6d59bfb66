package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/verbs"
)

// apply decides a driver batch. What a store must not see becomes that transaction's own error; the others are decided.
func (h *handler) apply(ctx context.Context, asked *asked) (any, error) {
	txns, err := wire.Decode(asked.body)
	if err != nil {
		return nil, err
	}
	batch := make([]*driver.Txn, 0, len(txns))
	for i := range txns {
		t := &txns[i]
		h.route(t)
		if t.Err = wire.Check(t, &h.Info); t.Err == nil {
			t.Err = verbs.MayTxn(ctx, t)
		}
		if t.Err == nil {
			batch = append(batch, t)
		}
	}
	if len(batch) > 0 {
		ctx, cancel := context.WithTimeout(ctx, h.Timeout)
		defer cancel()
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, driver.ErrNotApplied)
		}
		if err := h.callStore(ctx, batch); err != nil {
			return nil, err
		}
		for _, t := range batch {
			verbs.RecordTxn(ctx, t)
		}
	}
	return wire.EncodeAnswers(txns)
}

func (h *handler) callStore(ctx context.Context, batch []*driver.Txn) error {
	if h.stored == nil || h.Info.Instant {
		return h.Store.Apply(ctx, batch)
	}
	call := ration.StoreCall{Start: time.Now(), Transactions: len(batch)}
	for _, t := range batch {
		call.Operations += len(t.Ops)
	}
	call.Err = h.Store.Apply(ctx, batch)
	call.Duration = time.Since(call.Start)
	h.stored(ctx, call)
	return call.Err
}

// route puts the place of its keys into the id of a Take, if the store has to know it: who asks from afar does not. The id
// of a hold has it already: it is the one that was answered.
func (h *handler) route(t *driver.Txn) {
	router, ok := h.Store.(driver.Router)
	if !ok || t.Verb != driver.Take || t.ID == "" || len(t.Ops) == 0 {
		return
	}
	if namespace, id, ok := strings.Cut(t.ID, "|"); ok {
		t.ID = namespace + "|" + router.Route(t.Ops[0].Key) + "." + id
	}
}

// holds lists a page of the store's open holds, of all namespaces.
func (h *handler) holds(ctx context.Context, asked *asked) (any, error) {
	var r wire.HoldsRequest
	if err := strictjson.Decode(asked.body, &r); err != nil {
		return nil, err
	}
	if r.Max < 0 || r.Max > wire.MaxHolds {
		return nil, verbs.At("/max", problem(codeInvalidNumber, fmt.Sprintf("this is not between 0 and %d", wire.MaxHolds)))
	}
	lister, ok := h.Store.(driver.HoldLister)
	if !ok || !h.Info.Caps.Has(driver.CapHolds) {
		return nil, fmt.Errorf("%w: the server's store does not list reservations", ration.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	most := int(cmp.Or(r.Max, wire.MaxHolds))
	list, more, err := verbs.Page(holdsFor(ctx, lister), func(hold *driver.Hold) string { return hold.ID }, string(r.After), most)
	if err != nil {
		return nil, errors.Join(err, driver.ErrNotApplied)
	}
	return wire.EncodeHolds(list, more)
}

// holdsFor are those that the caller in ctx may read.
func holdsFor(ctx context.Context, lister driver.HoldLister) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		for hold, err := range lister.Holds(ctx) {
			if err == nil && !verbs.MayReadHold(ctx, hold.ID) {
				continue
			}
			if !yield(hold, err) {
				return
			}
		}
	}
}

// sweep has the store remove what has expired.
func (h *handler) sweep(ctx context.Context, r *wire.SweepRequest) (a wire.SweepAnswer, err error) {
	if err := access.AllowAnywhere(ctx, access.Admin); err != nil {
		return a, verbs.Refused(err)
	}
	switch {
	case r.Max < 1 || r.Max > wire.MaxSweep:
		return a, verbs.At("/max", problem(codeInvalidNumber, fmt.Sprintf("this is not between 1 and %d", wire.MaxSweep)))
	case r.Now < 0 || r.Now > driver.MaxNow:
		return a, verbs.At("/now_us", problem(wire.CodeInvalidTime, "this is not after 1970 and before 2155"))
	}
	sweeper, ok := h.Store.(driver.Sweeper)
	if !ok {
		return a, fmt.Errorf("%w: the server's store is not swept", ration.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	dropped, err := sweeper.Sweep(ctx, r.Now, int(r.Max))
	if err != nil {
		return a, errors.Join(err, driver.ErrNotApplied)
	}
	return wire.SweepAnswer{Dropped: int64(dropped)}, nil
}

func (h *handler) health(ctx context.Context) (a healthAnswer, err error) {
	if err := h.Health(ctx); err != nil {
		return a, err
	}
	return healthAnswer{Status: "ok", Version: h.version}, nil
}
