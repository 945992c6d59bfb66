// Package holdcontract is what users of reservations and gates rely on, as tests of ration.Limiter over any store: of racers
// one passes, what happens once happens once though answers get lost, and a reservation costs one round trip. It is for
// tests only.
package holdcontract

import (
	"context"
	"testing"
	"time"

	"github.com/ration-go/ration"
)

// Subject is a Limiter with an empty store. Its calls are one at a time, unless said otherwise.
type Subject struct {
	Limiter *ration.Limiter
	Another *ration.Limiter // of the same data, as of another process; nil: there is none

	// Trips answers how many round trips Limiter has made; nil: nobody counts.
	Trips func() int64
	// ByID is how many round trips the end of a reservation may take that is known by its ID alone; 0: 1.
	ByID int64

	// Lose loses the answers of the next n round trips of Limiter; nil: nothing gets lost.
	Lose func(n int)
	// Lost answers how many answers were lost.
	Lost func() int64
}

// Run tests s.
func Run(t *testing.T, s Subject) {
	t.Helper()
	t.Run("one of a hundred passes", s.race)
	if s.Trips != nil {
		t.Run("one round trip", s.oneTrip)
	}
	if s.Lose != nil {
		t.Run("lost answers", s.lostAnswers)
	}
}

// patience is how long a single call may take on a crowded machine.
const patience = time.Minute

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// in is a key of this test.
func in(name string) ration.Key { return ration.KeyOf("contract", name).In("contract") }

var (
	tokens   = ration.Rule{Name: "tokens", Limit: ration.FixedWindow{Limit: 1000, Window: 10 * time.Hour}}
	requests = ration.Rule{Name: "requests", Limit: ration.SlidingWindow{Limit: 1000, Window: 10 * time.Hour}}
	// Slow, so that nothing that counts comes back during a test.
	spend = ration.Rule{Name: "spend", Limit: ration.TokenBucket{Burst: 1000, Refill: ration.Every(10 * time.Hour)}}
)

// three are charges on three limits.
func three(name string, costs ...int64) []ration.Charge {
	return []ration.Charge{in(name).Charge(tokens, costs[0]), in(name+"2").Charge(requests, costs[1]), in(name+"3").Charge(spend, costs[2])}
}

// used asserts what the limits of three count.
func (s *Subject) used(t *testing.T, what, name string, want ...int64) {
	t.Helper()
	for i, l := range []ration.Limit{tokens, requests, spend} {
		d, err := s.Limiter.Peek(deadline(t), in(name+[]string{"", "2", "3"}[i]), l, 0)
		if err != nil || d.Used != want[i] {
			t.Errorf("%s: %s should count %d, but counts %d (%v)", what, l.(ration.Rule).Name, want[i], d.Used, err)
		}
	}
}
