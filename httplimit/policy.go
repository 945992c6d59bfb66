package httplimit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"

	"github.com/ration-go/ration"
)

// A Policy is one limit of a request. All policies of a request are charged in one decision, or none.
type Policy struct {
	// Limit is a ration.Rule with a name. The name stands in headers and answers, and has only letters a–z, digits, _ . and -.
	Limit ration.Limit
	// For chooses the limit of each request instead of Limit: a tenant's plan. It returns a ration.Rule with a name; nil is no
	// limit. An error means that it cannot be told now: the request is answered by Options.Error.
	For func(*http.Request) (ration.Limit, error)
	// Key says whose request it is; required. It is what the Limiter's store sees, unless that has a KeySecret.
	Key KeyFunc
	// NoKey is what to do when Key answers ""; default RefuseNoKey.
	NoKey NoKey
	// Cost of a request, 0 or more; default 1. Cost 0 is admitted while the limit is not exceeded, and charges nothing.
	Cost func(*http.Request) int64
	// Count says which answers are charged; default all. Such a request is charged when it comes and, if Count is false for its
	// answer, gets it back when the handler returns: so many at once can never pass the limit. The status is that of the answer:
	// 200 if the handler wrote nothing, 101 if it took over the connection, 500 if it panicked before an answer.
	//
	// A request that was given up by its client before the answer began is charged without asking Count: else hanging up
	// would be free.
	Count func(status int, h http.Header) bool
}

// NoKey says what happens to a request that has no identity.
type NoKey uint8

// The policies for requests without identity.
const (
	RefuseNoKey NoKey = iota // not served: Options.Error gets ErrNoKey, by default 503
	SkipNoKey                // this policy does not apply to it
	ShareNoKey               // all such requests share one count, that of ration.Global
)

// ErrNoKey is what Options.Error gets for a request without identity under RefuseNoKey. It also is ration.ErrInvalidKey.
var ErrNoKey = fmt.Errorf("httplimit: the request has no identity to count: %w", ration.ErrInvalidKey)

// policy is a Policy that was checked.
type policy struct {
	Policy
	rule  ration.Rule // if it is fixed
	shown shown       // of rule
}

// maxPolicies is how many charges a decision may have.
const maxPolicies = 64

func checked(policies []Policy) ([]policy, error) {
	if len(policies) > maxPolicies {
		return nil, fmt.Errorf("httplimit: %d policies are more than %d", len(policies), maxPolicies)
	}
	ps := make([]policy, len(policies))
	for i, given := range policies {
		p := policy{Policy: given}
		fail := func(format string, args ...any) ([]policy, error) {
			return nil, fmt.Errorf("httplimit: policy %d: %w", i, fmt.Errorf(format, args...))
		}
		switch {
		case p.Key == nil:
			return fail("its Key is missing")
		case p.NoKey > ShareNoKey:
			return fail("an unknown NoKey")
		case (p.Limit == nil) == (p.For == nil):
			return fail("%w: give it either Limit or For", ration.ErrInvalidLimit)
		}
		if p.Limit != nil {
			rule, err := named(p.Limit)
			if err == nil {
				err = rule.Validate()
			}
			if err != nil {
				return fail("%w", err)
			}
			for _, other := range ps[:i] {
				if other.rule.Name == rule.Name {
					return fail("%w: another policy is named %q too", ration.ErrInvalidLimit, rule.Name)
				}
			}
			p.rule, p.shown = rule, show(rule)
		}
		ps[i] = p
	}
	return ps, nil
}

// named is limit as a Rule with a name.
func named(limit ration.Limit) (ration.Rule, error) {
	rule, ok := limit.(ration.Rule)
	if !ok || rule.Name == "" {
		return rule, fmt.Errorf("%w: a policy's limit is a ration.Rule with a name", ration.ErrInvalidLimit)
	}
	return rule, nil
}

// use is what a request uses of one limit.
type use struct {
	policy *policy
	limit  ration.Limit
	shown  shown
	key    ration.Key
	cost   int64
}

// uses is what r uses of each policy that applies to it.
func uses(ps []policy, r *http.Request, group string) ([]use, error) {
	us := make([]use, 0, len(ps))
	for i := range ps {
		p := &ps[i]
		u := use{policy: p, limit: p.Limit, shown: p.shown, cost: 1}
		if p.For != nil {
			limit, err := p.For(r)
			if err != nil {
				return nil, &planError{err}
			}
			if limit == nil {
				continue
			}
			rule, err := named(limit)
			if err != nil {
				return nil, err
			}
			u.limit, u.shown = limit, show(rule)
		}
		id := p.Key(r)
		switch {
		case id != "":
			u.key = KeyOf(id)
		case p.NoKey == SkipNoKey:
			continue
		case p.NoKey == ShareNoKey:
			u.key = ration.Global
		default:
			return nil, ErrNoKey
		}
		if group != "" {
			u.key = u.key.In(group)
		}
		if p.Cost != nil {
			u.cost = p.Cost(r)
		}
		for j := range us {
			if us[j].shown.name == u.shown.name {
				return nil, fmt.Errorf("%w: two policies of one request are named %q", ration.ErrInvalidLimit, u.shown.name)
			}
		}
		us = append(us, u)
	}
	return us, nil
}

// planError is an error of Policy.For.
type planError struct{ err error }

func (e *planError) Error() string { return "httplimit: the limit cannot be told: " + e.err.Error() }
func (e *planError) Unwrap() error { return e.err }

// maxKey is the longest key of a Limiter, in bytes.
const maxKey = 1024

// KeyOf is the key by which a guard counts an identity, which is not empty: the same as ration.KeyOf, but one that is too long,
// such as a signed token, is known by its hash. A key of two parts never equals one of a single part.
func KeyOf(id string) ration.Key {
	if len(id) > maxKey {
		sum := sha256.Sum256([]byte(id))
		return ration.KeyOf("sha256", string(sum[:]))
	}
	return ration.KeyOf(id)
}

func charges(us []use) []ration.Charge {
	cs := make([]ration.Charge, len(us))
	for i := range us {
		cs[i] = us[i].key.Charge(us[i].limit, us[i].cost)
	}
	return cs
}

// held reports whether the charges must be held until the answer is known, and whether there are slots among them.
func held(us []use) (hold, slots bool) {
	for i := range us {
		slots = slots || us[i].shown.slots
		hold = hold || us[i].policy.Count != nil
	}
	return hold || slots, slots
}

// amounts is what the uses are charged once it is known which answer the request got.
func amounts(us []use, charged func(count func(int, http.Header) bool) bool) []int64 {
	ns := make([]int64, len(us))
	for i := range us {
		if count := us[i].policy.Count; count == nil || charged(count) {
			ns[i] = us[i].cost
		}
	}
	return ns
}

// input reports whether err says that the program or its configuration is wrong, rather than that the store is in trouble.
func input(err error) bool {
	if _, ok := errors.AsType[*planError](err); ok {
		return false
	}
	for _, own := range []error{ration.ErrInvalidKey, ration.ErrInvalidLimit, ration.ErrInvalidCost, ration.ErrInvalidTime,
		ration.ErrUnsupported, ration.ErrOverflow, ration.ErrCrossGroup} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}
