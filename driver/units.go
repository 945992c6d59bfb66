package driver

import (
	"fmt"

	"github.com/ration-go/ration/internal/arith"
)

// Units gives the rate of n tokens per span in exact integers, for a bucket of burst tokens: gain units of 1/unit token
// each tick (docs/semantics.md, Token bucket). It fails, with a near rate that works, if no tick up to a second can hold it.
func Units(burst, n int64, span Micros) (gain, unit int64, tick Micros, err error) {
	if burst < 0 || burst > MaxNumber || n < 1 || n > MaxNumber || span < 1 || span > MaxNumber {
		return 0, 0, 0, fmt.Errorf("a bucket of %d tokens, %d each %d µs, is out of range", burst, n, span)
	}
	if r, ok := arith.RateOf(burst, n, int64(span)); ok {
		return r.Gain, r.Unit, Micros(r.Tick), nil
	}
	if near, ok := arith.NearRate(burst, n, int64(span)); ok {
		return 0, 0, 0, fmt.Errorf("a bucket of %d tokens cannot hold the rate of %d each %v exactly; %d each %v is near and works",
			burst, n, span.Duration(), near.N, Micros(near.Span).Duration())
	}
	return 0, 0, 0, fmt.Errorf("a bucket of %d tokens cannot hold the rate of %d each %v exactly, nor a lower one; at that rate use at most %d tokens",
		burst, n, span.Duration(), arith.BurstFor(n, int64(span)))
}
