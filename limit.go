package ration

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// A Limit says what is allowed. It is a value of one of the types TokenBucket, SlidingWindow, FixedWindow, Budget,
// Concurrency and Rule; anything else, also a pointer to one, is ErrInvalidLimit.
//
// A size of 0 is valid and admits nothing: in Go a zero is not "absent".
type Limit interface {
	// Validate says what is wrong with the limit. The verbs check the same.
	Validate() error
	// String is the text form, which ParseLimit reads back to an equal value. A Rule's is that of its Limit.
	String() string
	limit()
}

// TokenBucket admits Burst at once and Refill over time. A new key is full; it refills continuously and never above
// Burst. All charges in any time are at most Burst + Refill × time. Burst is 0 to 2^51 − 1, less with odd rates; Validate
// names a near rate that works. The text form is "bucket 10/1m burst 20".
//
// When the numbers change, usage stays: a larger Burst refills, it is not granted.
type TokenBucket struct {
	Burst  int64
	Refill Rate
}

// SlidingWindow admits at most Limit in any Window: each use counts until Window after it, and frees exactly then. Up to
// 256 uses are kept apart; above that, those that lie close together are joined, and a use may free late by less than
// Window / 128, never early. Window is 1 ms to 87 660 h. The text form is "sliding 3/24h".
type SlidingWindow struct {
	Limit  int64
	Window time.Duration
}

// FixedWindow admits at most Limit in a Window that opens at the first use. Up to twice the Limit can pass around the end
// of a window; SlidingWindow does not do that. It counts on the same counter as Hit. Window is 1 ms to 87 660 h. The text
// form is "fixed 100/1m".
type FixedWindow struct {
	Limit  int64
	Window time.Duration
}

// Concurrency admits at most Limit at a time. Its slots are held, so only Reserve takes them; Settle and Cancel let go, and
// so does the end of the Lease if the holder is dead. Renew, Progress and KeepAlive keep a slot. Limit is 0 to 4096, Lease
// 1 s to 31 days. The text form is "concurrent 5 lease 30s".
type Concurrency struct {
	Limit int64
	Lease time.Duration
}

func (Concurrency) limit() {}

// Validate checks the numbers.
func (c Concurrency) Validate() error {
	if c.Limit < 0 || c.Limit > arith.MaxSlots {
		return invalidf(ErrInvalidLimit, "a limit of %d slots is not between 0 and %d", c.Limit, arith.MaxSlots)
	}
	if c.Lease < minTTL || c.Lease > maxTTL {
		return invalidf(ErrInvalidLimit, "a lease of %v is not between %v and %s", c.Lease, minTTL, durationText(maxTTL))
	}
	return nil
}

// String is "concurrent 5 lease 30s".
func (c Concurrency) String() string {
	return "concurrent " + strconv.FormatInt(c.Limit, 10) + " lease " + durationText(c.Lease)
}

func (TokenBucket) limit()   {}
func (SlidingWindow) limit() {}
func (FixedWindow) limit()   {}

// Validate checks the numbers.
func (b TokenBucket) Validate() error {
	if err := checkSize("a burst", b.Burst); err != nil {
		return err
	}
	if b.Refill.N < 1 || b.Refill.N > MaxCount {
		return invalidf(ErrInvalidLimit, "a refill of %d is not between 1 and 2^53 − 1; a limit that admits nothing has burst 0", b.Refill.N)
	}
	if err := checkSpan("a refill period", b.Refill.Per); err != nil {
		return err
	}
	_, _, _, err := driver.Units(b.Burst, b.Refill.N, micros(b.Refill.Per))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
	}
	return nil
}

// Validate checks the numbers.
func (w SlidingWindow) Validate() error {
	if err := checkSize("a limit", w.Limit); err != nil {
		return err
	}
	return checkSpan("a window", w.Window)
}

// Validate checks the numbers.
func (w FixedWindow) Validate() error { return SlidingWindow(w).Validate() }

// String is "bucket 10/1m burst 20".
func (b TokenBucket) String() string {
	return "bucket " + b.Refill.String() + " burst " + strconv.FormatInt(b.Burst, 10)
}

// String is "sliding 3/24h".
func (w SlidingWindow) String() string { return "sliding " + Rate{w.Limit, w.Window}.String() }

// String is "fixed 100/1m".
func (w FixedWindow) String() string { return "fixed " + Rate{w.Limit, w.Window}.String() }

// micros is d in whole microseconds, rounded up: against the caller.
func micros(d time.Duration) driver.Micros {
	return driver.Micros((d + time.Microsecond - 1) / time.Microsecond)
}
