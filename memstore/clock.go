package memstore

import (
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// processClock is the clock of the process. Reading it is a good part of a decision, and time.Now reads two clocks, so in
// between it reads only the monotonic one and adds what the two differed by a moment ago.
type processClock struct {
	start time.Time
	shift atomic.Int64 // ns from the monotonic clock, which shows the time since start, to the Unix epoch
	from  atomic.Int64 // when shift was found, on the monotonic clock
}

// moment is how long the difference is used: so late a change of the wall clock is seen.
const moment = 10 * time.Millisecond

func (c *processClock) init() {
	c.start = time.Now()
	c.find()
}

// now is at least 1 and at most driver.MaxNow, whatever the machine thinks.
func (c *processClock) now() driver.Micros {
	since := time.Since(c.start)
	if passed := since - time.Duration(c.from.Load()); passed < 0 || passed >= moment {
		return c.find()
	}
	return micros(int64(since) + c.shift.Load())
}

func (c *processClock) find() driver.Micros {
	// If the machine halts the process between the two clocks of one time.Now, the wall clock of that pair is too early;
	// hardly so twice.
	t := time.Now()
	since := t.Sub(c.start)
	shift := t.UnixNano() - int64(since)
	if t = time.Now(); t.UnixNano()-int64(t.Sub(c.start)) > shift {
		since = t.Sub(c.start)
		shift = t.UnixNano() - int64(since)
	}
	c.shift.Store(shift)
	c.from.Store(int64(since))
	return micros(int64(since) + shift)
}

func micros(ns int64) driver.Micros { return min(max(driver.Micros(ns/1000), 1), driver.MaxNow) }
