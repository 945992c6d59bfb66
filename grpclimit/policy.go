package grpclimit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
)

// Call is what is limited: a call, or a message of a stream.
type Call struct {
	Method  string // "/package.Service/Method"
	Message any    // the request of a unary call, or a message of a stream; nil when a stream begins. Not to be changed
}

// A Policy is one limit of a call. All policies of a call are charged in one decision, or none.
type Policy struct {
	// Limit is a ration.Rule with a name, which stands in answers.
	Limit ration.Limit
	// For chooses the limit of each call instead of Limit: a tenant's plan. It returns a ration.Rule with a name; nil is no
	// limit. An error means that it cannot be told now: the call is UNAVAILABLE.
	For func(ctx context.Context, c Call) (ration.Limit, error)
	// Key says whose call it is; required. It is what the Limiter's store sees, unless that has a KeySecret.
	Key KeyFunc
	// NoKey is what to do when Key answers ""; default RefuseNoKey.
	NoKey NoKey
	// Methods are those that the policy is for, each "/package.Service/Method" or "/package.Service/*"; none: all.
	Methods []string
	// Cost of a call, or of a message, 0 or more; default 1. Cost 0 is admitted while the limit is not exceeded, and charges
	// nothing. See Costs for one by method.
	Cost func(ctx context.Context, c Call) int64
	// Messages charges each message of a stream that is received (by a Guard) or sent (by a Pacer), and not the stream itself. A
	// unary call is one message.
	Messages bool
	// Count says which outcomes are charged; default all. Such a call is charged when it comes and, if Count is false for its
	// code, gets it back when it has ended: so many at once can never pass the limit. Not with Messages.
	//
	// A call that its client gave up, or whose time was over, before it ended is charged without asking Count: else hanging up
	// would be free.
	Count func(code codes.Code) bool
}

// A KeyFunc says whose call it is; "" is nobody's. It must be safe for concurrent use.
type KeyFunc func(ctx context.Context, c Call) string

// NoKey says what happens to a call that has no identity.
type NoKey = httplimit.NoKey

// The policies for calls without identity.
const (
	RefuseNoKey = httplimit.RefuseNoKey // it is UNAVAILABLE
	SkipNoKey   = httplimit.SkipNoKey   // this policy does not apply to it
	ShareNoKey  = httplimit.ShareNoKey  // all such calls share one count, that of ration.Global
)

// ErrNoKey is wrapped by the error of a call without identity under RefuseNoKey. It also is ration.ErrInvalidKey.
var ErrNoKey = fmt.Errorf("grpclimit: the call has no identity to count: %w", ration.ErrInvalidKey)

// Costs is a Policy.Cost by method: "/package.Service/Method", else "/package.Service/*", else 1.
func Costs(byMethod map[string]int64) func(context.Context, Call) int64 {
	return func(_ context.Context, c Call) int64 {
		if cost, ok := byMethod[c.Method]; ok {
			return cost
		}
		if cost, ok := byMethod[serviceOf(c.Method)]; ok {
			return cost
		}
		return 1
	}
}

// serviceOf is "/package.Service/*" for a method.
func serviceOf(method string) string {
	return method[:strings.LastIndexByte(method, '/')+1] + "*"
}

// policy is a Policy that was checked.
type policy struct {
	Policy
	name    string // if the limit is fixed
	methods map[string]bool
}

// maxPolicies is how many charges a decision may have.
const maxPolicies = 64

func checked(l *ration.Limiter, policies []Policy) ([]policy, error) {
	switch {
	case len(policies) > maxPolicies:
		return nil, fmt.Errorf("grpclimit: %d policies are more than %d", len(policies), maxPolicies)
	case l == nil && len(policies) > 0:
		return nil, errors.New("grpclimit: policies need a Limiter")
	}
	ps := make([]policy, len(policies))
	for i, given := range policies {
		p := policy{Policy: given}
		if err := p.check(ps[:i]); err != nil {
			return nil, fmt.Errorf("grpclimit: policy %d: %w", i, err)
		}
		ps[i] = p
	}
	return ps, nil
}

