package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// Namespace is that of the doctor's own keys. Applications use another.
const Namespace = "ration-doctor"

// Options of Run. The zero value and nil are the defaults.
type Options struct {
	// Timeout bounds each check. Default 10 s.
	Timeout time.Duration
	// MostRoundTrip is the median time of an answer of the store, above which there is a warning. Default 25 ms.
	MostRoundTrip time.Duration
	// MostOffset is how far the clocks of store and process may differ. Default 1 s.
	MostOffset time.Duration
	// Stage is where the program runs, as RATION_ENV says: "production", "development" or "" for not known.
	Stage string
	// Replicas is how many servers there are, all with this configuration; 0: not known.
	Replicas int
	// Now is the clock of the process. Default time.Now.
	Now func() time.Time
	// Getenv reads the variables in which a store has its secrets. Default os.Getenv.
	Getenv func(name string) string
	// Each is called with each finding when it is found, one at a time. Default: nobody.
	Each func(Finding)
}

// WithDefaults is a copy of o, which may be nil, with the defaults in the place of zeros.
func (o *Options) WithDefaults() *Options {
	r := &Options{}
	if o != nil {
		*r = *o
	}
	if r.Timeout <= 0 {
		r.Timeout = 10 * time.Second
	}
	if r.MostRoundTrip <= 0 {
		r.MostRoundTrip = 25 * time.Millisecond
	}
	if r.MostOffset <= 0 {
		r.MostOffset = time.Second
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.Getenv == nil {
		r.Getenv = os.Getenv
	}
	return r
}

// Check is one look at something. Do tells what it finds by say, ends soon after ctx is done, and reports whether there is a
// point in going on.
type Check struct {
	Name string
	Do   func(ctx context.Context, say func(Finding)) bool
}

// Subject is what Run looks at.
type Subject struct {
	// Store is the URL of the store, without secrets.
	Store string
	// Secrets are shown nowhere: they are replaced in all findings.
	Secrets []string
	// Checks come before the store is opened, in their order.
	Checks []Check
	// Open opens the store, without making or changing anything in it. It is called twice: who has the same counts must see
	// the same. A nil store without an error: it cannot be opened as it is, and a check has said why. It may be called in
	// a goroutine that outlives Run, if it does not end with its context.
	Open func(ctx context.Context) (driver.Store, error)
	// Explain turns an error of the store into a finding, if it knows more than Failure. May be nil.
	Explain func(err error) (Finding, bool)
	// Close is called in the end. May be nil.
	Close func()
}

// Run makes all checks of subject. It takes at most Options.Timeout for each, whatever the store does.
func Run(ctx context.Context, subject *Subject, opts *Options) *Report {
	x := &exam{Options: *opts.WithDefaults(), Subject: subject, report: &Report{Store: subject.Store}}
	x.journal = &journal{report: x.report, secrets: subject.Secrets, each: x.Each}
	if subject.Close != nil {
		defer subject.Close()
	}
	begun := time.Now()
	defer func() { x.report.Took = time.Since(begun) }()
	for _, c := range subject.Checks {
		if !x.check(ctx, c.Name, c.Do) {
			return x.report
		}
	}
	if subject.Open == nil || !x.check(ctx, "open", x.open) {
		return x.report
	}
	defer x.closeStores()
	for _, c := range []Check{
		{"scope", x.scope},
		{"round trip", x.roundTrip}, // the first sign of life
		{"store", x.ownCheck},
		{"race", x.race},
	} {
		if !x.check(ctx, c.Name, c.Do) {
			break
		}
	}
	return x.report
}

type exam struct {
	Options
	*Subject
	report  *Report
	journal *journal
	stores  []driver.Store // the same, opened twice
}

// grace is what a check may take beyond its time to end by itself.
const grace = time.Second

// check does one check in a goroutine of its own, so that one that does not heed its context is left behind.
func (x *exam) check(ctx context.Context, name string, do func(context.Context, func(Finding)) bool) bool {
	if ctx.Err() != nil {
		return false
	}
	x.report.Checks++
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	// What is found after its time is not told: somebody may be reading the report.
	found := make(chan Finding)
	over := make(chan struct{})
	ended := make(chan bool, 1)
	go func() {
		ended <- do(ctx, func(f Finding) {
			select {
			case found <- f:
			case <-over:
			}
		})
	}()
	defer close(over)
	late := time.NewTimer(x.Timeout + grace)
	defer late.Stop()
	for {
		select {
		case f := <-found:
			x.journal.say(f)
		case more := <-ended:
			return more
		case <-late.C:
			x.journal.say(Finding{Severity: Error, Code: "reach.silent", Where: x.Store,
				Text:   fmt.Sprintf("the check %q did not end in %v", name, x.Timeout),
				Remedy: "see whether the store hangs, and what stands between it and this machine"})
			return false
		}
	}
}

// failed tells of an error of the store, unless a check has said the same.
func (x *exam) failed(err error, say func(Finding)) {
	f, ok := Finding{}, false
	if x.Explain != nil {
		f, ok = x.Explain(err)
	}
	if !ok {
		f = Failure(err, x.Store)
	}
	if !x.journal.said(f.Code, f.Severity) {
		say(f)
	}
}

func (x *exam) open(ctx context.Context, say func(Finding)) bool {
	var stores []driver.Store
	for range 2 {
		s, err := x.Open(ctx)
		if err != nil || s == nil {
			for _, s := range stores {
				err = errors.Join(err, s.Close())
			}
			if err != nil {
				x.failed(err, say)
			}
			return false
		}
		stores = append(stores, s)
		if s.Info().Scope == driver.Process {
			break // another would be another
		}
	}
	if err := ctx.Err(); err != nil { // too late: nobody may be waiting
		for _, s := range stores {
			err = errors.Join(err, s.Close())
		}
		x.failed(err, say)
		return false
	}
	x.stores = stores
	return true
}

func (x *exam) closeStores() {
	for _, s := range x.stores {
		if err := s.Close(); err != nil {
			x.failed(err, x.journal.say)
		}
	}
}

// limiter is one over the nth store, wrapping around.
func (x *exam) limiter(n int) *ration.Limiter {
	return ration.New(kept{x.stores[n%len(x.stores)]}, &ration.Options{
		Namespace: Namespace, OnError: ration.DenyOnError, Outage: &ration.Outage{Failures: 1 << 30}, Logger: slog.New(slog.DiscardHandler),
	})
}

// kept is a store that a Limiter does not close.
type kept struct{ driver.Store }

func (kept) Close() error { return nil }

func (x *exam) scope(_ context.Context, say func(Finding)) bool {
	info := x.stores[0].Info()
	for _, f := range ScopeFindings(info, &x.Options) {
		say(f)
	}
	return true
}

// ownCheck asks the store itself.
func (x *exam) ownCheck(ctx context.Context, say func(Finding)) bool {
	c, ok := x.stores[0].(driver.Checker)
	if !ok {
		return true
	}
	for _, f := range c.Check(ctx) {
		say(Of(f))
	}
	return true
}

// ScopeFindings is what follows from who shares the counts of a store, and from how long it keeps them.
func ScopeFindings(info driver.Info, opts *Options) []Finding {
	servers := fmt.Sprintf("%d servers", opts.Replicas)
	const shared = "keep them in PostgreSQL, Redis or Valkey: --store postgres://…, redis://…"
	switch info.Scope {
	case driver.Process:
		switch {
		case opts.Replicas > 1:
			return []Finding{{Severity: Error, Code: "scope.process", Remedy: shared,
				Text: "counts are of each process alone, and there are " + servers + ": callers get a multiple of every limit and budget"}}
		case opts.Stage == "production" && opts.Replicas == 1:
			return []Finding{{Severity: Warning, Code: "scope.forgets", Remedy: "keep them in a file, sqlite:PATH, or in a shared store",
				Text: "counts are in the memory of the process: a restart forgets all limits and budgets"}}
		case opts.Stage != "development":
			return []Finding{{Severity: Warning, Code: "scope.process",
				Text:   "counts are kept by each process alone: with more than one, callers get a multiple of every limit and budget, and a restart forgets them",
				Remedy: shared + "; where that is meant, say RATION_ENV=development"}}
		}
	case driver.Machine:
		switch {
		case opts.Replicas > 1:
			return []Finding{{Severity: Warning, Code: "scope.machine",
				Text:   "counts are shared by the processes of one machine, and there are " + servers + ": on several machines, callers get a multiple of every limit and budget",
				Remedy: shared + "; on one machine, this is well"}}
		case opts.Stage == "production" && opts.Replicas == 0:
			return []Finding{{Severity: Note, Code: "scope.machine",
				Text:   "counts are shared by the processes of one machine, not with other machines",
				Remedy: "with servers on several machines, " + shared + "; with one, say --replicas 1"}}
		}
	}
	return nil
}
