package httpapi

import (
	"context"
	"errors"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// apply decides a driver batch. What a store must not see becomes that transaction's own error; the others are decided.
func (h *handler) apply(ctx context.Context, body []byte) (any, error) {
	txns, err := wire.Decode(body)
	if err != nil {
		return nil, err
	}
	batch := make([]*driver.Txn, 0, len(txns))
	for i := range txns {
		t := &txns[i]
		if t.Err = wire.Check(t, &h.info); t.Err == nil {
			batch = append(batch, t)
		}
	}
	if len(batch) > 0 {
		ctx, cancel := context.WithTimeout(ctx, h.timeout)
		defer cancel()
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, driver.ErrNotApplied)
		}
		if err := h.store.Apply(ctx, batch); err != nil {
			return nil, err
		}
	}
	return wire.EncodeAnswers(txns)
}

// health asks the store for a count that nobody makes, and so leaves it as it is.
func (h *handler) health(ctx context.Context) (a healthAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	kind, ok := h.healthKind()
	if ok {
		const second = 1_000_000
		t := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{{
			Key: driver.Key{Space: "|health||", ID: "health"}, Kind: kind, Size: 1, Rate: 1, Span: second, Cost: 1,
		}}}
		err := wire.Check(t, &h.info)
		if err == nil {
			err = h.store.Apply(ctx, []*driver.Txn{t})
		}
		if err == nil {
			err = t.Err
		}
		if err != nil {
			return a, errors.Join(err, driver.ErrNotApplied)
		}
	}
	return healthAnswer{Status: "ok", Version: h.version}, nil
}

// healthKind is a kind that the store keeps and that needs no calendar.
func (h *handler) healthKind() (driver.Kind, bool) {
	switch {
	case h.info.Caps.Has(driver.CapBucket):
		return driver.Bucket, true
	case h.info.Caps.Has(driver.CapWindow):
		return driver.Window, true
	case h.info.Caps.Has(driver.CapCounter):
		return driver.Counter, true
	}
	return 0, false
}
