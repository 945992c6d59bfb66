package storetest

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
)

// TestMain fails if a goroutine of the suite is left over.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			os.Exit(code)
		}
		<-time.After(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	println("storetest: goroutines are left over:\n" + string(stacks[:runtime.Stack(stacks, true)]))
	os.Exit(1)
}

func TestCorrectStore(t *testing.T) {
	t.Parallel()
	Run(t, harness(mutation{}))
}

func TestModelIsCorrect(t *testing.T) {
	t.Parallel()
	run(testScope{t}, Harness{Open: func(testing.TB) driver.Store { return newModel() }}, brief)
}

// brief is for stores that are the same but for a detail.
var brief = settings{seed: 1, random: 50 * time.Millisecond, long: 1, soon: time.Second}

// fewCaps is a store that claims less than it can.
type fewCaps struct {
	driver.Store
	info driver.Info
}

func (s fewCaps) Info() driver.Info { return s.info }

// TestCapsAreOptional: cases that a store does not claim are left out, and the rest is right.
func TestCapsAreOptional(t *testing.T) {
	t.Parallel()
	for _, info := range []driver.Info{
		{Kind: "buckets", Scope: driver.Process, Caps: driver.CapBucket},
		{Kind: "windows", Scope: driver.Machine, Caps: driver.CapWindow | driver.CapForget, MaxBatch: 2},
		{Kind: "counters", Scope: driver.Network, Caps: driver.CapCounter | driver.CapList, OneGroup: true},
		{Kind: "budgets", Scope: driver.Process, Caps: driver.CapBudget, InFlight: 4},
	} {
		t.Run(info.Kind, func(t *testing.T) {
			t.Parallel()
			h := harness(mutation{})
			info.Instant = true
			narrow := func(s driver.Store) driver.Store { return fewCaps{s, info} }
			run(testScope{t}, Harness{
				Open: func(t testing.TB) driver.Store { return narrow(h.Open(t)) },
				Again: func(t testing.TB, s driver.Store) driver.Store {
					return narrow(h.Again(t, s.(fewCaps).Store))
				},
				Full: func(t testing.TB, keys int) driver.Store { return narrow(h.Full(t, keys)) },
			}, brief)
		})
	}
}

// TestClaims: what a store says of itself must be possible.
func TestClaims(t *testing.T) {
	t.Parallel()
	good := driver.Info{Kind: "map", Scope: driver.Process, Caps: driver.CapsRun, Instant: true}
	for want, change := range map[string]func(*driver.Info){
		"Info.Kind is empty":                       func(i *driver.Info) { i.Kind = "" },
		"Info.Scope 0 is none of":                  func(i *driver.Info) { i.Scope = 0 },
		"neither can be below 0":                   func(i *driver.Info) { i.MaxBatch = -1 },
		"claims slots without holds":               func(i *driver.Info) { i.Caps |= driver.CapSlots },
		"claims holds, so it must be a":            func(i *driver.Info) { i.Caps |= driver.CapHolds | driver.CapIDs },
		"claims holds without ids":                 func(*driver.Info) {},
		"claims caps that there are not: 0x100000": func(i *driver.Info) { i.Caps |= 1 << 20 },
		"claims no kind of state":                  func(i *driver.Info) { i.Caps = driver.CapList },
	} {
		info := good
		change(&info)
		open := func(t testing.TB) driver.Store { return fewCaps{newMapStore(t, mutation{}), info} }
		if want == "claims holds without ids" {
			open = func(t testing.TB) driver.Store {
				s := newMapStore(t, mutation{})
				s.claims = driver.CapsRun | driver.CapHolds
				return s
			}
		}
		got := complain(t, Harness{Open: open}, brief, func(string) bool { return false })
		if len(got.lines) != 1 || !strings.Contains(got.lines[0], want) {
			t.Errorf("a claim was answered with %q; want %q", got.lines, want)
		}
	}
}

// TestClaimedCapIsHeld: a cap that is claimed and not there fails.
func TestClaimedCapIsHeld(t *testing.T) {
	t.Parallel()
	for kind, cap := range kindCaps {
		lacking := mutation{around: func(tx *mapTx, run func() error) error {
			for i := range tx.txn.Ops {
				if tx.txn.Verb != driver.Forget && tx.txn.Ops[i].Kind == kind {
					tx.txn.Err, tx.txn.At = driver.ErrNotApplied, tx.txn.Now
					return nil
				}
			}
			return run()
		}}
		if got := complain(t, harness(lacking), brief, nil); len(got.lines) == 0 {
			t.Errorf("a store that claims %s and has no such thing passed", capNames(cap))
		}
	}
	for cap, lacks := range map[driver.Caps]func(t *driver.Txn){
		driver.CapIDs: func(t *driver.Txn) {
			if t.Verb == driver.Take && !t.Hold {
				t.ID = ""
			}
		},
		driver.CapHolds: func(t *driver.Txn) {
			if t.Verb > driver.Forget {
				t.Verb = 0
			}
		},
	} {
		lacking := mutation{around: func(tx *mapTx, run func() error) error {
			old := *tx.txn
			lacks(tx.txn)
			err := run()
			tx.txn.Verb, tx.txn.ID = old.Verb, old.ID
			return err
		}}
		if got := complain(t, harness(lacking), brief, nil); len(got.lines) == 0 {
			t.Errorf("a store that claims %s and has no such thing passed", capNames(cap))
		}
	}
}

