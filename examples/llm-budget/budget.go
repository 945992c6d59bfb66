package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-go/ration"
)

// Money is in millionths of a dollar: whole numbers only.
const dollar = 1_000_000

// Three budgets for each answer. Prices and limits may change at any time; what was spent stays.
var (
	userMonth = ration.Rule{Name: "user-month", Limit: ration.Budget{Limit: 1 * dollar, Period: ration.Month, Zone: "Europe/Berlin"}}
	teamMonth = ration.Rule{Name: "team-month", Limit: ration.Budget{Limit: 4 * dollar, Period: ration.Month, Zone: "Europe/Berlin"}}
	allMonth  = ration.Rule{Name: "all-month", Limit: ration.Budget{Limit: 8 * dollar, Period: ration.Month, Zone: "Europe/Berlin"}}
)

// charges are a sum on all three budgets. They are decided together, so on a Redis Cluster they are of one group.
func charges(team, user string, sum int64) []ration.Charge {
	return []ration.Charge{
		userKey(team, user).Charge(userMonth, sum),
		teamKey(team).Charge(teamMonth, sum),
		allKey.Charge(allMonth, sum),
	}
}

func userKey(team, user string) ration.Key { return ration.KeyOf(team, user).In("llm") }
func teamKey(team string) ration.Key       { return ration.KeyOf(team).In("llm") }

var allKey = ration.Global.In("llm")

// OverBudgetError says which budget has no room for an answer, and when there is some.
type OverBudgetError struct {
	Rule  string
	Until time.Time
}

// Error names the budget.
func (e *OverBudgetError) Error() string {
	return fmt.Sprintf("llm: over the budget %s until %s", e.Rule, e.Until.Format(time.RFC3339))
}

// A Model answers in chunks, each of so many tokens, and stops when emit answers false.
type Model func(ctx context.Context, emit func(text string, tokens int64) bool) error

// Service answers questions within the budgets.
type Service struct {
	Limiter *ration.Limiter
	Price   int64         // of a token, in money
	Hold    time.Duration // how long a reservation outlives a service that died
}

// Answer has model answer a user of a team with at most so many tokens, which is what is reserved: so answers in parallel
// never overshoot, and none of them spends more than it has. It calls send with each text, and cuts the answer off at its
// last token, or when ctx is done. What was used is charged in every case; the answer's price is what it returns.
func (s *Service) Answer(ctx context.Context, team, user string, tokens int64, model Model, send func(string)) (spent int64, err error) {
	r, err := s.Limiter.Reserve(ctx, &ration.ReserveOptions{TTL: s.Hold}, charges(team, user, tokens*s.Price)...)
	if err != nil {
		return 0, err
	}
	if !r.Allowed {
		return 0, &OverBudgetError{Rule: r.Name, Until: r.RetryAt()}
	}
	defer r.Cancel(ctx) // if something panics: what Progress has reported stays charged

	used, reported := int64(0), time.Now()
	failed := model(ctx, func(text string, n int64) bool {
		if ctx.Err() != nil || used+n > tokens {
			return false
		}
		used += n
		// Now and then is enough: should this process die, what it has not reported stays charged all the same.
		if time.Since(reported) > s.Hold/4 {
			reported = time.Now()
			if _, err := r.Progress(ctx, used*s.Price); err != nil {
				return false // without the store no more is spent
			}
		}
		send(text)
		return used < tokens
	})
	spent = used * s.Price
	return spent, errors.Join(failed, r.Settle(ctx, spent))
}
