// Package outagecontract holds a Limiter to its promises when a real store is stopped, killed, cut off or slow: an answer by the
// policy within the deadline, no more admitted than stated, and decisions by the store again soon after it is up. It is for tests
// only.
package outagecontract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration"
)

// Subject is a store behind a server.
type Subject struct {
	Server string // host:port
	// Open is a Limiter on the server as it is found at addr. Closing it is up to Open, at the end of t.
	Open func(t testing.TB, addr string, opts *ration.Options) *ration.Limiter
	// Faults of the server itself: each makes one begin and answers what ends it.
	Faults map[string]func() (mend func())
}

const (
	timeout = 300 * time.Millisecond
	probe   = 200 * time.Millisecond
	parts   = 4
	callers = 32
	each    = 25
	size    = 400
	before  = 10
)

// Run runs the contract.
func Run(t *testing.T, s Subject) {
	faults := map[string]func(p *line) (mend func()){}
	for name, f := range map[string]fault{"silent": hangs, "refused": dead, "reset": resets, "slow": slow} {
		faults[name] = func(p *line) func() {
			p.set(f)
			return func() { p.set(none) }
		}
	}
	for name, begin := range s.Faults {
		faults[name] = func(*line) func() { return begin() }
	}
	for name, begin := range faults {
		for _, policy := range []ration.OnError{ration.DenyOnError, ration.AllowOnError, ration.LocalOnError} {
			t.Run(name+"/"+policy.String(), func(t *testing.T) { s.outage(t, begin, policy) })
		}
	}
}

func (s *Subject) outage(t *testing.T, begin func(p *line) func(), policy ration.OnError) {
	p := newLine(t, s.Server)
	changes := make(chan bool, 100)
	opts := &ration.Options{
		OnError: policy, Timeout: timeout, Outage: &ration.Outage{Probe: probe, Parts: parts}, Logger: slog.New(slog.DiscardHandler),
		Observer: &ration.Observer{StoreChanged: func(up bool, _ error) { changes <- up }},
	}
	limiter := s.Open(t, p.Addr, opts)
	key, limit := ration.KeyOf(fmt.Sprint(time.Now().UnixNano()), t.Name()), ration.FixedWindow{Limit: size, Window: time.Hour}
	for range before {
		// Not with the limiter's short time: a busy machine is no outage.
		patient, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if d, err := limiter.Take(patient, key, limit, 1); err != nil || !d.Allowed || d.Degraded {
			t.Fatalf("before the outage: %+v, %v", d, err)
		}
		cancel()
	}

	mend := begin(p)
	var mu sync.Mutex
	var work sync.WaitGroup
	var took []time.Duration
	admitted, unknown := int64(0), int64(0)
	for range callers {
		work.Go(func() {
			for range each {
				start := time.Now()
				d, err := limiter.Take(t.Context(), key, limit, 1)
				lasted := time.Since(start)
				mu.Lock()
				took = append(took, lasted)
				switch {
				case policy == ration.DenyOnError && err == nil, policy != ration.DenyOnError && err != nil, err == nil && !d.Degraded:
					t.Errorf("%v: %+v, %v", policy, d, err)
				case err == nil && d.Allowed:
					admitted++
				case err == nil && (d.RetryAfter <= 0 || policy == ration.AllowOnError):
					t.Errorf("%v: refused: %+v", policy, d)
				}
				if !errors.Is(err, ration.ErrUnavailable) {
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	slices.Sort(took)
	late := func(d time.Duration) time.Duration { return max(0, d-timeout) }
	t.Logf("%d calls, the median took %v; beyond their time p99 %v, at most %v", len(took), took[len(took)/2], late(took[len(took)*99/100]), late(took[len(took)-1]))
	if most := took[len(took)-1]; most > timeout+time.Second {
		t.Errorf("a call with %v took %v", timeout, most)
	}
	if policy == ration.LocalOnError && admitted != size/parts {
		t.Errorf("%d admitted by a part of %d", admitted, size/parts)
	}
	if n := p.mostConns(); n > 64 {
		t.Errorf("%d connections", n)
	}
	select {
	case up := <-changes:
		if up {
			t.Error("up was told before down")
		}
	default:
		t.Error("nobody was told that the store is down")
	}

	mend()
	mended := time.Now()
	select {
	case up := <-changes:
		if !up {
			t.Error("down was told twice")
		}
		t.Logf("it was seen to be up %v after it was, with a probe each %v that waits for %v", time.Since(mended), probe, timeout)
	case <-time.After(30 * time.Second):
		t.Fatal("the store is up again, and nobody saw it")
	}
	// What was sent in the outage may have been charged; what was admitted in it is charged in a moment.
	for deadline := time.Now().Add(30 * time.Second); ; {
		patient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		d, err := limiter.Peek(patient, key, limit, 0)
		cancel()
		least := int64(before)
		if policy == ration.LocalOnError {
			least += admitted
		}
		if err == nil && !d.Degraded && d.Used >= least && d.Used <= least+unknown {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the outage: %+v, %v; want %d used, or up to %d more", d, err, least, unknown)
		}
	}
}
