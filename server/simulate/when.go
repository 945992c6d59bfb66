package simulate

import (
	"bytes"

	"github.com/ration-go/ration/driver"
)

// Times are read by hand: time.Parse takes longer than all the rest of a line.

// latest is the last that a limit's arithmetic takes as now. Times before 1970 are none either.
const latest = int64(driver.MaxNow)

// parseTime reads a time as logs have it: RFC 3339, also with a space or without a zone (then it is UTC); that of the common
// log format, also in brackets; or a number since the Unix epoch, in seconds, also with a part behind a point, or in
// milli-, micro- or nanoseconds, which their size tells apart.
func parseTime(b []byte) (micros int64, ok bool) {
	b = bytes.TrimSpace(b)
	if n := len(b); n > 2 && b[0] == '[' && b[n-1] == ']' {
		b = b[1 : n-1]
	}
	switch {
	case len(b) < 9:
		return 0, false
	case b[2] == '/':
		micros, ok = parseCommonTime(b)
	case b[4] == '-':
		micros, ok = parseDate(b)
	default:
		micros, ok = parseEpoch(b)
	}
	return micros, ok && micros > 0 && micros <= latest
}

// commonTime reads the times of the common log format. Most lines have that of the line before.
type commonTime struct {
	last   [commonLen]byte
	micros int64
}

const commonLen = len("10/Oct/2000:13:55:36 -0700")

func (c *commonTime) parse(b []byte) (micros int64, ok bool) {
	if string(b) == string(c.last[:]) {
		return c.micros, true
	}
	if micros, ok = parseCommonTime(b); !ok || micros <= 0 || micros > latest {
		return 0, false
	}
	copy(c.last[:], b)
	c.micros = micros
	return micros, true
}

func parseCommonTime(b []byte) (micros int64, ok bool) {
	if len(b) != commonLen || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return 0, false
	}
	d := digits{ok: true}
	day, year := d.two(b), d.two(b[7:])*100+d.two(b[9:])
	hour, minute, second := d.two(b[12:]), d.two(b[15:]), d.two(b[18:])
	zone, zoned := parseZone(b[21:])
	return civil(year, monthNamed(b[3:6]), day, hour, minute, second, zone, d.ok && zoned)
}

// parseDate reads 2006-01-02T15:04:05.999999999Z07:00 and its relatives.
func parseDate(b []byte) (micros int64, ok bool) {
	const least = len("2006-01-02T15:04:05")
	if len(b) < least || b[7] != '-' || b[10] != 'T' && b[10] != ' ' && b[10] != 't' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	d := digits{ok: true}
	year, month, day := d.two(b)*100+d.two(b[2:]), d.two(b[5:]), d.two(b[8:])
	hour, minute, second := d.two(b[11:]), d.two(b[14:]), d.two(b[17:])
	rest := b[least:]
	part := int64(0)
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		n := 1
		for scale := int64(100_000); n < len(rest) && '0' <= rest[n] && rest[n] <= '9'; n++ {
			part += int64(rest[n]-'0') * scale
			scale /= 10
		}
		if n == 1 {
			return 0, false
		}
		rest = rest[n:]
	}
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	zone := int64(0)
	switch {
	case len(rest) == 0, len(rest) == 1 && (rest[0] == 'Z' || rest[0] == 'z'), string(rest) == "UTC":
	default:
		var zoned bool
		if zone, zoned = parseZone(rest); !zoned {
			return 0, false
		}
	}
	micros, ok = civil(year, month, day, hour, minute, second, zone, d.ok)
	return micros + part, ok
}

// parseEpoch reads a number since 1970. Those of seconds have at most 11 digits until the year 5138.
func parseEpoch(b []byte) (micros int64, ok bool) {
	whole, part, n := int64(0), int64(0), 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		if n == 19 {
			return 0, false
		}
		whole = whole*10 + int64(b[n]-'0')
		n++
	}
	if n == 0 || whole < 0 {
		return 0, false
	}
	scale := int64(100_000)
	if n < len(b) && b[n] == '.' {
		n++
		for n < len(b) && '0' <= b[n] && b[n] <= '9' {
			part += int64(b[n]-'0') * scale
			scale /= 10
			n++
		}
	}
	if n < len(b) {
		return 0, false
	}
	switch {
	case whole < 1e11:
		return whole*1_000_000 + part, true
	case whole < 1e14:
		return whole*1_000 + part/1_000, true
	case whole < 1e17:
		return whole, true
	}
	return whole / 1_000, true
}

// parseZone reads -0700 or -07:00, in seconds.
func parseZone(b []byte) (seconds int64, ok bool) {
	if len(b) == 6 && b[3] == ':' {
		b = append(make([]byte, 0, 5), b[0], b[1], b[2], b[4], b[5])
	}
	if len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	d := digits{ok: true}
	hours, minutes := d.two(b[1:]), d.two(b[3:])
	if seconds = int64(hours)*3600 + int64(minutes)*60; b[0] == '-' {
		seconds = -seconds
	}
	return seconds, d.ok && hours < 24 && minutes < 60
}

// digits reads digits, and remembers whether all were.
type digits struct{ ok bool }

func (d *digits) two(b []byte) int {
	tens, ones := b[0]-'0', b[1]-'0'
	if tens > 9 || ones > 9 {
		d.ok = false
		return 0
	}
	return int(tens)*10 + int(ones)
}

func monthNamed(b []byte) int {
	switch string(b) {
	case "Jan":
		return 1
	case "Feb":
		return 2
	case "Mar":
		return 3
	case "Apr":
		return 4
	case "May":
		return 5
	case "Jun":
		return 6
	case "Jul":
		return 7
	case "Aug":
		return 8
	case "Sep":
		return 9
	case "Oct":
		return 10
	case "Nov":
		return 11
	case "Dec":
		return 12
	}
	return 0
}

// civil is a date and a time of day in a zone, so many seconds east, as an instant. A leap second is the one after it.
func civil(year, month, day, hour, minute, second int, zone int64, ok bool) (micros int64, _ bool) {
	if !ok || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 60 {
		return 0, false
	}
	// Days are counted in years that begin in March, so that the day that may be missing is the last.
	y, m := int64(year), int64(month)
	if m <= 2 {
		y--
		m += 12
	}
	days := y*365 + y/4 - y/100 + y/400 + (m*153-457)/5 + int64(day) - 719469
	return ((days*24+int64(hour))*3600 + int64(minute)*60 + int64(second) - zone) * 1_000_000, true
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}
