// Package ration decides, for a key, whether a use may go ahead now: rate limits and budgets that hold across every
// process and across a restart, on a store you already run.
//
//	limiter := ration.New(store, nil) // memstore.New(nil), sqlitestore.New(ctx, db, nil), …
//	defer limiter.Close()
//
//	chat := ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}
//	d, err := limiter.Take(ctx, ration.KeyOf(userID), chat, 1)
//	switch {
//	case err != nil:  // could not tell: the store is slow, dead or full
//	case !d.Allowed:  // refused; d.RetryAfter says for how long
//	default:          // charged
//	}
//
// # Limits
//
// A [Limit] is a value. It says what is allowed:
//
//   - [TokenBucket]: a burst, and a rate at which it refills. For most things.
//   - [SlidingWindow]: at most so many in any window of time. For "three a day".
//   - [FixedWindow]: at most so many in a window that opens at the first use. It can pass twice as many around an edge.
//   - [Budget]: at most so many in a calendar day, week, month… of a time zone.
//   - [Concurrency]: at most so many at a time; for Reserve only.
//
// A [Rule] gives a limit a name. Rules of different names never share a count. Two bare limits of one kind under one key
// are one count, whatever their numbers, so name them as soon as there is a second one.
//
// # Verbs
//
// The verbs are the same for all limits: [Limiter.Take] charges or refuses, [Limiter.Peek] asks, [Limiter.Wait] waits its
// turn, [Limiter.Refund] gives back, [Limiter.Reset] and [Limiter.Forget] wipe, and [Limiter.TakeAll] charges several
// limits or none. [Limiter.Hit] is a bare counter.
//
// [Limiter.Reserve] charges an estimate and holds it: do the work, then [Reservation.Settle] what it really used, or
// [Reservation.Cancel]. If the caller dies, the hold ends by itself. [Limiter.TakeOnce] is TakeAll that can be repeated.
//
// # Answers
//
// A [Decision] is what the store knew in one moment. A refusal is a Decision, not an error. An error means that nobody
// could tell; nothing was charged then, unless it is [ErrOutcomeUnknown]. The zero Decision refuses.
//
// Counts and costs are integers up to 2^53 − 1. Time is the store's, to the microsecond. The rules are in
// docs/semantics.md; what a store must do is in package driver.
package ration
