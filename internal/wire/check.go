package wire

import (
	"errors"
	"fmt"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// ErrInvalidTxn says that a transaction breaks what package driver promises to stores.
var ErrInvalidTxn = errors.New("ration: invalid transaction")

// Bounds that the Limiter keeps and package driver does not name.
const (
	maxSpace = 2048
	minSpan  = 1_000                      // a millisecond
	maxSpan  = 87_660 * 3600 * 1_000_000  // ten years
	maxTTL   = 31 * 24 * 3600 * 1_000_000 // 31 days
)

// Check makes t ready for a store with info (it computes Gain, Unit and Tick), or says why the store must not see it: an
// error that wraps driver.ErrNotApplied and ErrInvalidTxn, ration.ErrUnsupported or driver.ErrCrossGroup.
//
// Fields that a verb has no use for are not looked at.
func Check(t *driver.Txn, info *driver.Info) error {
	if err := checkHead(t, info.Caps); err != nil {
		return err
	}
	if info.OneGroup {
		for i := range t.Ops {
			if a, b := &t.Ops[0].Key, &t.Ops[i].Key; a.Group != b.Group || a.Group == "" && a.ID != b.ID {
				return driver.ErrCrossGroup
			}
		}
	}
	for i := range t.Ops {
		if err := checkOp(t, &t.Ops[i], info.Caps); err != nil {
			return inOp(i, err)
		}
		for j := range i {
			if t.Ops[j].Key == t.Ops[i].Key {
				return invalidf("ops %d and %d have one key", j, i)
			}
		}
	}
	return nil
}

func invalidf(format string, args ...any) error {
	return &remote{kind: ErrInvalidTxn, detail: fmt.Sprintf(format, args...)}
}

func unsupported(what string) error {
	return &remote{kind: ration.ErrUnsupported, detail: "the server's store has no " + what}
}

func inOp(i int, err error) error {
	var r *remote
	if errors.As(err, &r) {
		r.detail = fmt.Sprintf("op %d: %s", i, r.detail)
	}
	return err
}

func checkHead(t *driver.Txn, caps driver.Caps) error {
	ofHold := ofHold(t)
	switch {
	case t.Verb < driver.Take || t.Verb > driver.Renew:
		return invalidf("there is no verb %d", t.Verb)
	case !ofHold && len(t.Ops) < 1 || len(t.Ops) > driver.MaxOps:
		return invalidf("%d ops are not between 1 and %d", len(t.Ops), driver.MaxOps)
	case len(t.ID) > driver.MaxTxnID:
		return invalidf("an id of %d bytes is longer than %d", len(t.ID), driver.MaxTxnID)
	case t.ID != "" && !ofHold && t.Verb != driver.Take:
		return invalidf("only a take has an id")
	case t.ID == "" && (ofHold || t.Hold):
		return invalidf("a hold needs an id")
	case (t.Hold || t.Return) && t.Verb != driver.Take, t.Return && !t.Hold:
		return invalidf("only a take makes a hold, and only a hold is given back at its expiry")
	case t.TTL < 0 || t.TTL > maxTTL || t.TTL == 0 && t.ID != "" && !ofHold:
		return invalidf("a life of %d µs is not between 1 µs and 31 days", t.TTL)
	case len(t.Amounts) > driver.MaxOps, len(t.Amounts) > 0 && t.Verb != driver.Settle && t.Verb != driver.Progress:
		return invalidf("amounts are for settle and progress, at most %d", driver.MaxOps)
	case t.Now < 0 || t.Now > driver.MaxNow:
		return invalidf("a clock of %d µs is not after 1970 and before 2155", t.Now)
	}
	for _, n := range t.Amounts {
		if n < 0 || n > driver.MaxNumber {
			return invalidf("an amount of %d is not between 0 and 2^53 − 1", n)
		}
	}
	switch {
	case (ofHold || t.Hold) && !caps.Has(driver.CapHolds):
		return unsupported("reservations")
	case t.ID != "" && !ofHold && !t.Hold && !caps.Has(driver.CapIDs):
		return unsupported("takes with an id")
	case len(t.Ops) > 1 && !caps.Has(driver.CapList):
		return unsupported("decisions over several keys")
	case t.Verb == driver.Forget && !caps.Has(driver.CapForget):
		return unsupported("forget")
	}
	return nil
}

func checkOp(t *driver.Txn, op *driver.Op, caps driver.Caps) error {
	if err := checkKey(&op.Key); err != nil {
		return err
	}
	least := int64(0)
	if t.Verb == driver.Hit {
		least = -driver.MaxNumber
	}
	switch {
	case op.Cost < least || op.Cost > driver.MaxNumber:
		return invalidf("a cost of %d is not between %d and 2^53 − 1", op.Cost, least)
	case op.Times < 0 || op.Times > driver.MaxNumber:
		return invalidf("%d times is not between 0 and 2^53 − 1", op.Times)
	case op.Times > 1 && (t.Verb != driver.Take || len(t.Ops) > 1 || t.ID != ""):
		return invalidf("times is for a take of one op without an id")
	case t.Verb == driver.Refund && (op.At < 1 || op.At > driver.MaxNumber):
		return invalidf("a refund needs the time of the charge")
	case t.Verb == driver.Hit && op.Kind != driver.Counter:
		return invalidf("a hit is for a counter")
	case op.Kind == driver.Slots && (t.Verb == driver.Take && !t.Hold || t.Verb == driver.Hit || t.Verb == driver.Refund):
		return invalidf("slots are held, not taken")
	case t.Verb == driver.Forget:
		return nil
	case op.Size < 0 || op.Size > driver.MaxNumber:
		return invalidf("a size of %d is not between 0 and 2^53 − 1", op.Size)
	}
	return checkKind(op, caps)
}

func checkKey(k *driver.Key) error {
	switch {
	case len(k.Space) < 1 || len(k.Space) > maxSpace:
		return invalidf("a space of %d bytes is not between 1 and %d", len(k.Space), maxSpace)
	case len(k.Group) > driver.MaxID:
		return invalidf("a group of %d bytes is longer than %d", len(k.Group), driver.MaxID)
	case len(k.ID) < 1 || len(k.ID) > driver.MaxID:
		return invalidf("a key of %d bytes is not between 1 and %d", len(k.ID), driver.MaxID)
	}
	for i := range len(k.Space) {
		if c := k.Space[i]; c < ' ' || c > '~' {
			return invalidf("a space is printable ASCII")
		}
	}
	return nil
}

// capOf is what a store must have for a kind.
var capOf = [...]driver.Caps{
	driver.Bucket: driver.CapBucket, driver.Window: driver.CapWindow, driver.Counter: driver.CapCounter,
	driver.Budget: driver.CapBudget, driver.Slots: driver.CapSlots,
}

func checkKind(op *driver.Op, caps driver.Caps) (err error) {
	if op.Kind < driver.Bucket || op.Kind > driver.Slots {
		return invalidf("there is no kind %d", op.Kind)
	}
	if !caps.Has(capOf[op.Kind]) {
		return unsupported("limits of the kind " + kinds[op.Kind])
	}
	if op.Kind != driver.Budget && (op.Span < minSpan || op.Span > maxSpan) {
		return invalidf("a span of %d µs is not between 1 ms and 87660 h", op.Span)
	}
	switch op.Kind {
	case driver.Bucket:
		if op.Gain, op.Unit, op.Tick, err = driver.Units(op.Size, op.Rate, op.Span); err != nil {
			return invalidf("%v", err)
		}
	case driver.Budget:
		for i, b := range op.Bounds {
			if b < -driver.MaxNumber || b > driver.MaxNumber || i > 0 && b <= op.Bounds[i-1] {
				return invalidf("the bounds of a budget must increase, within ±(2^53 − 1)")
			}
		}
	case driver.Slots:
		if op.Size > arith.MaxSlots {
			return invalidf("%d slots are more than %d", op.Size, arith.MaxSlots)
		}
	case driver.Window, driver.Counter:
	}
	return nil
}
