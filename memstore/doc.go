// Package memstore is the store of one process: counts in memory, bounded, gone with the process.
//
// It is for programs that run once, for tests, and for limits that may differ between the replicas of a program. To share
// counts, or to keep them over a restart, use another store.
//
// # What it holds
//
// A state lives until its own end: a bucket until it is full again, a window until its last use is over. What has ended is
// removed in the background. [Options] bounds the number of keys and their memory. A store that is full first drops what
// has ended, then, from a small random sample, a state that is less than half used, ends by itself within a minute and
// has refused nobody since its last change. If there is none, a call that needs a new key fails with driver.ErrFull.
// A key at its limit, a counter of Hit and a budget are never dropped, so a flood of fresh keys frees nobody from a limit.
// Reads never fail for lack of room.
//
// # Clocks
//
// The store decides by the clock of the process, or by the one that a transaction brings along. A state remembers which of
// the two wrote it last. Those of the process are removed by the clock of the process. Those of injected clocks are
// removed, a minute or two late, by the lowest time that injected clocks showed in that minute: a clock that stands still,
// or is years off, loses nothing. Two injected clocks that are far apart, of which one rests for minutes, do not belong
// into one store.
package memstore
