package driver

import (
	"context"
	"iter"
)

// Store keeps counts and decides transactions. Methods are called concurrently.
type Store interface {
	// Apply decides each Txn of batch whole or not at all, all of them in one round trip if the store can, and fills in
	// the result fields. Transactions on one key that stand in one batch are decided in their order, as if sent one by one.
	//
	// An error of Apply, or in a Txn's Err, means that it may have been charged, unless it wraps ErrNotApplied.
	Apply(ctx context.Context, batch []*Txn) error

	// Info describes the store, always in the same way. It may be called at any time, and must not block.
	Info() Info

	// Close releases what the store itself opened. It is called once.
	Close() error
}

// Info is what a store says of itself.
type Info struct {
	Kind     string // for people: "memory", "sqlite"
	Scope    Scope  // who sees the same counts
	Durable  bool   // an acknowledged charge outlives a crash of process and machine
	Caps     Caps   // anything else is ration.ErrUnsupported before anything is sent
	OneGroup bool   // the keys of one Txn must have one Key.Group
	MaxBatch int    // transactions in one Apply; ≤ 1: joining calls into batches does not help
	InFlight int    // batches worth having under way at a time; 0: 1

	// Instant says that Apply only computes: it never waits, so it needs no deadline and may ignore its context, and it
	// may be called while Close runs or after it (and then fails). Stores in the caller's memory are Instant.
	Instant bool
}

// Scope says who sees the same counts.
type Scope uint8

// The scopes. The zero Scope is not valid.
const (
	Process Scope = iota + 1 // one process
	Machine                  // every process on one machine
	Network                  // every process that reaches the store: seed 004's shared flag
)

// String answers "process", "machine" or "network".
func (s Scope) String() string {
	switch s {
	case Process:
		return "process"
	case Machine:
		return "machine"
	case Network:
		return "network"
	}
	return "unknown"
}

// Caps is a set of kinds and features.
type Caps uint64

// The kinds of state a store can keep, and the features it can have. Take, Peek, Refund, Reset, Op.Times and Txn.Now are
// not optional.
const (
	CapBucket  Caps = 1 << iota // Kind Bucket
	CapWindow                   // Kind Window
	CapCounter                  // Kind Counter, verb Hit
	CapBudget                   // Kind Budget
	CapSlots                    // Kind Slots; needs CapHolds
	CapList                     // several ops in one Txn
	CapForget                   // verb Forget
	CapIDs                      // a Take with an ID, decided once
	CapHolds                    // Txn.Hold, verbs Settle, Cancel, Progress, Renew; needs CapIDs; the store is a Sweeper and a HoldLister
)

// CapsRun is what [Run] gives to a store: everything but holds and ids.
const CapsRun = CapBucket | CapWindow | CapCounter | CapBudget | CapList | CapForget

// Has reports whether all of want are in c.
func (c Caps) Has(want Caps) bool { return c&want == want }

// A Sweeper removes state that is past its expiry. Removal never changes an answer (docs/semantics.md, Expiry), but for a
// hold that is given back when it expires: that is a sweep's work. A store that does not sweep by itself, or was told not
// to, is swept by whoever calls this.
type Sweeper interface {
	// Sweep removes at most max expired states, as of now (0: the store's clock), in bounded steps that do not hold up
	// callers, and answers how many it removed; the end of a hold is one, and the removal of its record another. It is safe
	// to call beside Apply, and two sweeps at once do no harm.
	Sweep(ctx context.Context, now Micros, max int) (dropped int, err error)
}

// A HoldLister lists the open holds.
type HoldLister interface {
	// Holds answers each hold that is open, in any order, with what it has charged now as Op.Cost: of Ops at least Key,
	// Kind, Size and Cost. One that has expired may be among them until a sweep or an end has handled it. It is as of the
	// store's clock; a hold that an injected one made (Txn.Now) does not expire by the store's.
	Holds(ctx context.Context) iter.Seq2[Hold, error]
}

// A Router says where a key is. The Limiter puts it in front of the ids of holds, as "route.id", so that a store that has
// its data in several places finds a hold by its id alone.
type Router interface {
	// Route is a short text of letters and digits, the same for all keys that can be decided together.
	Route(k Key) string
}

// Hold is an open reservation.
type Hold struct {
	ID      string
	At      Micros // when it was charged
	Ops     []Op   // Cost is what is charged now
	Expires Micros
	Return  bool // given back at expiry
}

// A Meter tells figures about itself, for metrics.
type Meter interface {
	// Figures answers what the store knows without asking anybody. It may be called at any time, and must not block.
	Figures() Figures
}

// Figures are those of one store in one process. Counts are since it was opened.
type Figures struct {
	Sweeps int64 // by this process, those in the background among them; steps, where a store sweeps in steps
	Swept  int64 // what these removed and ended, as Sweeper counts it
	Keys   int64 // states that are kept; −1: not known
	Bytes  int64 // of memory or disk that they take; −1: not known
}

// A Checker looks at its own set-up and says what an operator should know.
type Checker interface {
	Check(ctx context.Context) []Finding
}

// Finding is one remark of a Checker.
type Finding struct {
	Level  string // "ok", "warning", "error"
	Code   string // stable, for machines
	Text   string // what is so
	Remedy string // what to do
}
