package storetest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
	"github.com/ration-go/ration/internal/calendar"
)

// limit is a limit as a case file declares it.
type limit struct {
	op       driver.Op // the numbers, and the Space of its keys without the namespace
	calendar *calendar.Calendar
}

var kindCaps = map[driver.Kind]driver.Caps{
	driver.Bucket: driver.CapBucket, driver.Window: driver.CapWindow, driver.Counter: driver.CapCounter,
	driver.Budget: driver.CapBudget, driver.Slots: driver.CapSlots,
}

// kindNames are the words that text forms begin with.
var kindNames = map[driver.Kind]string{
	driver.Bucket: "bucket", driver.Window: "sliding", driver.Counter: "fixed", driver.Budget: "budget", driver.Slots: "concurrent",
}

// kindLetters are what a Space says of its kind.
var kindLetters = map[driver.Kind]string{driver.Bucket: "b", driver.Window: "w", driver.Counter: "c", driver.Budget: "m", driver.Slots: "s"}

// space is what all keys of a rule have in common, without the namespace: kind, name of the rule, calendar.
func space(kind driver.Kind, rule, calendarText string) string {
	return "|" + kindLetters[kind] + "|" + rule + "|" + calendarText
}

// parseLimit reads the text form of a limit, under the name of a rule or "".
func parseLimit(rule, text string) (l limit, err error) {
	kind, rest, _ := strings.Cut(text, " ")
	if kind == "concurrent" {
		size, lease, ok := strings.Cut(rest, " lease ")
		if !ok {
			return l, fmt.Errorf("%q says no lease", text)
		}
		rest = size + "/" + lease
	}
	size, rest, ok := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(size, 10, 64)
	if !ok || err != nil {
		return l, fmt.Errorf("%q has no number and period such as 10/1m", text)
	}
	l.op.Size = n
	calendarText := ""
	switch kind {
	case "bucket":
		l.op.Kind, l.op.Rate = driver.Bucket, n
		period, burst, ok := strings.Cut(rest, " burst ")
		if !ok {
			return l, fmt.Errorf("%q says no burst", text)
		}
		if l.op.Size, err = strconv.ParseInt(burst, 10, 64); err != nil {
			return l, fmt.Errorf("burst %q is not a number", burst)
		}
		if l.op.Span, err = parseSpan(period); err != nil {
			return l, err
		}
		l.op.Gain, l.op.Unit, l.op.Tick, err = driver.Units(l.op.Size, l.op.Rate, l.op.Span)
	case "sliding":
		l.op.Kind = driver.Window
		l.op.Span, err = parseSpan(rest)
	case "fixed":
		l.op.Kind = driver.Counter
		l.op.Span, err = parseSpan(rest)
	case "concurrent":
		l.op.Kind = driver.Slots
		l.op.Span, err = parseSpan(rest)
	case "budget":
		l.op.Kind = driver.Budget
		var spec calendar.Spec
		if spec, err = calendar.Parse("/" + rest); err != nil {
			return l, err
		}
		calendarText = spec.String()
		l.calendar, err = calendar.New(spec)
	default:
		return l, fmt.Errorf("%q is not a kind of limit", kind)
	}
	if err != nil {
		return l, err
	}
	if l.op.Size < 0 || l.op.Size > driver.MaxNumber || l.op.Kind == driver.Slots && l.op.Size > arith.MaxSlots || l.op.Kind != driver.Budget && l.op.Span <= 0 {
		return l, fmt.Errorf("%q is out of range", text)
	}
	l.op.Key.Space = space(l.op.Kind, rule, calendarText)
	return l, nil
}

// at is the op of l for one key, with the periods of a budget around the caller's time.
func (l limit) at(key driver.Key, cost int64, caller driver.Micros) driver.Op {
	op := l.op
	op.Key.Group, op.Key.ID = key.Group, key.ID
	op.Cost = cost
	if l.calendar != nil {
		for i, n := range l.calendar.Bounds(int64(caller)) {
			op.Bounds[i] = driver.Micros(n)
		}
	}
	return op
}
