// Package llm keeps the budgets of a chat service: so many tokens a day for each user, and a month for each organisation.
// An estimate is reserved before the model is asked, so that parallel answers cannot overshoot; what was really used is
// charged at the end, also when the reader hangs up.
package llm

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-go/ration"
)

var (
	userDay  = ration.Rule{Name: "user-day", Limit: ration.Budget{Limit: 100_000, Period: ration.Day, Zone: "Europe/Berlin"}}
	orgMonth = ration.Rule{Name: "org-month", Limit: ration.Budget{Limit: 5_000_000, Period: ration.Month}}
)

// OverBudgetError says which budget has no room, and when there is some.
type OverBudgetError struct {
	Rule  string
	Until time.Time
}

// Error names the budget.
func (e *OverBudgetError) Error() string {
	return fmt.Sprintf("llm: over the budget %s until %s", e.Rule, e.Until.Format(time.RFC3339))
}

// A Model answers in chunks. Each says how many tokens it took. It stops when emit answers false.
type Model func(ctx context.Context, emit func(text string, tokens int64) bool) error

// Service answers questions within the budgets.
type Service struct {
	Limiter *ration.Limiter
}

// Answer has model answer for a user. It calls send with each text, and ends the answer early when a budget is used up or
// ctx is done. What was used is charged in every case.
func (s *Service) Answer(ctx context.Context, org, user string, estimate int64, model Model, send func(string)) error {
	r, err := s.Limiter.Reserve(ctx, &ration.ReserveOptions{TTL: 2 * time.Minute},
		ration.KeyOf(org, user).In(org).Charge(userDay, estimate),
		ration.KeyOf(org).In(org).Charge(orgMonth, estimate))
	if err != nil {
		return err
	}
	if !r.Allowed {
		return &OverBudgetError{Rule: r.Name, Until: r.RetryAt()}
	}
	defer r.Cancel(ctx) // if something panics: what Progress has reported stays charged

	used, beyond := int64(0), false
	failed := model(ctx, func(text string, tokens int64) bool {
		used += tokens
		ok, err := r.Progress(ctx, used)
		beyond = err == nil && !ok
		send(text)
		return ok && err == nil && ctx.Err() == nil
	})
	if err := r.Settle(ctx, used); err != nil {
		return err
	}
	if failed == nil && beyond {
		return &OverBudgetError{Rule: r.Name, Until: r.ResetAt()}
	}
	return failed
}