// TestBrokenHarness: what shows only beside the calls of one handle is noticed, too.
func TestBrokenHarness(t *testing.T) {
	t.Parallel()
	copied := func(s *mapStore) *mapStore {
		s.mu.Lock()
		defer s.mu.Unlock()
		return &mapStore{mapData: &mapData{rows: maps.Clone(s.rows)}}
	}
	for _, c := range []struct {
		name, part, says string
		change           func(h *Harness)
	}{
		{"a crash loses what was acknowledged", "durable", `7 of bucket .* were taken before a crash, so 7 should be used after it, but 0 are`, func(h *Harness) {
			h.Durable = func(_ testing.TB, s driver.Store) {
				m := s.(*mapStore)
				m.mu.Lock()
				defer m.mu.Unlock()
				clear(m.rows)
			}
		}},
		{"a store that a crash ends", "durable", `should work again after it was killed and started`, func(h *Harness) {
			h.Durable = func(_ testing.TB, s driver.Store) { s.Close() }
		}},
		{"another handle sees what was", "two handles", `another handle of the same data should see 4 used, but sees 0`, func(h *Harness) {
			h.Again = func(_ testing.TB, s driver.Store) driver.Store { return copied(s.(*mapStore)) }
		}},
		{"a store that waits takes no notice of its context", "context", `under a context with context canceled answered no error \(and 7 used\)`, func(h *Harness) {
			open := h.Open
			h.Open = func(t testing.TB) driver.Store {
				info := open(t).Info()
				info.Instant, info.Caps = false, driver.CapsRun
				return fewCaps{open(t), info}
			}
		}},
		{"an error without its cause", "context", `should fail with an error that wraps it, but failed with: a fault`, func(h *Harness) {
			open := h.Open
			h.Open = func(t testing.TB) driver.Store {
				return WithFaults(open(t), func(ctx context.Context, _ []*driver.Txn) (f Fault) {
					if ctx.Err() != nil {
						f.Err = errFault
					}
					return f
				})
			}
		}},
		{"an error that says nothing was charged, and it was", "context", `of 100 takes of .* that were cancelled in flight`, func(h *Harness) {
			open := h.Open
			h.Open = func(t testing.TB) driver.Store {
				var calls atomic.Int64
				return WithFaults(open(t), func(ctx context.Context, _ []*driver.Txn) (f Fault) {
					if f = obey(ctx, nil); f.Err == nil && calls.Add(1) == 30 {
						f.LoseReply = driver.ErrNotApplied
					}
					return f
				})
			}
		}},
		{"a cap that is none", "full/keeps what counts", `took more than 400 that may not be dropped, and never answered driver.ErrFull`, func(h *Harness) {
			open := h.Open
			h.Full = func(t testing.TB, _ int) driver.Store { return open(t) }
		}},
		{"a cap that comes too early", "full/still answers", `a store with room for 100 keys should take between 50 and 400 that may not be dropped, but took 9`, func(h *Harness) {
			full := h.Full
			h.Full = func(t testing.TB, _ int) driver.Store { return full(t, 10) }
		}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			h := harness(mutation{})
			c.change(&h)
			got := complain(t, h, brief, func(part string) bool {
				return part == "checks" || part == "checks/"+c.part || strings.HasPrefix("checks/"+c.part, part+"/")
			})
			if all := strings.Join(got.lines, "\n"); !regexp.MustCompile(c.says).MatchString(all) {
				t.Errorf("no sentence matches %s:\n%s", c.says, all)
			}
		})
	}
}

// TestRetryTimesAreTrue: whoever waits as long as a refusal says, alone, is admitted, and a microsecond before is not.
func TestRetryTimesAreTrue(t *testing.T) {
	t.Parallel()
	refusals := 0
	for n := range uint64(700) {
		s := &suite{info: driver.Info{Caps: allCaps}}
		g := newGenerator(rand.New(rand.NewPCG(7, n)), s)
		g.steady = true // a bucket's state ends when the limit that wrote it is full, whoever asks then
		lines := g.sequence()
		sc, m := newScript(), newModel()
		for _, line := range lines {
			st, err := sc.command(line)
			if err != nil {
				t.Fatal(err)
			}
			if st == nil || st.do != applyBatch {
				continue
			}
			for _, p := range st.parts {
				txn := onModel(m).own(&p, p.txn)
				if err := apply(m, txn); err != nil {
					t.Fatal(err)
				}
				if txn.Err != nil || txn.Verb > driver.Peek {
					continue
				}
				r := txn.Ops[0].Result
				if r.Allowed || r.Never || r.RetryAfter > driver.Century-dayMicros || len(txn.Ops) > 1 || p.txn.Ops[0].Cost == 0 {
					continue
				}
				refusals++
				for early := range driver.Micros(2) {
					look := onModel(m).own(&p, p.txn)
					look.Verb, look.Ops[0].Times = driver.Peek, 0
					look.Now += r.RetryAfter - early
					if look.Ops[0].Kind == driver.Budget {
						look.Ops[0].Bounds = [4]driver.Micros{0, look.Now - 1, look.Now + 1, driver.MaxNumber}
					}
					if err := apply(m, look); err != nil || look.Err != nil || look.Allowed != (early == 0) {
						t.Fatalf("%s at %s said to wait %s; %dµs before that the answer was %v (%v), in\n%s",
							p.text, instantText(p.now), spanText(r.RetryAfter), early, look.Allowed, look.Err, asCase(lines))
					}
				}
			}
		}
	}
	if refusals < 1000 {
		t.Errorf("only %d refusals were looked at", refusals)
	}
}

func BenchmarkMap(b *testing.B) { Bench(b, harness(mutation{})) }
