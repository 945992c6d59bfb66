package telemetry

import (
	"context"
	"errors"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// outcome is how a call ended.
type outcome int

const (
	allowed  outcome = iota // or done, where nothing is decided
	refused                 // by the limit
	failed                  // nobody could tell: the store's trouble
	invalid                 // the call was wrong
	canceled                // the caller went away
	outcomes = iota
)

func (o outcome) String() string {
	return [outcomes]string{"allowed", "refused", "error", "invalid", "canceled"}[o]
}

// outcomeOf is how a call ended that was answered d and err.
func outcomeOf(d *ration.Decision, err error) outcome {
	switch {
	case err == nil && d.Allowed:
		return allowed
	case err == nil:
		return refused
	}
	if _, late := errors.AsType[*ration.RefusedError](err); late {
		return refused
	}
	if errors.Is(err, context.Canceled) {
		return canceled
	}
	for _, own := range []error{
		ration.ErrInvalidKey, ration.ErrInvalidLimit, ration.ErrInvalidCost, ration.ErrInvalidTime, ration.ErrInvalidID, ration.ErrUnsupported,
		ration.ErrOverflow, ration.ErrCrossGroup, ration.ErrIDReused, ration.ErrEnded, ration.ErrNoReservation, driver.ErrAmounts,
	} {
		if errors.Is(err, own) {
			return invalid
		}
	}
	return failed
}

// outcomeOfStore is how a call to the store ended.
func outcomeOfStore(err error) string {
	if err != nil {
		return failed.String()
	}
	return "ok"
}
