package calendar

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Period is the length of a budget's period, numbered as in package ration. The zero Period is not valid.
type Period uint8

// The periods. An Hour is an hour of UTC; the others are of the calendar of a zone.
const (
	Hour Period = iota + 1
	Day
	Week
	Month
	Year
)

var periodNames = [...]string{Hour: "hour", Day: "day", Week: "week", Month: "month", Year: "year"}

// String is the period's name in lower case.
func (p Period) String() string {
	if p < Hour || p > Year {
		return fmt.Sprintf("period(%d)", uint8(p))
	}
	return periodNames[p]
}

// Spec says what a budget's periods are. It is comparable: two Specs mean the same periods, for the identity of a count,
// if and only if their normal forms are equal.
type Spec struct {
	Period Period
	Zone   string // IANA name; "": UTC
	Month  int    // first month of a Year, 1 to 12; 0: January
	Day    int    // first day: Month and Year 1 to 31, or the last of a shorter month; Week 1 (Monday) to 7; 0: 1
	Hour   int    // first hour, 0 to 23
}

// Normal is s with its defaults spelled out, where they apply to the period. A zone counts as it is spelled.
func (s Spec) Normal() Spec {
	if s.Period == Hour {
		return s
	}
	if s.Zone == "" {
		s.Zone = utc
	}
	if s.Day == 0 && s.Period != Day {
		s.Day = 1
	}
	if s.Month == 0 && s.Period == Year {
		s.Month = 1
	}
	return s
}

// Validate says what is wrong with s, and what would be right.
func (s Spec) Validate() error {
	_, err := s.check()
	return err
}

func (s Spec) check() (*time.Location, error) {
	days := 31
	switch s.Period {
	case Hour:
		if s != (Spec{Period: Hour}) {
			return nil, errors.New("an hour is one of UTC: leave zone, month, day and hour out, or use day as the period")
		}
	case Day:
		if s.Day != 0 {
			return nil, fmt.Errorf("day %d with day as the period: leave it out, or use week, month or year", s.Day)
		}
	case Week:
		days = 7
	case Month, Year:
	default:
		return nil, errors.New("no period: use hour, day, week, month or year")
	}
	switch {
	case s.Month != 0 && s.Period != Year:
		return nil, fmt.Errorf("month %d with %v as the period: leave it out, or use year", s.Month, s.Period)
	case s.Month < 0 || s.Month > 12:
		return nil, fmt.Errorf("month %d: use 1 to 12", s.Month)
	case s.Day < 0 || s.Day > days:
		return nil, fmt.Errorf("day %d with %v as the period: use 1 to %d", s.Day, s.Period, days)
	case s.Hour < 0 || s.Hour > 23:
		return nil, fmt.Errorf("hour %d: use 0 to 23", s.Hour)
	}
	return loadZone(s.Zone)
}

const utc = "UTC"

// maxZone is more than the length of any name in the database.
const maxZone = 64

// zones keeps the zones that were asked for. Only names that exist get into it, so it stays small.
var zones sync.Map

func loadZone(name string) (*time.Location, error) {
	if name == "" || name == utc {
		return time.UTC, nil
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	switch lower := strings.ToLower(name); {
	case lower == "local" || lower == "localtime" || lower == "posixrules" || lower == "factory":
		return nil, fmt.Errorf("zone %.64q is another one on each machine: name one, such as Europe/Berlin", name)
	case strings.HasPrefix(lower, "posix/") || strings.HasPrefix(lower, "right/"):
		return nil, fmt.Errorf("zone %.64q: leave out %s, so that all machines know it", name, name[:len("posix/")])
	case !zoneName(name):
		return nil, unknownZone(name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknownZone(name)
	}
	zones.Store(name, zone)
	return zone, nil
}

func unknownZone(name string) error {
	return fmt.Errorf("zone %.64q is not known: use a name of the IANA database, such as Europe/Berlin (not an offset); if the name is right, import time/tzdata or install tzdata", name)
}

// zoneName reports whether name can be one of the database, and not another path to a file of it.
func zoneName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '+' || part[0] == '-' {
			return false
		}
	}
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_+-/", r)
	}
	return len(name) <= maxZone && name[0] >= 'A' && strings.IndexFunc(name, other) < 0
}
