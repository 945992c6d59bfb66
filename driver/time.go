package driver

import "time"

// Micros is an instant (microseconds since the Unix epoch) or a span of time, in microseconds. It is a type of its own,
// so that the compiler tells it from time.Duration.
type Micros int64

// Century is the longest time that is ever answered: 100 years of 365.25 days.
const Century Micros = 100 * 8766 * 3600 * 1e6

// MaxNow is the latest instant that a clock may show: a century before 2^53 microseconds, in the year 2155.
const MaxNow Micros = MaxNumber - Century

// MicrosOf is t rounded down to a microsecond.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time is m as an instant, in UTC.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// Duration is m as a span of time; it stops at ±292 years.
func (m Micros) Duration() time.Duration {
	const most = Micros(1<<63-1) / Micros(time.Microsecond)
	return time.Duration(min(max(m, -most), most)) * time.Microsecond
}
