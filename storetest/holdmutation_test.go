package storetest

import (
	"slices"
	"sync"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// sinceEver makes every state one that has always run, where verb gives back.
func sinceEver(verb driver.Verb) func(*driver.Txn, []byte) []byte {
	return func(t *driver.Txn, blob []byte) []byte {
		var st arith.State
		if t.Verb != verb || st.Decode(blob) != nil {
			return blob
		}
		st.Since = 0
		return st.Append(nil)
	}
}

// refusals remembers refused takes under an id, which nobody should.
var refusals sync.Map

var holdMutations = []mutation{
	{
		name:      "a hold is settled twice",
		keepsHold: func(t *driver.Txn) bool { return t.Verb != driver.Settle },
		says:      `holds.txt:\d+: in "The same end again"`,
		random:    true,
	}, {
		name:   "a settle gives back into the next window",
		load:   sinceEver(driver.Settle),
		says:   `holds.txt:\d+: in "A window later", .settle a 2. at 1m should answer .given 0., but the store answered .given 1.`,
		random: true,
	}, {
		name:   "a cancel gives back after a reset",
		load:   sinceEver(driver.Cancel),
		says:   `holds.txt:\d+: in "After a reset"`,
		random: true,
	}, {
		name:      "an id is forgotten",
		keepsHold: func(t *driver.Txn) bool { return t.Verb != driver.Take || t.Hold },
		says:      `ids.txt:\d+: in "The same id is charged once"`,
		random:    true,
	}, {
		name: "an id stands for any request",
		loadHold: func(t *driver.Txn, _ string, blob []byte) []byte {
			if t.Verb != driver.Take {
				return blob
			}
			blob = slices.Clone(blob)
			digest := t.Digest()
			copy(blob[3:], digest[:])
			return blob
		},
		says: `ids.txt:\d+: in "Another request under the same id"`,
	}, {
		name: "refusals are remembered",
		around: func(tx *mapTx, run func() error) error {
			t := tx.txn
			if t.Verb != driver.Take || t.ID == "" {
				return run()
			}
			if old, ok := refusals.Load(t.ID); ok {
				*t = old.(driver.Txn)
				t.Ops = slices.Clone(t.Ops)
				return nil
			}
			err := run()
			if err == nil && t.Err == nil && !t.Allowed {
				refusals.Store(t.ID, *t)
			}
			return err
		},
		says: `ids.txt:\d+: in "Only admissions are remembered"`,
	}, {
		name: "progress reports nothing, so a cancel gives all back",
		around: func(tx *mapTx, run func() error) error {
			if tx.txn.Verb == driver.Progress {
				defer func(amounts []int64) { tx.txn.Amounts = amounts }(tx.txn.Amounts)
				tx.txn.Amounts = nil
			}
			return run()
		},
		says:   `holds.txt:\d+: in "A cancel keeps what was reported", .cancel a. at 0s should answer .given 4., but the store answered .given 6.`,
		random: true,
	}, {
		name: "what is beyond the reservation is not charged at once",
		around: func(tx *mapTx, run func() error) error {
			t := tx.txn
			if t.Verb == driver.Progress && len(t.Ops) == len(t.Amounts) {
				t.Amounts = slices.Clone(t.Amounts)
				for i := range t.Amounts {
					t.Amounts[i] = min(t.Amounts[i], t.Ops[i].Cost)
				}
			}
			return run()
		},
		says: `holds.txt:\d+: in "Progress beyond the reservation"`,
	}, {
		name: "the caller's bounds are not looked at",
		around: func(tx *mapTx, run func() error) error {
			if tx.txn.Verb == driver.Settle {
				tx.txn.Ops = nil
			}
			return run()
		},
		says: `holds.txt:\d+: in "An excess, periods later", .settle b 4. at .* should answer .given 0., but the store answered .error clock.`,
	}, {
		name: "a lapse gives nothing back",
		lapse: func(tx *mapTx, _ string, run func() error) error {
			err := run()
			clear(tx.changed)
			return err
		},
		says:   `holds.txt:\d+: in "An expired hold that goes back"`,
		random: true,
	}, {
		name: "a lapse gives back twice",
		lapse: func(tx *mapTx, id string, run func() error) error {
			err := run()
			still := tx.store.ids[id] // for an end to give back once more
			still.due = 0
			tx.ids[id] = still
			return err
		},
		says: `holds.txt:\d+: in "Each goes back once"`,
	}, {
		name: "every expired hold goes back",
		around: func(tx *mapTx, run func() error) error {
			if tx.txn.Verb == driver.Take && tx.txn.Hold {
				defer func(ret bool) { tx.txn.Return = ret }(tx.txn.Return)
				tx.txn.Return = true
			}
			return run()
		},
		says: `holds.txt:\d+: in "An expired hold stays charged"`,
	}, {
		name: "a late settle is not known",
		loadHold: func(t *driver.Txn, id string, blob []byte) []byte {
			if h, _, err := driver.DecodeHold(id, blob, 0); t.Verb == driver.Settle && (err != nil || h.Expires <= t.At) {
				return nil
			}
			return blob
		},
		says:   `holds.txt:\d+: in "A late settle"`,
		random: true,
	}, {
		name:      "a renewal moves nothing",
		keepsHold: func(t *driver.Txn) bool { return t.Verb != driver.Renew },
		says:      `holds.txt:\d+: in "Renewed"`,
		random:    true,
	}, {
		name: "a slot is never freed",
		keeps: func(t *driver.Txn) bool {
			return firstOp(t).Kind != driver.Slots || t.Verb < driver.Settle || t.Verb > driver.Cancel
		},
		says:   `slots.txt:\d+: in "So many at a time", .reserve d k c 1. at 0s should answer .yes used 2 left 0 reset 30s., but the store answered .no used 2`,
		random: true,
	}, {
		name: "a slot outlives its lease",
		save: state(func(t *driver.Txn, op *driver.Op, st *arith.State) {
			if op.Kind == driver.Slots {
				for i := range st.Uses {
					st.Uses[i].At += 1_000_000
				}
				st.Expires += 1_000_000
			}
		}),
		says:   `slots.txt:\d+: in "Who dies lets go at the end of the lease"`,
		random: true,
	}, {
		name:     "holds that have ended are listed",
		listsAll: true,
		says:     `holds.txt:\d+: in "What is open"`,
	}, {
		name:      "an id and its charge are two steps",
		racyHolds: true,
		says:      `under one id at once|settles at once|ends at once`,
	},
}
