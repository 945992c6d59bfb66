package ration

import (
	"errors"
	"fmt"

	"github.com/ration-go/ration/driver"
)

// Errors of the verbs, for errors.Is. An error means: could not tell. Nothing was charged, unless it is
// ErrOutcomeUnknown.
var (
	ErrInvalidKey   = errors.New("ration: invalid key")
	ErrInvalidLimit = errors.New("ration: invalid limit")
	ErrInvalidCost  = errors.New("ration: invalid cost")
	ErrInvalidTime  = errors.New("ration: invalid time")
	ErrInvalidID    = errors.New("ration: invalid id")

	// ErrOutcomeUnknown says that the store failed after it may have charged.
	ErrOutcomeUnknown = errors.New("ration: outcome unknown: it may have been charged")
	// ErrOverloaded says that too many calls wait for the store already.
	ErrOverloaded = errors.New("ration: overloaded")
	// ErrUnsupported says that the store cannot do this.
	ErrUnsupported = errors.New("ration: not supported by this store")
)

// Errors that stores share with the Limiter.
var (
	ErrFull       = driver.ErrFull       // the store has no room for another key
	ErrOverflow   = driver.ErrOverflow   // the count would pass 2^53 − 1
	ErrCrossGroup = driver.ErrCrossGroup // the keys of a list are not of one group
	ErrEnded      = driver.ErrEnded      // the reservation ended in another way
	ErrIDReused   = driver.ErrIDReused   // the id was used for another request
	ErrClosed     = driver.ErrClosed     // the Limiter is closed

	// ErrNoReservation says that no reservation of this ID is known: there never was one, or it ended a day ago.
	ErrNoReservation = driver.ErrNoHold
)

// invalidf is kind with what was wrong and what to do. Its arguments must not hold a Limit: it would escape to the heap at
// every call of a verb.
func invalidf(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}

// unknown wraps err, unless it says that surely nothing was charged.
func unknown(err error) error {
	if errors.Is(err, driver.ErrNotApplied) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// notSent is err of a call that never reached the store.
func notSent(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotApplied, err) }

// RefusedError is how Wait says no: the cost can never pass (Never), or not before ctx ends; then it also is
// context.DeadlineExceeded.
type RefusedError struct {
	Decision
	late error
}

// Error names the rule and when to try again.
func (e *RefusedError) Error() string {
	name := "the limit"
	if e.Name != "" {
		name = "rule " + e.Name
	}
	if e.Never {
		return fmt.Sprintf("ration: %s of %d can never admit this cost", name, e.Limit)
	}
	return fmt.Sprintf("ration: %s admits this cost in %v at the earliest, after the deadline", name, e.RetryAfter)
}

// Unwrap is context.DeadlineExceeded if the deadline was too near, else nil.
func (e *RefusedError) Unwrap() error { return e.late }
