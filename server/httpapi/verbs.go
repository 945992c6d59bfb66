package httpapi

import (
	"context"
	"fmt"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/verbs"
)

// keyAndLimit is who and what, as most verbs want them. It fails if the caller may not do that.
func (h *handler) keyAndLimit(ctx context.Context, may access.Verb, limits *verbs.Limits, k *keyFields, f *limitFields) (key ration.Key, limit ration.Limit, err error) {
	if key, err = k.key(); err != nil {
		return key, nil, err
	}
	if limit, err = h.Limit(limits, key, f.Limit, f.Name); err == nil {
		err = verbs.May(ctx, may, f.Limit)
	}
	return key, limit, err
}

func (h *handler) take(ctx context.Context, r *takeRequest) (decisionAnswer, error) {
	return h.decide(ctx, access.Take, &r.charge, func(ctx context.Context, key ration.Key, limit ration.Limit, cost int64) (verbs.Decision, error) {
		return h.Take(ctx, r.ID, key, limit, cost)
	})
}

func (h *handler) peek(ctx context.Context, r *charge) (decisionAnswer, error) {
	return h.decide(ctx, access.Read, r, h.Peek)
}

type verb func(ctx context.Context, key ration.Key, limit ration.Limit, cost int64) (verbs.Decision, error)

func (h *handler) decide(ctx context.Context, may access.Verb, r *charge, do verb) (a decisionAnswer, err error) {
	key, limit, err := h.keyAndLimit(ctx, may, h.Limits(), &r.keyFields, &r.limitFields)
	if err != nil {
		return a, err
	}
	d, err := do(ctx, key, limit, verbs.Or(r.Cost, 1))
	if err != nil {
		return a, err
	}
	a = answerOf(&d.Decision)
	a.Shadow = d.Shadow
	return a, nil
}

func (h *handler) takeAll(ctx context.Context, r *takeAllRequest) (a outcomeAnswer, err error) {
	charges, err := h.charges(ctx, r.Charges)
	if err != nil {
		return a, err
	}
	o, err := h.TakeAll(ctx, r.ID, charges)
	if err != nil {
		return a, err
	}
	return outcomeOf(&o), nil
}

func (h *handler) charges(ctx context.Context, list []charge) ([]verbs.Charge, error) {
	charges, limits := make([]verbs.Charge, len(list)), h.Limits()
	for i := range list {
		c := &list[i]
		key, limit, err := h.keyAndLimit(ctx, access.Take, limits, &c.keyFields, &c.limitFields)
		if err != nil {
			return nil, verbs.Within(fmt.Sprintf("/charges/%d", i), err)
		}
		charges[i] = verbs.Charge{Key: key, Limit: limit, Cost: verbs.Or(c.Cost, 1)}
	}
	return charges, nil
}

func (h *handler) refund(ctx context.Context, r *refundRequest) (a refundAnswer, err error) {
	key, limit, err := h.keyAndLimit(ctx, access.Take, h.Limits(), &r.keyFields, &r.limitFields)
	if err == nil {
		a.Given, err = h.Refund(ctx, key, limit, verbs.Or(r.Cost, 1), r.AtUS)
	}
	return a, err
}

func (h *handler) reset(ctx context.Context, r *resetRequest) (a doneAnswer, err error) {
	key, err := h.shownKey(&r.shownKeyFields)
	if err != nil {
		return a, err
	}
	limit, err := h.Limit(h.Limits(), key, r.Limit, r.Name)
	if err == nil {
		err = verbs.May(ctx, access.Reset, r.Limit)
	}
	if err == nil {
		err = h.Reset(ctx, key, limit, r.Limit)
	}
	return doneAnswer{err == nil}, err
}

func (h *handler) forget(ctx context.Context, r *forgetRequest) (a doneAnswer, err error) {
	key, err := r.key()
	if err == nil {
		err = h.Forget(ctx, key)
	}
	return doneAnswer{err == nil}, err
}

func (h *handler) hit(ctx context.Context, r *hitRequest) (a hitAnswer, err error) {
	key, err := r.key()
	if err == nil {
		err = verbs.MayAll(ctx, access.Take)
	}
	if err != nil {
		return a, err
	}
	count, left, err := h.Hit(ctx, key, r.WindowMS, verbs.Or(r.N, 1))
	return hitAnswer{count, verbs.Millis(left)}, err
}

func (h *handler) limits(ctx context.Context) (limitsAnswer, error) {
	return listOf(ctx, h.Limits()), nil
}

// listOf is limits as they are shown to the caller in ctx.
func listOf(ctx context.Context, limits *verbs.Limits) limitsAnswer {
	rules, trials := verbs.Readable(ctx, limits.Rules()), limits.Trials()
	a := limitsAnswer{Limits: make([]limitAnswer, len(rules))}
	for i, rule := range rules {
		a.Limits[i] = limitAnswer{Name: rule.Name, Limit: rule.String()}
		if rule.OnError != 0 {
			a.Limits[i].OnError = rule.OnError.String()
		}
		t := trials[rule.Name]
		if a.Limits[i].Shadow = t.Shadow; t.Candidate != nil {
			a.Limits[i].Candidate = t.Candidate.String()
		}
	}
	return a
}
