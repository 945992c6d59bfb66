package pgstore

import (
	"log/slog"
	"time"
)

// Options of [New], [Migrate] and [SQL]. The zero value and nil are the defaults.
type Options struct {
	// Schema is the schema of the store's tables and functions. Default "ration". It may be shared with other tables: all
	// names in it begin with ration_.
	Schema string

	// NoMigrate keeps New from creating or changing anything: it fails with [ErrSchema] unless [Migrate] has been run. By
	// default New migrates a schema that is absent or older, which needs the right to create.
	NoMigrate bool

	// SweepEvery is the time between two rounds that remove expired rows and give back expired holds. Only one process at a
	// time does it. Default a second; below zero: no rounds are made, and somebody calls [Store.Sweep].
	SweepEvery time.Duration

	// Logger is told what an operator should know: a pooler that loses prepared statements, a sweep that fails. Default
	// slog.Default().
	Logger *slog.Logger
}

func (o *Options) resolved() Options {
	var r Options
	if o != nil {
		r = *o
	}
	if r.Schema == "" {
		r.Schema = "ration"
	}
	if r.SweepEvery == 0 {
		r.SweepEvery = time.Second
	}
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
	return r
}
