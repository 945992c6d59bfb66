package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// fakeModel says random words for a while, as models do: often less than it might, sometimes without an end.
func fakeModel(rng *rand.Rand) Model {
	words := []string{"the ", "limit ", "is ", "a ", "value ", "and ", "holds "}
	length := rng.IntN(60)
	if rng.IntN(4) == 0 {
		length = 1 << 20
	}
	return func(ctx context.Context, emit func(string, int64) bool) error {
		for range length {
			timer := time.NewTimer(time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
			if !emit(words[rng.IntN(len(words))], 1+rng.Int64N(20)) {
				break
			}
		}
		return nil
	}
}
