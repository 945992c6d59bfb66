// Package storetest is the definition of a correct store: whatever passes [Run] obeys the rules of docs/semantics.md, and
// answers as every other store does.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{Open: func(t testing.TB) driver.Store {
//			s := mystore.New(t.TempDir())
//			t.Cleanup(func() { s.Close() })
//			return s
//		}})
//	}
//
// The suite has case files (testdata/*.txt: what is so, in prose, with commands and the answers expected), random
// operation sequences compared with a model, and checks of what happens side by side, at the store's cap, when a call is
// cancelled, when a reply is lost, and in a crash. It works on [driver.Store] alone and knows nothing of package ration.
//
// Environment: RATION_SEED repeats the random sequences of a failure. RATION_LONG=n makes the suite n times as long.
// RATION_REWRITE=1 rewrites the answers in the case files from the model, in a clone of this module.
package storetest

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	_ "time/tzdata" // budgets name zones, and not every machine has them

	"github.com/ration-go/ration/driver"
)

// Harness says how to make the stores under test. Only Open is required. Each missing part leaves out the cases that need
// it, and Run logs which and why.
//
// There is no clock in it: [driver.Txn].Now is part of the contract, so the suite brings its own. It shows dates in the
// past, in the future, and now and then a step back. A store must not remove states of such a time line by the time of the
// machine; one that sweeps in the background and cannot tell the two apart is opened with sweeping off.
type Harness struct {
	// Open makes a new, empty store, to be closed by t.Cleanup. The suite opens one for each of its parts, several at a
	// time. A store that is Instant is closed by the suite too, so a second Close must be harmless.
	Open func(t testing.TB) driver.Store

	// Again opens the data of s once more, as another process would, or the same one after a restart. Both are used from
	// then on. The new one is closed by t.Cleanup.
	Again func(t testing.TB, s driver.Store) driver.Store

	// Full makes a store with room for so many keys: from half of that to four times that many may be kept.
	Full func(t testing.TB, keys int) driver.Store

	// Trips answers how many round trips s has made so far.
	Trips func(s driver.Store) int64

	// Durable kills what is behind s as hard as it can (kill -9) and starts it again. s is used from then on, or what it
	// connects to. Nothing else of the suite runs meanwhile.
	Durable func(t testing.TB, s driver.Store)

	// Only, if not empty, names case files (testdata, without .txt), and everything else is left out: for another way to
	// reach a store that passes the whole.
	Only []string
}

// Run tests the stores of h: all that their [driver.Info] claims, and what Harness gives the means for. It returns when
// everything is done. Nothing that h needs may be shared with other tests.
func Run(t *testing.T, h Harness) {
	t.Helper()
	run(testScope{t}, h, settingsFromEnv(t))
}

// settings is how long and by which random numbers the suite runs.
type settings struct {
	seed   uint64
	random time.Duration // how long random commands go on, at least
	long   int           // how often the rest is repeated
	soon   time.Duration // how late a call may return after its context is done, and a store be back after a crash
}

func settingsFromEnv(t testing.TB) settings {
	set := settings{seed: uint64(time.Now().UnixNano()), random: time.Second, long: 1, soon: 10 * time.Second}
	if text := os.Getenv("RATION_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatalf("RATION_SEED: %v", err)
		}
		set.seed = n
	}
	if text := os.Getenv("RATION_LONG"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("RATION_LONG=%q is not a number from 1", text)
		}
		set.long, set.random = n, time.Duration(n)*set.random
	}
	return set
}

// suite is one run of the whole.
type suite struct {
	settings
	h       Harness
	info    driver.Info
	sweeper bool
	keeps   bool // documents
}

// A theme is a part of the suite. It runs if the store claims needs and missing finds nothing missing.
type theme struct {
	name    string
	needs   driver.Caps
	missing func(s *suite) string // what is missing for it; "" if nothing
	alone   bool                  // nothing else may run meanwhile
	run     func(s *suite, t scope)
}

// themes are all parts but the case files. What needs a further cap is one more line here.
func themes() []theme {
	return []theme{
		{name: "random", run: (*suite).random},
		{name: "parallel", run: (*suite).parallel},
		{name: "parallel lists", needs: driver.CapList, run: (*suite).parallelLists},
		{name: "ids", needs: driver.CapIDs, run: (*suite).ids},
		{name: "holds", needs: driver.CapHolds, run: (*suite).holds},
		{name: "slots", needs: driver.CapSlots, run: (*suite).slots},
		{name: "two handles", missing: (*suite).noAgain, run: (*suite).twoHandles},
		{name: "context", run: (*suite).contexts},
		{name: "close", missing: (*suite).notInstant, run: (*suite).closing},
		{name: "sweep", missing: (*suite).noSweeper, run: (*suite).sweeping},
		{name: "documents", missing: (*suite).noDocuments, run: (*suite).documentSpaces},
		{name: "full", missing: (*suite).noFull, run: (*suite).full},
		{name: "trips", missing: (*suite).noTrips, run: (*suite).trips},
		{name: "durable", missing: (*suite).noDurable, alone: true, run: (*suite).durable},
	}
}

func run(t scope, h Harness, set settings) {
	t.Helper()
	if h.Open == nil {
		t.Fatalf("storetest: Harness.Open is missing")
	}
	s := &suite{settings: set, h: h}
	if !s.describe(t) {
		return
	}
	t.part("cases", true, s.caseFiles)
	if len(h.Only) > 0 {
		return
	}
	t.part("checks", true, func(t scope) {
		for _, th := range themes() {
			if gone := th.needs &^ s.info.Caps; gone != 0 {
				t.Logf("%s: left out, the store does not claim %s", th.name, capNames(gone))
				continue
			}
			if th.missing != nil {
				if why := th.missing(s); why != "" {
					t.Logf("%s: left out, %s", th.name, why)
					continue
				}
			}
			t.part(th.name, th.alone, func(t scope) { th.run(s, t) })
		}
	})
}

func (s *suite) noAgain() string {
	if s.h.Again == nil {
		return "Harness.Again is not set"
	}
	return ""
}

func (s *suite) noFull() string {
	if s.h.Full == nil {
		return "Harness.Full is not set"
	}
	return ""
}

func (s *suite) noTrips() string {
	if s.h.Trips == nil {
		return "Harness.Trips is not set"
	}
	return ""
}

func (s *suite) noDurable() string {
	switch {
	case s.h.Durable != nil:
		return ""
	case s.info.Durable:
		return "the store claims to be durable, but Harness.Durable is not set"
	}
	return "the store does not claim to be durable"
}

func (s *suite) noSweeper() string {
	if !s.sweeper {
		return "the store is not a driver.Sweeper"
	}
	return ""
}

func (s *suite) noDocuments() string {
	if !s.keeps {
		return "the store is not driver.Documents"
	}
	return ""
}

func (s *suite) notInstant() string {
	if !s.info.Instant {
		return "the store is not Instant, and nobody may call it after Close"
	}
	return ""
}

// applyTime is how long a single call may take before the suite calls it stuck.
const applyTime = 30 * time.Second

// apply runs a batch under a deadline, as the Limiter would.
func apply(store driver.Store, batch ...*driver.Txn) error {
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	return store.Apply(ctx, batch)
}
