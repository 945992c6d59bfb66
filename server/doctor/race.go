package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

const (
	samples = 15
	racers  = 16
	laps    = 6 // takes of each
	prizes  = 37

	tidying = 3 * time.Second
)

// trial is a limit that outlives no doctor by more than a minute, and whose name no application has.
var trial = ration.Rule{Name: "doctor-trial", Limit: ration.SlidingWindow{Limit: prizes, Window: time.Minute}}

// roundTrip measures answers to questions, which write nothing.
func (x *exam) roundTrip(ctx context.Context, say func(Finding)) bool {
	l := x.limiter(0)
	defer l.Close() //nolint:errcheck // it holds nothing
	key := ration.KeyOf(rand.Text())
	var took []time.Duration
	var offset time.Duration
	for i := range samples + 1 {
		sent, begun := x.Now(), time.Now()
		d, err := l.Peek(ctx, key, trial, 1)
		lasted := time.Since(begun)
		if err != nil {
			x.failed(err, say)
			return false
		}
		if i == 0 {
			continue // connections, scripts and plans are made
		}
		if len(took) == 0 || lasted < slices.Min(took) {
			offset = d.At.Sub(sent.Add(lasted / 2))
		}
		took = append(took, lasted)
	}
	slices.Sort(took)
	median := took[len(took)/2]
	f := Finding{Code: "round_trip", Text: fmt.Sprintf("an answer takes %v (median of %d)", short(median), samples)}
	if median > x.MostRoundTrip {
		f.Severity = Warning
		f.Text += fmt.Sprintf(", which is more than %v; every decision waits so long", x.MostRoundTrip)
		f.Remedy = "run the servers near the store, or give hot limits a lease; another bound: --max-round-trip"
	}
	say(f)
	if x.stores[0].Info().Scope != driver.Network {
		return true // one clock
	}
	f = Finding{Code: "clock", Text: fmt.Sprintf("the clocks of store and process differ by %v", short(offset.Abs()))}
	if offset.Abs() > x.MostOffset {
		f.Severity = Warning
		which := "behind"
		if offset > 0 {
			which = "ahead of"
		}
		f.Text = fmt.Sprintf("the store's clock is %v %s that of this process; the store's decides when windows and budgets end", short(offset.Abs()), which)
		f.Remedy = "have both machines keep time by NTP"
	}
	say(f)
	return true
}

// race has takes on one fresh key from many goroutines over two openings of the store, and counts who passes.
func (x *exam) race(ctx context.Context, say func(Finding)) bool {
	key := ration.KeyOf(rand.Text())
	left := func(Finding) {}
	defer func() { x.tidy(ctx, key, left) }()
	var passed atomic.Int64
	errs := make([]error, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			// A Limiter would join the calls of all into one.
			l := x.limiter(i)
			defer l.Close() //nolint:errcheck // it holds nothing
			<-start
			for range laps {
				d, err := l.Take(ctx, key, trial, 1)
				if err != nil {
					errs[i] = err
					return
				}
				if d.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	n := passed.Load()
	f := Finding{Code: "race", Text: fmt.Sprintf("of %d takes at a time, %d passed at a limit of %d", racers*laps, n, prizes)}
	err := errors.Join(errs...)
	switch {
	case n > prizes:
		f.Severity = Error
		f.Remedy = "do not use this store: it loses updates, or its address leads to several that do not share their data"
	case err != nil:
		for _, one := range errs {
			if one != nil {
				x.failed(one, say)
				return false
			}
		}
	case n < prizes:
		f.Severity = Error
		f.Remedy = "do not use this store: it refuses what fits, or another server empties it"
	}
	left = say
	say(f)
	return true
}

// tidy removes what the race left, even if its time is over.
func (x *exam) tidy(ctx context.Context, key ration.Key, say func(Finding)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(x.Timeout, tidying))
	defer cancel()
	l := x.limiter(0)
	defer l.Close() //nolint:errcheck // it holds nothing
	var err error
	if x.stores[0].Info().Caps.Has(driver.CapForget) {
		err = l.Forget(ctx, key)
	} else {
		err = l.Reset(ctx, key, trial)
	}
	if err != nil {
		say(Finding{Severity: Note, Code: "race.left", Text: fmt.Sprintf("the key of the race could not be removed: %v", err),
			Remedy: "nothing: it ends by itself in a minute"})
	}
}

// short is d in a precision for people.
func short(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}
