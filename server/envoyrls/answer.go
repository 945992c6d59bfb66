package envoyrls

import (
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ration-go/ration"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// answer is what Envoy is told, and counts.
func (c *call) answer(r *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	a := new(answer)
	a.response.OverallCode = rlsv3.RateLimitResponse_OK
	if c.refused && !c.s.opts.Shadow {
		a.response.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	if n := len(c.items); n <= len(a.list) {
		a.response.Statuses = a.list[:n]
	} else {
		a.response.Statuses = make([]*rlsv3.RateLimitResponse_DescriptorStatus, n)
	}
	for i := range c.items {
		to := &a.status[0]
		if i > 0 {
			to = new(descriptorStatus)
		}
		c.status(to, i)
		a.response.Statuses[i] = &to.status
	}
	if c.s.opts.Headers != nil {
		a.response.ResponseHeadersToAdd = c.headers()
	}
	if c.s.opts.DynamicMetadata {
		a.response.DynamicMetadata = c.metadata(r)
	}
	return &a.response
}

// answer is a response with room for what most have: one status.
type answer struct {
	response rlsv3.RateLimitResponse
	list     [2]*rlsv3.RateLimitResponse_DescriptorStatus
	status   [1]descriptorStatus
}

type descriptorStatus struct {
	status rlsv3.RateLimitResponse_DescriptorStatus
	reset  durationpb.Duration
}

// status fills in that of item i.
func (c *call) status(to *descriptorStatus, i int) {
	one, st := &c.items[i], &to.status
	st.Code = rlsv3.RateLimitResponse_OK
	switch {
	case one.rule == nil:
		return
	case one.rule.unlimited:
		st.LimitRemaining = math.MaxUint32
		if one.counters != nil {
			one.counters.count(&ration.Decision{Allowed: true, Limit: math.MaxInt64 / 8}, one.cost, false)
		}
		return
	}
	st.CurrentLimit = one.rule.current
	if !one.asked { // a shadow that could not be told
		return
	}
	d := &one.d
	st.LimitRemaining = uint32(min(d.Remaining, math.MaxUint32))
	to.reset.Seconds = reset(d)
	st.DurationUntilReset = &to.reset
	switch over := !d.Allowed; {
	case over && one.quota && !c.refused:
		c.violated = append(c.violated, i)
	case over && !one.shadow && !c.s.opts.Shadow:
		st.Code = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	if one.counters != nil && !one.back {
		one.counters.count(d, one.cost, one.shadow || c.s.opts.Shadow)
	}
}

// reset is when to come back, in whole seconds, rounded up: Envoy drops parts of seconds.
func reset(d *ration.Decision) int64 {
	left := d.ResetAfter
	if !d.Allowed {
		left = d.RetryAfter
	}
	return int64((left + time.Second - 1) / time.Second)
}

// headers are those of the tightest limit: of a refusal the one that lasts longest, else the one with the least left.
func (c *call) headers() []*corev3.HeaderValue {
	var tight *ration.Decision
	for i := range c.items {
		one := &c.items[i]
		if !one.asked || one.shadow || one.back {
			continue
		}
		d := &one.d
		switch {
		case tight == nil,
			tight.Allowed && !d.Allowed,
			!tight.Allowed && !d.Allowed && d.RetryAfter > tight.RetryAfter,
			tight.Allowed && d.Allowed && d.Remaining < tight.Remaining:
			tight = d
		}
	}
	if tight == nil {
		return nil
	}
	h := c.s.opts.Headers
	return []*corev3.HeaderValue{
		{Key: h.Limit, Value: strconv.FormatInt(tight.Limit, 10)},
		{Key: h.Remaining, Value: strconv.FormatInt(tight.Remaining, 10)},
		{Key: h.Reset, Value: strconv.FormatInt(reset(tight), 10)},
	}
}

// metadata is what a filter behind Envoy's can read.
func (c *call) metadata(r *rlsv3.RateLimitRequest) *structpb.Struct {
	quota := false
	descriptors := make([]*structpb.Value, len(c.items))
	for i := range c.items {
		one := &c.items[i]
		entries := r.Descriptors[i].GetEntries()
		texts := make([]*structpb.Value, len(entries))
		for j, e := range entries {
			texts[j] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
		}
		fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: texts})}
		if one.rule != nil && one.rule.metadata != nil && (one.rule.unlimited || one.asked && one.d.Allowed) {
			fields["metadata"] = one.rule.metadata
		}
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: fields})
		quota = quota || one.quota
	}
	fields := map[string]*structpb.Value{
		"domain":           structpb.NewStringValue(r.Domain),
		"descriptors":      structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
		"quotaModeEnabled": structpb.NewBoolValue(quota),
	}
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(r.HitsAddend))
	}
	if len(c.violated) > 0 {
		violated := make([]*structpb.Value, len(c.violated))
		for i, n := range c.violated {
			violated[i] = structpb.NewNumberValue(float64(n))
		}
		fields["quotaModeViolations"] = structpb.NewListValue(&structpb.ListValue{Values: violated})
	}
	return &structpb.Struct{Fields: fields}
}
