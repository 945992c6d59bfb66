package ration

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ration-go/ration/internal/calendar"
)

// Period is a calendar period. The zero Period is invalid.
type Period uint8

// The periods of a Budget.
const (
	Hour Period = iota + 1
	Day
	Week
	Month
	Year
)

// String is "hour", "day", "week", "month" or "year".
func (p Period) String() string {
	if p < Hour || p > Year {
		return fmt.Sprintf("Period(%d)", uint8(p))
	}
	return [...]string{"hour", "day", "week", "month", "year"}[p-1]
}

// Budget admits at most Limit in each calendar Period of a time zone. A period starts at the first instant whose local
// clock reads its date and hour or later, so days of 23 and 25 hours are days, and months have their own lengths. The
// text form is "budget 5000000/month Europe/Berlin from day 15 06:00".
//
// Budgets of different periods, zones or starts under one key are counted apart.
type Budget struct {
	Limit  int64
	Period Period     // required
	Zone   string     // IANA name, such as Europe/Berlin; "": UTC. "Local" is invalid: machines would disagree
	Month  time.Month // Year: the first month; 0: January
	Day    int        // Month and Year: the first day, 1–31, in a shorter month its last; Week: 1 (Monday) – 7; 0: 1
	Hour   int        // the first hour of the first day, 0–23. An Hour period has no zone, month, day or hour
}

func (Budget) limit() {}

func (b Budget) spec() calendar.Spec {
	return calendar.Spec{Period: calendar.Period(b.Period), Zone: b.Zone, Month: int(b.Month), Day: b.Day, Hour: b.Hour}
}

// Validate checks the numbers and loads the zone.
func (b Budget) Validate() error {
	if err := checkSize("a limit", b.Limit); err != nil {
		return err
	}
	if err := b.spec().Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
	}
	return nil
}

// String is "budget 100000/day Europe/Berlin". Defaults are left out.
func (b Budget) String() string {
	return "budget " + strconv.FormatInt(b.Limit, 10) + b.spec().String()
}
