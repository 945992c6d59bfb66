package envoyrls

import (
	"context"
	"errors"

	"github.com/ration-go/ration"
)

// decide asks the Limiter.
func (c *call) decide(ctx context.Context) error {
	if len(c.items) == 1 && c.items[0].enforced() { // most requests
		one := &c.items[0]
		if err := c.take(ctx, one); err != nil {
			return err
		}
		c.refused = !one.d.Allowed
		return nil
	}
	if c.apart {
		return c.decideApart(ctx)
	}
	return c.decideTogether(ctx)
}

func (c *call) take(ctx context.Context, one *item) (err error) {
	one.d, err = c.s.verbs.Limiter.Take(ctx, one.key, one.rule.limit, one.cost)
	c.s.verbs.Activity.Decided(ctx, one.rule.limit, one.key, one.cost, &one.d, err)
	one.asked = err == nil
	return err
}

func (c *call) peek(ctx context.Context, one *item) (err error) {
	one.d, err = c.s.verbs.Limiter.Peek(ctx, one.key, one.rule.limit, one.cost)
	one.asked = err == nil
	return err
}

// each does something with the items that are meant, and answers what went wrong.
func (c *call) each(meant func(*item) bool, do func(*item) error) error {
	var all []*item
	for i := range c.items {
		if meant(&c.items[i]) {
			all = append(all, &c.items[i])
		}
	}
	errs := make([]error, len(all))
	c.s.verbs.Each(len(all), func(i int) { errs[i] = do(all[i]) })
	return errors.Join(errs...)
}

// decideApart charges every descriptor that passes by itself, whatever becomes of the others.
func (c *call) decideApart(ctx context.Context) error {
	err := c.each((*item).charged, func(i *item) error { return c.take(ctx, i) })
	if err != nil {
		return err
	}
	quotas, exceeded := 0, 0
	for i := range c.items {
		switch one := &c.items[i]; {
		case one.enforced() && !one.d.Allowed:
			c.refused = true
		case one.charged() && one.quota:
			quotas++
			if !one.d.Allowed {
				exceeded++
			}
		}
	}
	c.refused = c.refused || quotas > 0 && exceeded == quotas
	return c.giveBack(ctx)
}

// decideTogether charges all or none. Quotas are charged first, one by one, since one that passes is enough; if the others
// refuse, what they were charged goes back. Shadows are charged last, and only if the request passes.
func (c *call) decideTogether(ctx context.Context) error {
	isQuota := func(i *item) bool { return i.charged() && i.quota }
	if err := c.each(isQuota, func(i *item) error { return c.take(ctx, i) }); err != nil {
		return err
	}
	quotas, passed := 0, 0
	for i := range c.items {
		if one := &c.items[i]; isQuota(one) {
			quotas++
			if one.d.Allowed {
				passed++
			}
		}
	}
	if quotas > 0 && passed == 0 {
		c.refused = true
		return c.each(func(i *item) bool { return i.charged() && !i.quota }, func(i *item) error { return c.peek(ctx, i) })
	}
	if err := c.takeAll(ctx); err != nil {
		return err
	}
	if c.refused {
		err := c.each(func(i *item) bool { return isQuota(i) && i.d.Allowed }, func(i *item) error {
			_, err := c.s.verbs.Limiter.Refund(ctx, i.key, i.rule.limit, i.cost, i.d.At)
			i.d.Used, i.d.Remaining = i.d.Used-i.cost, i.d.Remaining+i.cost
			return err
		})
		c.unimportant(ctx, err)
	}
	c.unimportant(ctx, c.each(func(i *item) bool { return i.charged() && i.shadow }, func(i *item) error {
		if c.refused {
			return c.peek(ctx, i)
		}
		return c.take(ctx, i)
	}))
	if c.refused {
		return nil
	}
	return c.giveBack(ctx)
}

// takeAll charges what refuses by itself.
func (c *call) takeAll(ctx context.Context) error {
	var room [4]ration.Charge
	charges := room[:0]
	for i := range c.items {
		if one := &c.items[i]; one.enforced() {
			charges = append(charges, one.key.Charge(one.rule.limit, one.cost))
		}
	}
	if len(charges) == 0 {
		return nil
	}
	o, err := c.s.verbs.Limiter.TakeAll(ctx, charges...)
	if err != nil {
		return err
	}
	c.refused = !o.Allowed
	next := 0
	for i := range c.items {
		if one := &c.items[i]; one.enforced() {
			one.d, one.asked = o.Each[next], true
			if o.Allowed || !one.d.Allowed { // the others were neither charged nor refused
				c.s.verbs.Activity.Decided(ctx, one.rule.limit, one.key, one.cost, &one.d, nil)
			}
			next++
		}
	}
	return nil
}

// unimportant notes an error that does not change the answer.
func (c *call) unimportant(ctx context.Context, err error) {
	if err != nil {
		_ = c.s.failed(ctx, err) // it logs
	}
}

// giveBack gives back what descriptors with negative hits say. If the request also charged, that stays, whatever happens
// here.
func (c *call) giveBack(ctx context.Context) error {
	charges := false
	for i := range c.items {
		charges = charges || c.items[i].charged()
	}
	err := c.each(func(i *item) bool { return i.rule != nil && !i.rule.unlimited && i.back }, func(i *item) error { return c.refund(ctx, i) })
	if charges {
		c.unimportant(ctx, err)
		return nil
	}
	return err
}

// maxRefunds is how many uses of a sliding window one request gives back to: each refund reaches one.
const maxRefunds = 16

// refund gives back to what counts now: Envoy does not say when it was charged. Of a sliding window it is the oldest uses,
// which would be free first.
func (c *call) refund(ctx context.Context, one *item) error {
	limiter, key, limit := c.s.verbs.Limiter, one.key, one.rule.limit
	d, err := limiter.Peek(ctx, key, limit, 0)
	if err != nil {
		return err
	}
	at, tries := d.At, 1
	if one.rule.sliding {
		tries = maxRefunds
	}
	for left := one.cost; left > 0 && d.Used > 0 && tries > 0; tries-- {
		if one.rule.sliding {
			// When one more than fits would pass is when the oldest use ends.
			next, err := limiter.Peek(ctx, key, limit, d.Remaining+1)
			if err != nil {
				return err
			}
			if next.Allowed || next.Never {
				break
			}
			at = next.RetryAt().Add(-one.rule.window)
		}
		given, err := limiter.Refund(ctx, key, limit, left, at)
		if err != nil {
			return err
		}
		if given == 0 {
			break
		}
		left -= given
		d.Used = max(0, d.Used-given)
		d.Remaining = max(0, d.Limit-d.Used)
	}
	d.Allowed = true
	one.d, one.asked = d, true
	return nil
}
