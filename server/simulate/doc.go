// Package simulate replays an access log against limits that are only proposed: who would have been refused, how often, and
// for how long. It is what the command "ration simulate" runs.
//
//	report, err := simulate.Run(ctx, []simulate.Input{simulate.File("access.log")}, &simulate.Options{
//		Limits: []simulate.Limit{{Rule: ration.Rule{Name: "api", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}}}},
//	})
//
// A request of the log is a Take at the time that its line says, decided by the arithmetic that all stores use. Each limit is
// decided by itself, as if there were no other. What was refused is not tried again: the log's requests are all there are.
//
// Logs are read as a stream: memory is bounded by [Options.MaxMemory] and depends on the number of keys, not of lines. Files
// may be given in any order, packed by gzip or not, and may overlap in time, as those of several servers do: their lines are
// replayed in order of time. Within one file lines may be a little out of order. Time never goes back: such a line is
// decided at the latest time before it.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ration-go/ration"
)

// Options say what to replay, and how. Limits is required; the rest has defaults.
type Options struct {
	// Limits are decided side by side, each by itself. At most 64.
	Limits []Limit
	// Key is that of limits that have none: the names of fields. Default "address".
	Key []string
	// IPv4Prefix and IPv6Prefix say which addresses are one key: so many leading bits. 0, the default, is 32 and 64.
	IPv4Prefix, IPv6Prefix int
	// Format is the form of all inputs. Auto, the default, finds it out for each of them.
	Format Format
	// Fields says for JSON and CSV which field of the log is meant by a name: "time", "address", "user", "method", "path",
	// "status", "bytes", "host", "referer", "user-agent", or any other name that Key or Cost uses. What is not here is
	// looked for under the names that common servers use, and then under its own.
	Fields map[string]string
	// Paths are patterns of the paths to replay, with * for any text; one that begins with ! leaves paths out. None: all.
	// A path is that of the request without its query.
	Paths []string
	// Methods are the methods to replay, such as "POST". None: all.
	Methods []string
	// Cost names a field with the cost of a request, a whole number. Default: each request costs 1.
	Cost string
	// Suggest is percentages above 0, up to 100, with up to three decimals: see [Suggestion]. None: nothing is suggested.
	Suggest []float64
	// Top bounds the lists of keys that are refused most. 0 is 10, and 10000 is the most.
	Top int
	// MaxMemory bounds what is kept of keys, in bytes. 0 is 1 GiB. When it is full, the requests of further keys are counted
	// as [LimitReport.NotFollowed] and not decided.
	MaxMemory int64
	// HideKeys has numbers in place of keys in the report, and no text of lines.
	HideKeys bool
	// Progress, if not nil, is called about once a second, from the goroutine that called Run.
	Progress func(Progress)
}

// Limit is a limit to be tried.
type Limit struct {
	Rule ration.Rule // its Lease and OnError do not matter; a Concurrency limit is an error
	Key  []string    // the fields that make up a key; default that of Options
}

// Progress says how far a run is.
type Progress struct {
	Lines       int64
	Read, Bytes int64 // of the inputs, packed as they are; Bytes is 0 if it is not known
	Elapsed     time.Duration
}

// Input is a log.
type Input struct {
	Name string // for the report
	Size int64  // in bytes, for Progress; 0: not known
	// Open is called at most twice, if Again, and else once. Run closes what it answers.
	Open  func() (io.ReadCloser, error)
	Again bool // whether a second Open starts at the beginning, as that of a file does and standard input's does not
}

// File is a file as an input.
func File(path string) Input {
	in := Input{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		in.Size, in.Again = info.Size(), true
	}
	return in
}

// Stream is what can be read only once, such as standard input. It is not closed.
func Stream(name string, r io.Reader) Input {
	return Input{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}
}

// Bounds of Options.
const (
	maxLimits     = 64
	maxTop        = 10_000
	defaultTop    = 10
	defaultMemory = 1 << 30
)

func (o *Options) resolved() (*Options, error) {
	r := *o
	if len(r.Key) == 0 {
		r.Key = []string{fieldAddress}
	}
	r.IPv4Prefix, r.IPv6Prefix = orDefault(r.IPv4Prefix, 32), orDefault(r.IPv6Prefix, 64)
	r.Top = orDefault(r.Top, defaultTop)
	if r.MaxMemory == 0 {
		r.MaxMemory = defaultMemory
	}
	switch {
	case len(r.Limits) == 0:
		return nil, errors.New("no limits to try; give at least one, such as \"bucket 10/1m burst 20\"")
	case len(r.Limits) > maxLimits:
		return nil, fmt.Errorf("%d limits are more than %d; try fewer at a time", len(r.Limits), maxLimits)
	case r.IPv4Prefix < 0 || r.IPv4Prefix > 32:
		return nil, fmt.Errorf("a prefix of %d bits is not between 1 and 32 (IPv4)", r.IPv4Prefix)
	case r.IPv6Prefix < 0 || r.IPv6Prefix > 128:
		return nil, fmt.Errorf("a prefix of %d bits is not between 1 and 128 (IPv6)", r.IPv6Prefix)
	case r.Top < 0 || r.Top > maxTop:
		return nil, fmt.Errorf("a list of %d keys is not between 1 and %d", r.Top, maxTop)
	case r.MaxMemory < 1<<20:
		return nil, fmt.Errorf("%d bytes of memory are too few; give at least 1 MiB", r.MaxMemory)
	}
	for _, p := range r.Suggest {
		if !(p > 0 && p <= 100) {
			return nil, fmt.Errorf("%v is not a percentage above 0, up to 100", p)
		}
	}
	r.Limits = slices.Clone(r.Limits)
	for i := range r.Limits {
		l := &r.Limits[i]
		if err := l.Rule.Validate(); err != nil {
			return nil, err
		}
		if _, slots := l.Rule.Limit.(ration.Concurrency); slots {
			return nil, fmt.Errorf("%s: a log does not say how long a request ran, so a limit on how many run at a time cannot be tried", l.Rule.Limit)
		}
		if len(l.Key) == 0 {
			l.Key = r.Key
		}
		if slices.Contains(l.Key, "") {
			return nil, fmt.Errorf("%s: a part of the key has no name; name fields, such as address or user", l.Rule.Limit)
		}
	}
	return &r, nil
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

// Run replays inputs and reports. A log that breaks off is no error: the report says so, in [InputReport.Broken]. If ctx is
// done before the end, the report is of what was read until then, and not Complete.
//
// Errors say what is wrong with opts or with an input as a whole: it cannot be opened, its form is not known, or it lacks a
// field.
func Run(ctx context.Context, inputs []Input, opts *Options) (*Report, error) {
	o, err := opts.resolved()
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 {
		return nil, errors.New("no logs to read")
	}
	r, err := newReplay(o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.run(ctx, inputs); err != nil {
		return nil, err
	}
	return r.report(), nil
}
