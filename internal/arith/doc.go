// Package arith is the arithmetic of limits: pure functions of a state, a limit and the time, in integers only. The rules
// are those of docs/semantics.md. Nothing here knows of keys, stores, transactions or clocks.
//
// To decide: [Open] a [View] of a State as a Limit sees it now, ask it whether a cost Fits, Charge it, and read the Answer.
package arith

// Max is the greatest count, cost and size, and the greatest number that any step computes: 2^53 − 1.
const Max = 1<<53 - 1

// Century is the longest time ever answered, in microseconds.
const Century = 100 * 8766 * 3600 * 1_000_000

// Kind is a kind of state.
type Kind uint8

// The kinds, numbered as in package driver.
const (
	Bucket Kind = iota + 1
	Window
	Counter
	Budget
	Slots
)

// Limit is the numbers of a limit. Times are in microseconds.
type Limit struct {
	Kind Kind
	Size int64 // burst or limit
	Span int64 // Bucket: period of the rate; Window, Counter: the window
	Rate
	Bounds [4]int64 // Budget: starts of the last, this and the next period, end of the next
}

// State is what is kept for one key. The zero State is a key that nothing was taken from.
type State struct {
	Level   int64 // Bucket: units of 1/Unit token; Counter, Budget: the count
	Unit    int64 // Bucket: the Unit that Level is in
	Stamp   int64 // Bucket: when Level was right; Counter, Budget: end of the window or period
	Since   int64 // since when the state runs: a charge before is not given back
	Expires int64 // from then on the state does not exist; 0: it never did
	Uses    []Use // Window: in order of time
}

// Use is a charge of a sliding window: it counts until Window after At.
type Use struct{ At, Cost, Window int64 }

// Answer is the numbers of one decision.
type Answer struct {
	Allowed, Never bool
	Used           int64
	RetryAfter     int64 // from the store's now
	ResetAt        int64
}

func exists(st *State, now int64) bool { return st.Expires > now }

// ceilDiv is ⌈a / b⌉ for b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// floorDiv is ⌊a / b⌋ for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
