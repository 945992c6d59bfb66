package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
)

// base is what "at 0s" means in a case file.
var base = driver.MicrosOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

const dayMicros = driver.Micros(24 * time.Hour / time.Microsecond)

// spanText is a span of time as people write it: 1d2h3m4.5s.
func spanText(m driver.Micros) string {
	if m < 0 {
		return "-" + spanText(-m)
	}
	switch {
	case m == 0:
		return "0s"
	case m < 1000:
		return fmt.Sprintf("%dµs", m)
	case m < 1_000_000:
		return decimal(m, 1000) + "ms"
	}
	var b strings.Builder
	units := []struct {
		length driver.Micros
		name   string
	}{{dayMicros, "d"}, {3_600_000_000, "h"}, {60_000_000, "m"}}
	for _, u := range units {
		if n := m / u.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			m %= u.length
		}
	}
	if m > 0 {
		b.WriteString(decimal(m, 1_000_000) + "s")
	}
	return b.String()
}

// decimal is m/unit with as many places as it takes; unit is a power of ten.
func decimal(m, unit driver.Micros) string {
	whole := strconv.FormatInt(int64(m/unit), 10)
	if m%unit == 0 {
		return whole
	}
	places := strconv.FormatInt(int64(unit+m%unit), 10)[1:]
	return whole + "." + strings.TrimRight(places, "0")
}

// parseSpan reads what spanText writes, and whatever else time.ParseDuration does.
func parseSpan(text string) (driver.Micros, error) {
	negative := strings.HasPrefix(text, "-")
	rest := strings.TrimPrefix(text, "-")
	if rest == "" {
		return 0, fmt.Errorf("%q is not a span of time", text)
	}
	var m driver.Micros
	if days, after, ok := strings.Cut(rest, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number of days", days)
		}
		m, rest = driver.Micros(n)*dayMicros, after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is not a span of time", text)
		}
		if d%time.Microsecond != 0 {
			return 0, fmt.Errorf("%q is not whole microseconds", text)
		}
		m += driver.Micros(d / time.Microsecond)
	}
	if negative {
		m = -m
	}
	return m, nil
}

// parseInstant reads a date with a zone's offset, or a span since base.
func parseInstant(text string) (driver.Micros, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return driver.MicrosOf(t), nil
	}
	m, err := parseSpan(text)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a time such as 2026-03-29T01:59:59.5Z nor a span such as 10s", text)
	}
	return base + m, nil
}

// instantText is what parseInstant reads, short where that can be.
func instantText(m driver.Micros) string {
	if d := m - base; -dayMicros < d && d < 10*dayMicros {
		return spanText(d)
	}
	return m.Time().Format(time.RFC3339Nano)
}

// answerTo is what a store answered to t, which it was to decide at now, as lines of a case file: one, or for a list one for
// all and one for each.
func answerTo(t *driver.Txn, now driver.Micros) []string {
	note := ""
	switch {
	case t.At != now && t.Verb == driver.Take && t.ID != "":
		note = " as at " + instantText(t.At) // it was decided before
	case t.At != now:
		note = fmt.Sprintf(" decided at %s, not by the clock it was given", instantText(t.At))
	}
	if t.Err != nil {
		return []string{errorText(t.Err) + note}
	}
	switch t.Verb {
	case driver.Reset, driver.Forget:
		return []string{"done" + note}
	case driver.Settle, driver.Cancel, driver.Renew:
		if !t.Allowed {
			note += " but Txn.Allowed is false"
		}
		if t.Verb == driver.Renew {
			return []string{"done" + note}
		}
	}
	if len(t.Ops) == 1 {
		line := opAnswer(t, &t.Ops[0]) + note
		if t.Allowed != t.Ops[0].Result.Allowed && (t.Verb <= driver.Hit || t.Verb == driver.Progress) {
			line += fmt.Sprintf(" but Txn.Allowed is %v", t.Allowed)
		}
		return []string{line}
	}
	lines := []string{yesNo(t.Allowed) + note}
	for i := range t.Ops {
		lines = append(lines, opAnswer(t, &t.Ops[i]))
	}
	return lines
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func opAnswer(t *driver.Txn, op *driver.Op) string {
	r := &op.Result
	switch t.Verb {
	case driver.Hit:
		if !r.Allowed {
			return "no"
		}
		return fmt.Sprintf("count %d ends %s", r.Used, spanText(r.ResetAt-t.At))
	case driver.Refund:
		return fmt.Sprintf("given %d used %d", r.Given, r.Used)
	case driver.Settle, driver.Cancel:
		return fmt.Sprintf("given %d", r.Given)
	case driver.Progress:
		return yesNo(r.Allowed)
	}
	var b strings.Builder
	if r.Never {
		b.WriteString("never")
		if r.Allowed {
			b.WriteString(" and yet allowed")
		}
	} else {
		b.WriteString(yesNo(r.Allowed))
	}
	if t.Verb == driver.Take {
		if op.Times > 0 {
			fmt.Fprintf(&b, " times %d", r.Times)
		} else if r.Times != map[bool]int64{true: 1}[t.Allowed] && len(t.Ops) == 1 {
			fmt.Fprintf(&b, " but Times is %d", r.Times)
		}
	}
	fmt.Fprintf(&b, " used %d left %d", r.Used, max(0, op.Size-r.Used))
	if r.RetryAfter != 0 || !r.Allowed {
		fmt.Fprintf(&b, " retry %s", spanText(r.RetryAfter))
	}
	fmt.Fprintf(&b, " reset %s", spanText(r.ResetAt-t.At))
	return b.String()
}

// errorNames are the errors that have a meaning for case files.
var errorNames = []struct {
	err  error
	name string
}{
	{driver.ErrFull, "full"}, {driver.ErrOverflow, "overflow"}, {driver.ErrCrossGroup, "cross-group"},
	{driver.ErrEnded, "ended"}, {driver.ErrClock, "clock"}, {driver.ErrIDReused, "id-reused"},
	{driver.ErrNoHold, "no-hold"}, {driver.ErrAmounts, "amounts"}, {driver.ErrCorrupt, "corrupt"}, {driver.ErrClosed, "closed"},
}

func errorText(err error) string {
	for _, e := range errorNames {
		if errors.Is(err, e.err) {
			text := "error " + e.name
			if !errors.Is(err, driver.ErrNotApplied) {
				text += " (which hides driver.ErrNotApplied)"
			}
			return text
		}
	}
	return fmt.Sprintf("error %q", err)
}

// capNames names caps for people.
func capNames(caps driver.Caps) string {
	names := []string{"bucket", "window", "counter", "budget", "slots", "list", "forget", "ids", "holds"}
	var all []string
	for i, name := range names {
		if caps&(1<<i) != 0 {
			all = append(all, name)
			caps &^= 1 << i
		}
	}
	if caps != 0 {
		all = append(all, fmt.Sprintf("%#x", uint64(caps)))
	}
	return strings.Join(all, ", ")
}
