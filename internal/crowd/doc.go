// Package crowd tests that reservations stay true when processes die. Two hundred callers in four processes reserve on three
// budgets that they share, report, settle (also above what they reserved), cancel, or forget; a third of the processes is
// killed (SIGKILL). At the end, when what was left open has expired, what was settled and what was kept is what counts,
// exactly. It is for tests only and imports the standard library only.
//
//	func TestMain(m *testing.M) {
//		if crowd.IsMember() {
//			os.Exit(crowd.Member(open))
//		}
//		os.Exit(m.Run())
//	}
//
//	func TestCrowd(t *testing.T) { crowd.Run(t, url, open) }
//
// The processes are the test binary again. Each says on its standard output what it is going to do before it does it, and
// what was answered. A pipe keeps what a process has written before it died, so the test knows of each operation of the dead
// whether it was acknowledged, or only under way.
package crowd

import (
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// Open opens the data at where, in each process anew. The store is to sweep by itself.
type Open func(where string) (driver.Store, error)

const (
	processes = 4
	killed    = 2  // each is replaced: of six processes a third
	callers   = 50 // of each process
	budgets   = 3

	// room of each budget. Most estimates are between a 400th and a 25th of it, so that 200 callers fill it; little is
	// used, so that it never runs out.
	room      = 1_000_000_000
	leastPart = room / 400
	mostPart  = room / 25
)

// amounts are one for each budget.
type amounts [budgets]int64

// budget is one of those that all share. It turns in the given month: far enough from now.
func budget(i int, turns time.Month) (ration.Key, ration.Rule) {
	name := [budgets]string{"user", "team", "everybody"}[i]
	return ration.KeyOf("crowd", name).In("crowd"),
		ration.Rule{Name: name, Limit: ration.Budget{Limit: room, Period: ration.Year, Month: turns}}
}

func charges(costs amounts, turns time.Month) []ration.Charge {
	all := make([]ration.Charge, budgets)
	for i, n := range costs {
		key, rule := budget(i, turns)
		all[i] = key.Charge(rule, n)
	}
	return all
}
