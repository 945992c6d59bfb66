// Package joincontract is what a store has to keep when calls are joined and when uses are leased. It is for tests only, and every
// store runs it.
//
// Joined puts the way that the Limiter joins calls (internal/join) between the suite of storetest and a store, so that all of the
// suite, its case files and its random commands ask by it. What can be joined is: commands that stand in one batch, and charges
// with Times, which go as so many single ones that wait for each other.
//
// The suite cannot go through leases. Its clock is its own, dates in the past and the future, and the life of a lease runs on
// the clock of the process, so a Limiter with a clock of its own leases nothing. Its commands name the numbers of a
// limit, and a leased limit has others by design: a sliding window counts for a life longer, a bucket is smaller. And what it expects to be
// used is what was charged, where a leased charge is ahead of the use. What a lease has to keep is of another kind, and
// Leases tests that on the real clock, for each kind of limit: never more than the limit over several processes, exactly the
// limit once refused callers ask again, and after Close exactly what was used.
package joincontract
