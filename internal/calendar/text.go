package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String is the text form of s, which follows a budget's size: "/<period>[ <Zone>][ from[ <month>][ <weekday>| day N][ HH:00]]".
// What is by default is left out, so the text of s and of its normal form are one.
func (s Spec) String() string {
	s = s.Normal()
	var b strings.Builder
	b.WriteByte('/')
	b.WriteString(s.Period.String())
	if s.Zone != "" && s.Zone != utc {
		b.WriteByte(' ')
		b.WriteString(s.Zone)
	}
	var from []string
	if s.Month != 0 && (s.Month != 1 || s.Period != Year || s.Day != 1) {
		from = append(from, monthName(s.Month))
	}
	switch {
	case s.Day == 0 || s.Day == 1 && s.Period != Day:
	case s.Period == Week:
		from = append(from, weekdayName(s.Day))
	default:
		from = append(from, "day "+strconv.Itoa(s.Day))
	}
	if s.Hour != 0 {
		from = append(from, fmt.Sprintf("%02d:00", s.Hour))
	}
	if len(from) > 0 {
		b.WriteString(" from ")
		b.WriteString(strings.Join(from, " "))
	}
	return b.String()
}

func monthName(m int) string { return time.Month(m).String() }

// weekdayName is the name of a day numbered from Monday, which is 1.
func weekdayName(d int) string { return time.Weekday(d % 7).String() }

// Parse reads what String writes, and answers a valid Spec in its normal form. Names of months and weekdays may be in either
// case; all else is strict.
func Parse(text string) (Spec, error) {
	period, rest, more := strings.Cut(text, " ")
	p := 0
	if strings.HasPrefix(period, "/") {
		p = max(0, slices.Index(periodNames[:], period[1:]))
	}
	if p == 0 {
		return Spec{}, fmt.Errorf("%.64q: use /hour, /day, /week, /month or /year", period)
	}
	s := Spec{Period: Period(p)}
	if more {
		words := strings.Split(rest, " ")
		if slices.Contains(words, "") {
			return Spec{}, errors.New("one space between words, please, and none at the end")
		}
		if words[0] != "from" {
			s.Zone, words = words[0], words[1:]
		}
		if len(words) > 0 {
			if err := s.parseFrom(words); err != nil {
				return Spec{}, err
			}
		}
	}
	if err := s.Validate(); err != nil {
		return Spec{}, err
	}
	return s.Normal(), nil
}

func (s *Spec) parseFrom(words []string) error {
	if words[0] != "from" {
		return fmt.Errorf("%.64q after the zone: use from, then month, day and hour as far as needed", words[0])
	}
	words = words[1:]
	if len(words) == 0 {
		return errors.New("nothing after from: name a month, a weekday or day N, or an hour as 06:00")
	}
	if m := named(words, 12, monthName); m != 0 {
		s.Month, words = m, words[1:]
	}
	if d := named(words, 7, weekdayName); d != 0 {
		if s.Period != Week {
			return fmt.Errorf("%s with %v as the period: use day N", weekdayName(d), s.Period)
		}
		s.Day, words = d, words[1:]
	} else if len(words) > 0 && words[0] == "day" {
		if s.Period == Week {
			return errors.New("day N with week as the period: use a weekday, such as Monday")
		}
		if len(words) == 1 {
			return errors.New("no number after day")
		}
		if s.Day = number(words[1]); s.Day == 0 {
			return fmt.Errorf("day %.64q: use 1 to 31", words[1])
		}
		words = words[2:]
	}
	if len(words) > 0 {
		h, ok := strings.CutSuffix(words[0], ":00")
		if !ok || len(h) != 2 {
			return fmt.Errorf("%.64q after from: use month, then weekday or day N, then a whole hour as 06:00", words[0])
		}
		if s.Hour = number(strings.TrimPrefix(h, "0")); h != "00" && s.Hour == 0 || s.Hour > 23 {
			return fmt.Errorf("hour %.64q: use 00:00 to 23:00", words[0])
		}
		words = words[1:]
	}
	if len(words) > 0 {
		return fmt.Errorf("%.64q after the hour: nothing belongs there", words[0])
	}
	return nil
}

// named is the number from 1 to n whose name the first word is, or 0.
func named(words []string, n int, name func(int) string) int {
	for i := 1; i <= n && len(words) > 0; i++ {
		if strings.ToLower(words[0]) == strings.ToLower(name(i)) { // EqualFold takes a ſ for an s
			return i
		}
	}
	return 0
}

// number is the value of one or two digits, the first not 0; else it is 0.
func number(text string) int {
	if len(text) < 1 || len(text) > 2 || text[0] == '0' {
		return 0
	}
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}
