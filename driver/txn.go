package driver

// Verb says what a Txn does.
type Verb uint8

// The verbs. The zero Verb is not valid.
const (
	Take     Verb = iota + 1 // charge all ops or none
	Peek                     // answer as Take would, and change nothing
	Hit                      // add Op.Cost to a Counter; Cost 0 reads; may be negative
	Refund                   // give Op.Cost back to the state that was charged at Op.At
	Reset                    // forget the state of each op
	Forget                   // forget all states of Op.Key.Group and Op.Key.ID, whatever their Space
	Settle                   // end a hold; Amounts is what was used
	Cancel                   // end a hold; what Progress has not reported goes back
	Progress                 // report what was used so far, in total, and renew the hold
	Renew                    // move the expiry of a hold
)

// Kind is a kind of state. States of different kinds never share a Key: the Space of a Key holds its kind.
type Kind uint8

// The kinds. The zero Kind is not valid (verb Forget ignores it).
const (
	Bucket  Kind = iota + 1 // a token bucket: a level that refills
	Window                  // a sliding window: uses that each end a window after they happened
	Counter                 // a count in a window that opens at its first use
	Budget                  // a count in a calendar period
	Slots                   // slots that are held
)

// MaxOps is the greatest number of ops in one Txn.
const MaxOps = 64

// MaxNumber is the greatest cost, size or count: 2^53 − 1. The least is −MaxNumber.
const MaxNumber = 1<<53 - 1

// MaxTxnID is the greatest length of Txn.ID.
const MaxTxnID = 1024

// Txn is one decision: all its ops or none. Fields marked result are zero on entry and filled in by the store.
//
// Settle, Cancel, Progress and Renew are on the ops of the hold: the store puts these into Ops, in the order of the Take
// that made it. Of their results only those named here have a meaning, the first time and when the same end comes again:
// Allowed (of Progress: what was reported is within the reservation, or within the limit now), and of Settle and Cancel Given, of this end. A Cancel after another end or
// the expiry does nothing, is Allowed, and gives nothing. Used and ResetAt may be filled in.
//
// A Take with an ID that was admitted before answers what it answered then, and its At.
//
// A Take that made a hold may answer with another ID: what finds the hold from then on. Only a store that asks one with
// routes (see [Router]) from afar, and does not know them itself, has a use for that.
type Txn struct {
	Verb    Verb
	Ops     []Op    // Settle, Cancel, Progress, Renew: those of the hold with new Bounds, if the caller knows them, else none; the store answers with its own
	ID      string  // of the hold; or of a Take that is decided once. 1 to MaxTxnID bytes: "namespace|id", or "namespace|route.id"
	Hold    bool    // Take: record a hold under ID
	Return  bool    // with Hold: at expiry give back what was not reported; false: it stays charged
	TTL     Micros  // life of the hold, or of the answer under ID
	Amounts []int64 // Settle, Progress: one for each op of the hold; nil: as reserved
	Async   bool    // may be lost in a crash; a store may ignore it
	Now     Micros  // the clock to decide by; 0: the store's own

	Allowed bool   // result: every op passed
	At      Micros // result: the clock that decided; set for refusals, and with ErrClock, too
	Err     error  // result: this one could not be decided
}

// Op is one key of a Txn.
type Op struct {
	Key  Key
	Kind Kind
	Size int64 // burst or limit, ≥ 0

	// Bucket: Rate tokens refill in Span. The same rate in exact integers, as [Units] computes it: Gain units of 1/Unit
	// token each Tick. A store needs one form or the other.
	Rate       int64
	Gain, Unit int64
	Tick       Micros

	Span   Micros    // Bucket: see Rate; Window, Counter: the window; Slots: the lease
	Bounds [4]Micros // Budget: starts of the last, this and the next period and that one's end, by the caller's clock; a clock outside them is ErrClock
	Cost   int64     // Hit: may be negative; else ≥ 0
	Times  int64     // Take, in a Txn of one op and no ID: so many charges of Cost, as many as fit; 0: 1
	At     Micros    // Refund: when the charge was made

	Result Result
}

// Result answers an Op. It is filled in for refused transactions too: Used is then what it was.
type Result struct {
	Allowed    bool   // this op alone would have passed; with Times: all of them
	Never      bool   // Cost is greater than Size: it can never pass
	Times      int64  // Take: how many charges passed
	Used       int64  // what counts after this Txn; ≥ 0, but for Hit, where it is the count itself
	Given      int64  // Refund, Cancel, Settle: what went back by it
	RetryAfter Micros // until Cost passes, from Txn.At, if nothing else happens; 0 if it passed
	ResetAt    Micros // when the state is unused again; Hit: when the window ends
}

// times is how often op is to be charged.
func (op *Op) times() int64 { return max(op.Times, 1) }
