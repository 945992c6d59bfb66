package httpapi

import (
	"time"

	"github.com/ration-go/ration"
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
}

type outcomeAnswer struct {
	decisionAnswer
	Index int              `json:"index"`
	Each  []decisionAnswer `json:"each"`
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
}

type healthAnswer struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

func answerOf(d *ration.Decision) decisionAnswer {
	return decisionAnswer{
		Allowed: d.Allowed, Never: d.Never, Degraded: d.Degraded, Name: d.Name, Limit: d.Limit, Used: d.Used, Remaining: d.Remaining,
		RetryAfterMS: millis(d.RetryAfter), ResetAfterMS: millis(d.ResetAfter), AtUS: d.At.UnixMicro(),
	}
}

// millis is d in whole milliseconds, rounded up: against the caller.
func millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
