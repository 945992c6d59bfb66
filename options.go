package ration

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Options of a Limiter. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Namespace keeps applications on one store apart. At most 256 bytes, any.
	Namespace string
	// KeySecret, if set, makes stores see HMAC-SHA-256 of key and group instead of the keys themselves.
	KeySecret []byte
	// OnError is for limits that do not say; default DenyOnError.
	OnError OnError
	// Outage tunes what is done about a store that is slow or dead.
	Outage *Outage
	// Timeout of each store call under a context without deadline; default 5 s. Wait lasts as long as its context.
	Timeout time.Duration
	// Clock decides instead of the store's clock, for tests and replay. It must be later than 1970 and before 2155.
	Clock func() time.Time
	// OneGroup refuses lists whose keys are not of one group, as Redis Cluster would, on any store.
	OneGroup bool
	// NoJoin sends each call to the store by itself. Otherwise calls that come while the store is busy travel together, if the
	// store says that it helps; they are decided as if they had come one after the other.
	NoJoin bool
	// RememberRefusals is how long, at most a second, the process may repeat a refusal of the store from memory: for Take of
	// the same key and limit, and a cost not below the refused one; RetryAfter counts down. An attack on one key then costs
	// the store nothing. In that time it is not seen if another process makes room by a Refund, Reset, Settle or Cancel. Zero:
	// each refusal is the store's own. Of no effect on stores in memory and under Clock.
	RememberRefusals time.Duration
	// Observer is told of what happens.
	Observer *Observer
	// Production says that this is not a test: New then warns about a store that one process keeps for itself. The
	// environment RATION_ENV=production says the same.
	Production bool
	// Logger gets New's warning, and a line when the store goes down or comes up; default slog.Default().
	Logger *slog.Logger
}

// String leaves out the secret.
func (o Options) String() string {
	return fmt.Sprintf("namespace %q, keys hashed: %v, on error %v, timeout %v", o.Namespace, o.KeySecret != nil, o.OnError, o.Timeout)
}

// GoString is the same as String.
func (o Options) GoString() string { return o.String() }

// OnError says what to do when the store could not tell: it is slow, dead or full. Bad input is always an error.
type OnError uint8

// The policies for errors.
const (
	DenyOnError  OnError = iota + 1 // the error is returned; nothing is allowed
	AllowOnError                    // allowed, with Decision.Degraded and no error

	// LocalOnError decides on a part of the limit in memory (Outage.Parts), with Decision.Degraded and numbers of that part.
	// When the store answers again it is charged with what was admitted. So one outage admits beyond the limit at most a
	// part for each process; and what a process that dies in between had admitted is never charged. A limit smaller than the
	// number of parts, and Concurrency, are denied.
	LocalOnError
)

// String is "deny", "allow" or "local".
func (o OnError) String() string {
	switch o {
	case DenyOnError:
		return "deny"
	case AllowOnError:
		return "allow"
	case LocalOnError:
		return "local"
	}
	return "unset"
}

// An Observer is a set of functions, each may be nil. They are called on the caller's path: be quick. They never see keys.
type Observer struct {
	// Decided is called once for each call of a verb, with its answer.
	Decided func(ctx context.Context, e Event)
	// StoreChanged is called when decisions stop going to the store, because of cause, and when they go there again. It must
	// not close the Limiter.
	StoreChanged func(up bool, cause error)
	// Stored is called after each call to a store that is not Instant, before its callers have their answer.
	Stored func(ctx context.Context, c StoreCall)
}

// Event is one call of a verb.
type Event struct {
	Verb     string // "take", "peek", "wait", "refund", "reset", "forget", "hit", "take-all", "take-once", "reserve", "settle", "cancel", "progress", "renew"
	Decision Decision
	Err      error
	Duration time.Duration

	// Name is of the Rule that was asked for, also if Err is set; "" for a bare limit, and for several.
	Name string
	// Each is of several charges what each limit answered, as Outcome.Each; with Err, only the names are set. nil for one.
	Each []Decision
}

// StoreCall is one call to the store, with one or more transactions. The verbs make them, and so do leases, probes of a store
// that is down, and what pays back after an outage.
type StoreCall struct {
	Start        time.Time
	Duration     time.Duration
	Transactions int   // equal ones of several callers are one
	Operations   int   // of all of them; a Settle, Cancel, Progress or Renew may have none
	Err          error // of the call as a whole; nothing may be known of any transaction
	// Callers are the contexts of the calls of verbs that travelled together, so that a trace can link to them; nil if the
	// call was that of one caller, or of none, and then ctx is its own. The slice is the Observer's.
	Callers []context.Context
}
