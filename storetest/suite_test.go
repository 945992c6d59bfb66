package storetest

import (
	"os"
	"runtime"
	"strings"
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
var brief = settings{seed: 1, random: 50 * time.Millisecond, long: 1}

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
		"claims holds, so it must be a":            func(i *driver.Info) { i.Caps |= driver.CapHolds },
		"claims caps that there are not: 0x100000": func(i *driver.Info) { i.Caps |= 1 << 20 },
		"claims no kind of state":                  func(i *driver.Info) { i.Caps = driver.CapList },
	} {
		info := good
		change(&info)
		open := func(t testing.TB) driver.Store { return fewCaps{newMapStore(t, mutation{}), info} }
		got := complain(t, Harness{Open: open}, settings{seed: 1, long: 1}, func(string) bool { return false })
		if len(got.lines) != 1 || !strings.Contains(got.lines[0], want) {
			t.Errorf("a claim was answered with %q; want %q", got.lines, want)
		}
	}
}

// TestClaimedCapIsHeld: a cap that is claimed and not there fails.
func TestClaimedCapIsHeld(t *testing.T) {
	t.Parallel()
	for kind, cap := range kindCaps {
		if cap == driver.CapSlots {
			continue
		}
		lacking := mutation{around: func(tx *mapTx, run func() error) error {
			for i := range tx.txn.Ops {
				if tx.txn.Verb != driver.Forget && tx.txn.Ops[i].Kind == kind {
					tx.txn.Err, tx.txn.At = driver.ErrNotApplied, tx.txn.Now
					return nil
				}
			}
			return run()
		}}
		if got := complain(t, harness(lacking), settings{seed: 1, long: 1}, nil); len(got.lines) == 0 {
			t.Errorf("a store that claims %s and has no such thing passed", capNames(cap))
		}
	}
}

func BenchmarkMap(b *testing.B) { Bench(b, harness(mutation{})) }
