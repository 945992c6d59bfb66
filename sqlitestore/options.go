package sqlitestore

import "time"

// Options of [New]. The zero value and nil are the defaults.
type Options struct {
	// Synchronous says what a commit waits for. Default [Full].
	Synchronous Synchronous

	// Readers is the greatest number of connections for calls that only read. They are opened when needed. Default 2; below
	// zero: none, the writer reads. If the sql.DB has a limit of open connections, the store takes at most so many in all.
	Readers int

	// SweepEvery is the time between two passes that remove expired rows, whichever process makes them. Default a minute;
	// below zero: no passes are made, and somebody calls [Store.Sweep]. Holds that expire are looked for each second, or as
	// often as passes are made, if that is more often.
	SweepEvery time.Duration
}

// Synchronous says what a commit waits for.
type Synchronous uint8

const (
	// Full makes each commit wait for the disk: an acknowledged charge outlives a crash of the machine.
	Full Synchronous = iota

	// Normal leaves the disk to the system: an acknowledged charge outlives a crash of the process, but the charges of the
	// last moments may be lost if the machine stops. The file stays sound.
	Normal
)

func (o *Options) resolved() Options {
	var r Options
	if o != nil {
		r = *o
	}
	if r.Readers == 0 {
		r.Readers = 2
	}
	r.Readers = max(r.Readers, 0)
	if r.SweepEvery == 0 {
		r.SweepEvery = time.Minute
	}
	return r
}
