package grpcapi

import (
	"github.com/ration-go/ration"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	"github.com/ration-go/ration/server/internal/verbs"
)

// fill sets a, which is new, to d.
func fill(a *rationv1.Decision, d *ration.Decision) {
	a.Allowed, a.Never, a.Degraded, a.Name = d.Allowed, d.Never, d.Degraded, d.Name
	a.Limit, a.Used, a.Remaining = d.Limit, d.Used, d.Remaining
	a.RetryAfterMs, a.ResetAfterMs, a.AtUs = verbs.Millis(d.RetryAfter), verbs.Millis(d.ResetAfter), d.At.UnixMicro()
}

func decisionOf(d *ration.Decision) *rationv1.Decision {
	a := new(rationv1.Decision)
	fill(a, d)
	return a
}

func outcomeOf(o *ration.Outcome) *rationv1.Outcome {
	a := &rationv1.Outcome{Decision: decisionOf(&o.Decision), Index: int32(o.Index), Each: make([]*rationv1.Decision, len(o.Each))}
	for i := range o.Each {
		a.Each[i] = decisionOf(&o.Each[i])
	}
	return a
}
