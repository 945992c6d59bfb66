package httpapi

import (
	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Answers. What they mean is in the package comment.

type decisionAnswer struct {
	Allowed      bool   `json:"allowed"`
	Never        bool   `json:"never"`
	Degraded     bool   `json:"degraded"`
	Name         string `json:"name"`
	Limit        int64  `json:"limit"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	AtUS         int64  `json:"at_us"`
	Shadow       bool   `json:"shadow,omitempty"` // allowed only because the limit refuses nobody
}

type outcomeAnswer struct {
	decisionAnswer
	Index int              `json:"index"`
	Each  []decisionAnswer `json:"each"`
}

// reserveAnswer has no id if nothing is held.
type reserveAnswer struct {
	outcomeAnswer
	ID          string `json:"id,omitempty"`
	ExpiresAtUS int64  `json:"expires_at_us,omitempty"`
}

type renewAnswer struct {
	ExpiresAtUS int64 `json:"expires_at_us"`
}

type progressAnswer struct {
	OK bool `json:"ok"`
}

type reservationsAnswer struct {
	Reservations []heldAnswer `json:"reservations"`
	More         bool         `json:"more"`
}

// heldAnswer has one of the two ids.
type heldAnswer struct {
	ID          string       `json:"id,omitempty"`
	IDBase64    string       `json:"id_base64,omitempty"`
	AtUS        int64        `json:"at_us"`
	ExpiresAtUS int64        `json:"expires_at_us"`
	Charges     []heldCharge `json:"charges"`
}

type heldCharge struct {
	Name    string `json:"name"`
	Limit   int64  `json:"limit"`
	Charged int64  `json:"charged"`
}

type refundAnswer struct {
	Given int64 `json:"given"`
}

type doneAnswer struct {
	Done bool `json:"done"`
}

type hitAnswer struct {
	Count  int64 `json:"count"`
	LeftMS int64 `json:"left_ms"`
}

type limitsAnswer struct {
	Limits []limitAnswer `json:"limits"`
}

type limitAnswer struct {
	Name    string `json:"name"`
	Limit   string `json:"limit"`
	OnError string `json:"on_error,omitempty"` // absent: as the server's default

	Shadow    bool   `json:"shadow,omitempty"`
	Candidate string `json:"candidate,omitempty"`
}

type healthAnswer struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

func answerOf(d *ration.Decision) decisionAnswer {
	return decisionAnswer{
		Allowed: d.Allowed, Never: d.Never, Degraded: d.Degraded, Name: d.Name, Limit: d.Limit, Used: d.Used, Remaining: d.Remaining,
		RetryAfterMS: verbs.Millis(d.RetryAfter), ResetAfterMS: verbs.Millis(d.ResetAfter), AtUS: d.At.UnixMicro(),
	}
}

func outcomeOf(o *verbs.Outcome) outcomeAnswer {
	a := outcomeAnswer{decisionAnswer: answerOf(&o.Decision), Index: o.Index, Each: make([]decisionAnswer, len(o.Each))}
	a.Shadow = o.Allowed && o.Shadow()
	for i := range o.Each {
		a.Each[i] = answerOf(&o.Each[i])
		a.Each[i].Shadow = i < len(o.Shadows) && o.Shadows[i]
	}
	return a
}