func (p *policy) check(others []policy) error {
	switch {
	case p.Key == nil:
		return errors.New("its Key is missing")
	case p.NoKey > ShareNoKey:
		return errors.New("an unknown NoKey")
	case (p.Limit == nil) == (p.For == nil):
		return fmt.Errorf("%w: give it either Limit or For", ration.ErrInvalidLimit)
	case p.Messages && p.Count != nil:
		return errors.New("messages are charged when they come, so Count is not for them")
	}
	for _, method := range p.Methods {
		if strings.Count(method, "/") != 2 || method[0] != '/' {
			return fmt.Errorf("%q is not the name of a method, such as /package.Service/Method", method)
		}
		if p.methods == nil {
			p.methods = map[string]bool{}
		}
		p.methods[method] = true
	}
	if p.Limit == nil {
		return nil
	}
	rule, err := named(p.Limit)
	if err == nil {
		err = rule.Validate()
	}
	if err != nil {
		return err
	}
	if _, slots := rule.Limit.(ration.Concurrency); slots && p.Messages {
		return fmt.Errorf("%w: a message holds no slot", ration.ErrInvalidLimit)
	}
	for i := range others {
		if others[i].name == rule.Name {
			return fmt.Errorf("%w: another policy is named %q too", ration.ErrInvalidLimit, rule.Name)
		}
	}
	p.name = rule.Name
	return nil
}

// named is limit as a Rule with a name.
func named(limit ration.Limit) (ration.Rule, error) {
	rule, ok := limit.(ration.Rule)
	if !ok || rule.Name == "" {
		return rule, fmt.Errorf("%w: a policy's limit is a ration.Rule with a name", ration.ErrInvalidLimit)
	}
	return rule, nil
}

// when says which policies are meant.
type when uint8

const (
	unary   when = iota // a call with one request: all
	opening             // a stream that begins
	message             // a message of it
)

func (p *policy) applies(w when, method string) bool {
	if w != unary && p.Messages != (w == message) {
		return false
	}
	return p.methods == nil || p.methods[method] || p.methods[serviceOf(method)]
}

// use is what a call uses of one limit.
type use struct {
	policy *policy
	limit  ration.Limit
	key    ration.Key
	cost   int64
	slots  bool
}

// uses is what a call uses of each policy that applies to it.
func uses(ctx context.Context, ps []policy, w when, c Call, group string) ([]use, error) {
	var us []use
	for i := range ps {
		p := &ps[i]
		if !p.applies(w, c.Method) {
			continue
		}
		u := use{policy: p, limit: p.Limit, cost: 1}
		if p.For != nil {
			var err error
			if u.limit, err = p.For(ctx, c); err != nil {
				return nil, fmt.Errorf("grpclimit: the limit cannot be told: %w", err)
			}
			if u.limit == nil {
				continue
			}
		}
		rule, err := named(u.limit)
		if err != nil {
			return nil, err
		}
		_, u.slots = rule.Limit.(ration.Concurrency)
		switch id := p.Key(ctx, c); {
		case id != "":
			u.key = keyOf(id)
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
			u.cost = p.Cost(ctx, c)
		}
		us = append(us, u)
	}
	return us, nil
}

// maxKey is the longest key of a Limiter, in bytes.
const maxKey = 1024

// keyOf is the key of an identity, the same as package httplimit's: one that is too long is known by its hash.
func keyOf(id string) ration.Key {
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

// held reports whether the charges must be held until the outcome is known.
func held(us []use) bool {
	for i := range us {
		if us[i].slots || us[i].policy.Count != nil {
			return true
		}
	}
	return false
}

// take decides us in one step.
func take(ctx context.Context, l *ration.Limiter, us []use) (ration.Outcome, error) {
	if len(us) == 1 {
		d, err := l.Take(ctx, us[0].key, us[0].limit, us[0].cost)
		return ration.Outcome{Decision: d, Each: []ration.Decision{d}}, err
	}
	return l.TakeAll(ctx, charges(us)...)
}
