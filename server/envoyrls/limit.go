package envoyrls

import (
	"errors"
	"fmt"
	"time"

	"github.com/ration-go/ration"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unit is one of the units of a file.
type unit struct {
	name   string
	length time.Duration
	wire   rlsv3.RateLimitResponse_RateLimit_Unit
}

const day = 24 * time.Hour

var units = []unit{
	{"second", time.Second, rlsv3.RateLimitResponse_RateLimit_SECOND},
	{"minute", time.Minute, rlsv3.RateLimitResponse_RateLimit_MINUTE},
	{"hour", time.Hour, rlsv3.RateLimitResponse_RateLimit_HOUR},
	{"day", day, rlsv3.RateLimitResponse_RateLimit_DAY},
	{"week", 7 * day, rlsv3.RateLimitResponse_RateLimit_WEEK},
	{"month", 30 * day, rlsv3.RateLimitResponse_RateLimit_MONTH},
	{"year", 365 * day, rlsv3.RateLimitResponse_RateLimit_YEAR},
}

// overrides are the units by which a request overrides a limit.
var overrides = map[typev3.RateLimitUnit]int{
	typev3.RateLimitUnit_SECOND: 0, typev3.RateLimitUnit_MINUTE: 1, typev3.RateLimitUnit_HOUR: 2, typev3.RateLimitUnit_DAY: 3,
	typev3.RateLimitUnit_MONTH: 5, typev3.RateLimitUnit_YEAR: 6,
}

// The algorithms.
const (
	fixedWindow   = "fixed_window"
	slidingWindow = "sliding_window"
	tokenBucket   = "token_bucket"
	calendar      = "calendar"
)

// numbers are those of a limit as a file or a request gives it.
type numbers struct {
	unit       *unit
	requests   uint32
	multiplier uint32 // 0: 1
	algorithm  string // "": fixed_window
	burst      *int64 // nil: requests
	zone, from string
	lease      int64
}

// ruleName is the name under which counts of n are kept: a unit that changes begins a new count, a number that changes
// goes on with the old one. kind keeps those that a request overrides apart.
func (n *numbers) ruleName(kind string) string {
	name := kind + "." + n.unit.name
	if n.multiplier > 1 {
		name = fmt.Sprintf("%s-%d", name, n.multiplier)
	}
	return name
}

// limit is the Limit that n means.
func (n *numbers) limit(kind string) (ration.Limit, error) {
	many := max(1, time.Duration(n.multiplier))
	const longest = 87_660 * time.Hour
	if many > longest/n.unit.length {
		return nil, fmt.Errorf("%d units of a %s are more than %v", many, n.unit.name, longest)
	}
	window, size := many*n.unit.length, int64(n.requests)
	rule := ration.Rule{Name: n.ruleName(kind), Lease: n.lease}
	switch n.algorithm {
	case "", fixedWindow:
		rule.Limit = ration.FixedWindow{Limit: size, Window: window}
	case slidingWindow:
		rule.Limit = ration.SlidingWindow{Limit: size, Window: window}
	case tokenBucket:
		bucket := ration.TokenBucket{Burst: size, Refill: ration.Per(size, window)}
		if n.burst != nil {
			bucket.Burst = *n.burst
		}
		if size == 0 { // nothing refills, and nothing passes
			bucket = ration.TokenBucket{Refill: ration.Per(1, window)}
		}
		rule.Limit = bucket
	case calendar:
		if many > 1 {
			return nil, errors.New("a calendar has no unit_multiplier; its periods are single ones")
		}
		if n.unit.length < time.Hour {
			return nil, fmt.Errorf("a calendar has no periods of a %s; it has hour, day, week, month and year", n.unit.name)
		}
		text := fmt.Sprintf("budget %d/%s", size, n.unit.name)
		if n.zone != "" {
			text += " " + n.zone
		}
		if n.from != "" {
			text += " from " + n.from
		}
		var err error
		if rule.Limit, err = ration.ParseLimit(text); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("there is no algorithm %q; there are %s, %s, %s and %s", n.algorithm, fixedWindow, slidingWindow, tokenBucket, calendar)
	}
	return rule, rule.Validate()
}

// current is what answers say of n.
func (n *numbers) current(name string) *rlsv3.RateLimitResponse_RateLimit {
	c := &rlsv3.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: n.requests, Unit: n.unit.wire}
	if n.multiplier > 1 {
		c.UnitMultiplier = wrapperspb.UInt32(n.multiplier)
	}
	return c
}

// override is the rule that a request brings along.
func override(o *commonv3.RateLimitDescriptor_RateLimitOverride) (*rule, error) {
	at, ok := overrides[o.GetUnit()]
	if !ok {
		return nil, fmt.Errorf("the unit %v of the limit is none to count by", o.GetUnit())
	}
	n := numbers{unit: &units[at], requests: o.GetRequestsPerUnit(), multiplier: o.GetUnitMultiplier().GetValue()}
	limit, err := n.limit("envoy.override")
	if err != nil {
		return nil, err
	}
	return &rule{limit: limit, current: n.current("")}, nil
}
