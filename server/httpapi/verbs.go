package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// keyAndLimit is who and what, as most verbs want them.
func (h *handler) keyAndLimit(k *keyFields, f *limitFields) (key ration.Key, limit ration.Limit, err error) {
	if key, err = k.key(); err != nil {
		return key, nil, err
	}
	if limit, err = h.limit(f); err != nil {
		return key, nil, at("/limit", err)
	}
	return key, limit, nil
}

func (h *handler) take(ctx context.Context, r *takeRequest) (a decisionAnswer, err error) {
	if r.ID == nil {
		return h.decide(ctx, &r.charge, h.limiter.Take)
	}
	if err := checkID(*r.ID); err != nil {
		return a, err
	}
	return h.decide(ctx, &r.charge, func(ctx context.Context, key ration.Key, limit ration.Limit, cost int64) (ration.Decision, error) {
		o, err := h.limiter.TakeOnce(ctx, *r.ID, key.Charge(limit, cost))
		return o.Decision, err
	})
}

func (h *handler) peek(ctx context.Context, r *charge) (decisionAnswer, error) {
	a, err := h.decide(ctx, r, h.limiter.Peek)
	if err != nil && wire.CodeOf(err) == wire.CodeOutcomeUnknown {
		err = fmt.Errorf("%w: %w", driver.ErrNotApplied, err) // whatever happened, nothing can have been charged
	}
	return a, err
}

type verb func(ctx context.Context, key ration.Key, limit ration.Limit, cost int64) (ration.Decision, error)

func (h *handler) decide(ctx context.Context, r *charge, do verb) (a decisionAnswer, err error) {
	key, limit, err := h.keyAndLimit(&r.keyFields, &r.limitFields)
	if err != nil {
		return a, err
	}
	d, err := do(ctx, key, limit, or(r.Cost, 1))
	if err != nil {
		return a, err
	}
	return answerOf(&d), nil
}

func (h *handler) takeAll(ctx context.Context, r *takeAllRequest) (a outcomeAnswer, err error) {
	if r.ID != nil {
		if err := checkID(*r.ID); err != nil {
			return a, err
		}
	}
	charges, err := h.charges(r.Charges)
	if err != nil {
		return a, err
	}
	var o ration.Outcome
	if r.ID != nil {
		o, err = h.limiter.TakeOnce(ctx, *r.ID, charges...)
	} else {
		o, err = h.limiter.TakeAll(ctx, charges...)
	}
	if err != nil {
		return a, err
	}
	return outcomeOf(&o), nil
}

func (h *handler) charges(list []charge) ([]ration.Charge, error) {
	charges := make([]ration.Charge, len(list))
	for i := range list {
		c := &list[i]
		key, limit, err := h.keyAndLimit(&c.keyFields, &c.limitFields)
		if err != nil {
			return nil, inCharge(i, err)
		}
		charges[i] = key.Charge(limit, or(c.Cost, 1))
	}
	return charges, nil
}

// inCharge says in which charge err is.
func inCharge(i int, err error) error {
	place := fmt.Sprintf("/charges/%d", i)
	var known *problemError
	if errors.As(err, &known) {
		known.pointer = place + known.pointer
		return known
	}
	return at(place, err)
}

func (h *handler) refund(ctx context.Context, r *refundRequest) (a refundAnswer, err error) {
	key, limit, err := h.keyAndLimit(&r.keyFields, &r.limitFields)
	if err != nil {
		return a, err
	}
	if r.AtUS < 1 {
		return a, at("/at_us", problem(wire.CodeInvalidTime, "this must be at_us of the decision that charged"))
	}
	given, err := h.limiter.Refund(ctx, key, limit, or(r.Cost, 1), time.UnixMicro(r.AtUS))
	if err != nil {
		return a, err
	}
	return refundAnswer{given}, nil
}

func (h *handler) reset(ctx context.Context, r *resetRequest) (a doneAnswer, err error) {
	key, limit, err := h.keyAndLimit(&r.keyFields, &r.limitFields)
	if err != nil {
		return a, err
	}
	if err := h.limiter.Reset(ctx, key, limit); err != nil {
		return a, err
	}
	return doneAnswer{true}, nil
}

func (h *handler) forget(ctx context.Context, r *forgetRequest) (a doneAnswer, err error) {
	key, err := r.key()
	if err != nil {
		return a, err
	}
	if err := h.limiter.Forget(ctx, key); err != nil {
		return a, err
	}
	return doneAnswer{true}, nil
}

func (h *handler) hit(ctx context.Context, r *hitRequest) (a hitAnswer, err error) {
	key, err := r.key()
	if err != nil {
		return a, err
	}
	count, left, err := h.limiter.Hit(ctx, key, r.window(), or(r.N, 1))
	if err != nil {
		return a, err
	}
	return hitAnswer{count, millis(left)}, nil
}

func (h *handler) limits(context.Context) (limitsAnswer, error) { return h.listed, nil }

// listOf is rules as they are shown, by name.
func listOf(rules []ration.Rule) limitsAnswer {
	a := limitsAnswer{Limits: make([]limitAnswer, len(rules))}
	for i, rule := range rules {
		a.Limits[i] = limitAnswer{Name: rule.Name, Limit: rule.String()}
		if rule.OnError != 0 {
			a.Limits[i].OnError = rule.OnError.String()
		}
	}
	slices.SortFunc(a.Limits, func(x, y limitAnswer) int { return cmp.Compare(x.Name, y.Name) })
	return a
}
