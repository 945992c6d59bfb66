package storetest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// mutation is one rule broken on purpose.
type mutation struct {
	name   string
	around func(tx *mapTx, run func() error) error
	save   func(t *driver.Txn, blob []byte, expires driver.Micros) ([]byte, driver.Micros)
	load   func(t *driver.Txn, blob []byte) []byte

	keeps func(t *driver.Txn) bool // what is saved of a state; nil: all

	loadHold  func(t *driver.Txn, id string, blob []byte) []byte
	keepsHold func(t *driver.Txn) bool // of a record
	lapse     func(tx *mapTx, id string, run func() error) error
	racyHolds bool
	listsAll  bool

	racy, worksClosed, tripEach, sweepAll, evicts bool
	sweepEarly                                    driver.Micros

	says   string // a pattern of the first sentence about it
	random bool   // random commands find it, too
}

// firstOp is the first op of t, if it has any.
func firstOp(t *driver.Txn) (op driver.Op) {
	if len(t.Ops) > 0 {
		op = t.Ops[0]
	}
	return op
}

// ops runs before on every op, then the transaction, then after.
func ops(before, after func(t *driver.Txn, op *driver.Op)) func(tx *mapTx, run func() error) error {
	return func(tx *mapTx, run func() error) error {
		old := slices.Clone(tx.txn.Ops)
		if before != nil {
			for i := range tx.txn.Ops {
				before(tx.txn, &tx.txn.Ops[i])
			}
		}
		err := run()
		for i := range tx.txn.Ops {
			result := tx.txn.Ops[i].Result
			if len(old) == len(tx.txn.Ops) { // of the end of a hold they may be the store's own
				tx.txn.Ops[i] = old[i]
			}
			tx.txn.Ops[i].Result = result
			if after != nil && err == nil && tx.txn.Err == nil {
				after(tx.txn, &tx.txn.Ops[i])
			}
		}
		return err
	}
}

// state changes what is saved.
func state(change func(t *driver.Txn, op *driver.Op, st *arith.State)) func(*driver.Txn, []byte, driver.Micros) ([]byte, driver.Micros) {
	return func(t *driver.Txn, blob []byte, _ driver.Micros) ([]byte, driver.Micros) {
		var st arith.State
		if err := st.Decode(blob); err != nil {
			panic(err)
		}
		if t.Verb != driver.Forget && len(t.Ops) > 0 {
			change(t, &t.Ops[0], &st)
		}
		return st.Append(nil), driver.Micros(st.Expires)
	}
}

var mutations = []mutation{
	{
		name:   "off by one",
		around: ops(func(_ *driver.Txn, op *driver.Op) { op.Size++ }, nil),
		says:   `bucket.txt:\d+: in "A bucket starts full", .take alice chat 1. at 0s should answer .no used 20 left 0 retry 6s reset 2m., but the store answered .yes used 21`,
		random: true,
	}, {
		name: "one more at the limit, numbers as they should be",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			if op.Kind == driver.Counter && op.Cost == 1 {
				op.Size++
			}
		}, nil),
		says:   `.take k f 1..* should answer .no used 100 left 0 .*., but the store answered .yes used 101`,
		random: true,
	}, {
		name: "a refusal charges",
		around: func(tx *mapTx, run func() error) error {
			err := run()
			if t := tx.txn; err == nil && t.Err == nil && t.Verb == driver.Take && !t.Allowed && len(t.Ops) == 1 {
				op := t.Ops[0]
				if op.Result = (driver.Result{}); op.Kind == driver.Bucket {
					op.Cost = op.Size - t.Ops[0].Result.Used
				} else {
					op.Size = driver.MaxNumber
				}
				return driver.Run(tx, t.At, []*driver.Txn{{Verb: driver.Take, Now: t.At, Ops: []driver.Op{op}}})
			}
			return err
		},
		says:   `bucket.txt:\d+: in "A refused cost changes nothing", .take k b 3. at 0s should answer .no used 8 left 2 .*., but the store answered .no used 10`,
		random: true,
	}, {
		name: "a refused list charges what fits",
		around: func(tx *mapTx, run func() error) error {
			err := run()
			if t := tx.txn; err == nil && t.Verb == driver.Take && !t.Allowed && len(t.Ops) > 1 {
				for _, op := range t.Ops {
					op.Result = driver.Result{}
					if err := driver.Run(tx, t.At, []*driver.Txn{{Verb: driver.Take, Now: t.At, Ops: []driver.Op{op}}}); err != nil {
						return err
					}
				}
			}
			return err
		},
		says:   `lists.txt:\d+: in "All or none", .peek alice chat 1. at 12h should answer .yes used 1 left 9 reset 1m., but the store answered .yes used 2`,
		random: true,
	}, {
		name: "lost updates",
		racy: true,
		says: `50 hits of 1 at once should answer each count from 1 to 50 once, but|of \d+ takes of 1 at once|should admit exactly`,
	}, {
		name: "the retry time is the whole window",
		around: ops(nil, func(t *driver.Txn, op *driver.Op) {
			if op.Result.RetryAfter > 0 && op.Kind != driver.Bucket {
				op.Result.RetryAfter = op.Span
			}
		}),
		says:   `in "Retry is what is left of the window", .take k f 1. at 19s should answer .no used 2 left 0 retry 1s reset 1s., but the store answered .no used 2 left 0 retry 20s reset 1s.`,
		random: true,
	}, {
		name: "the retry time is cut to milliseconds",
		around: ops(nil, func(t *driver.Txn, op *driver.Op) {
			op.Result.RetryAfter -= op.Result.RetryAfter % 1000
		}),
		says:   `.take alice chat 1. at 5.999999s should answer .no used 20 left 0 retry 1µs .*., but the store answered .no used 20 left 0 retry 0s`,
		random: true,
	}, {
		name: "a use moves the end of the window",
		save: state(func(t *driver.Txn, op *driver.Op, st *arith.State) {
			if op.Kind == driver.Counter && st.Stamp > 0 {
				st.Stamp = int64(t.At + op.Span)
				st.Expires = st.Stamp
			}
		}),
		says:   `counter.txt:\d+: in "The first hit opens a window, and later ones do not move its end"`,
		random: true,
	}, {
		name: "a peek opens a window",
		around: func(tx *mapTx, run func() error) error {
			err := run()
			if op := firstOp(tx.txn); err == nil && tx.txn.Verb == driver.Peek && op.Kind == driver.Counter {
				key := op.Key.AppendTo(nil)
				if blob, _ := tx.Load(key); blob == nil {
					st := arith.State{Stamp: int64(tx.txn.At + op.Span), Since: int64(tx.txn.At), Expires: int64(tx.txn.At + op.Span)}
					return tx.Save(key, st.Append(nil), driver.Micros(st.Expires))
				}
			}
			return err
		},
		says:   `in "A peek writes nothing"`,
		random: true,
	}, {
		name: "a question of cost 0 opens a window",
		around: func(tx *mapTx, run func() error) error {
			err := run()
			if op := firstOp(tx.txn); err == nil && tx.txn.Verb == driver.Take && op.Kind == driver.Counter && op.Cost == 0 {
				op.Cost, op.Result = 0, driver.Result{}
				key := op.Key.AppendTo(nil)
				st := arith.State{Stamp: int64(tx.txn.At + op.Span), Expires: int64(tx.txn.At + op.Span)}
				if blob, _ := tx.Load(key); blob == nil {
					return tx.Save(key, st.Append(nil), driver.Micros(st.Expires))
				}
			}
			return err
		},
		says:   `in "Questions of cost 0 write nothing either"`,
		random: true,
	}, {
		name: "a row's clock runs back",
		save: state(func(t *driver.Txn, op *driver.Op, st *arith.State) {
			if op.Kind == driver.Bucket && st.Unit > 0 {
				st.Stamp = int64(t.At - t.At%op.Tick)
			}
		}),
		says:   `clock.txt:\d+: in "An older now mints no units"`,
		random: true,
	}, {
		name:       "a sweep takes what still counts",
		sweepEarly: 20_000_000,
		says:       `in "Sweeping removes nothing that counts"`,
		random:     true,
	}, {
		name: "what has ended is still there until it is swept",
		save: func(t *driver.Txn, blob []byte, expires driver.Micros) ([]byte, driver.Micros) {
			var st arith.State
			_ = st.Decode(blob)
			if firstOp(t).Kind == driver.Counter && t.Verb != driver.Forget {
				st.Expires += 1_000_000
				st.Stamp += 1_000_000
			}
			return st.Append(nil), expires
		},
		says:   `in "What has ended is as if it had never been, swept or not"`,
		random: true,
	}, {
		name: "a refund reaches the next window",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			if t.Verb == driver.Refund {
				op.At = t.Now
			}
		}, nil),
		says:   `in "Never into the next window", .refund k f 1 @59s. at 1m2s should answer .given 0 used 1., but the store answered .given 1 used 0.`,
		random: true,
	}, {
		name: "the name of a rule is not part of the key",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			if words := strings.Split(op.Key.Space, "|"); len(words) == 4 {
				words[2] = ""
				op.Key.Space = strings.Join(words, "|")
			}
		}, nil),
		says:   `in "The name is what is counted, not the numbers"`,
		random: true,
	}, {
		name: "day and month share a count",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			if words := strings.Split(op.Key.Space, "|"); len(words) == 4 {
				words[3] = ""
				op.Key.Space = strings.Join(words, "|")
			}
		}, nil),
		says: `in "(Period, zone and anchor are part of what is counted|Weeks begin on Monday, or when they are told)"`,
	}, {
		name:   "the group is not part of the key",
		around: ops(func(t *driver.Txn, op *driver.Op) { op.Key.Group = "" }, nil),
		says:   `keys.txt:\d+: in "The group is part of the key"`,
	}, {
		name: "keys end at a zero byte",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			if before, _, ok := strings.Cut(op.Key.ID, "\x00"); ok && before != "" {
				op.Key.ID = before
			}
		}, nil),
		says: `keys.txt:\d+: in "Any bytes, all distinct"`,
	}, {
		name: "invalid UTF-8 is replaced",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			op.Key.ID = strings.ToValidUTF8(op.Key.ID, "\ufffd")
		}, nil),
		says: `keys.txt:\d+: in "Any bytes, all distinct"`,
	}, {
		name: "forget reaches other namespaces",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			if t.Verb == driver.Forget {
				op.Key.Space = ""
			}
		}, nil),
		says: `in "Forget keeps to its group and its namespace"`,
	}, {
		name: "an overflow is clamped",
		around: func(tx *mapTx, run func() error) error {
			err := run()
			if t := tx.txn; t.Err != nil && t.Verb == driver.Hit {
				t.Err, t.Allowed = nil, true
				t.Ops[0].Result = driver.Result{Allowed: true, Used: driver.MaxNumber}
			}
			return err
		},
		says:   `in "A count stops at 2\^53 − 1", .hit k 60s 1. at 0s should answer .error overflow.`,
		random: true,
	}, {
		name: "counts are floating point",
		around: ops(nil, func(t *driver.Txn, op *driver.Op) {
			if op.Result.Used > 1<<24 || op.Result.Used < -1<<24 {
				op.Result.Used = int64(float32(op.Result.Used))
			}
		}),
		says: `numbers.txt:\d+: in ".*"`,
	}, {
		name: "a clock outside the periods is taken for the last of them",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			op.Bounds[0], op.Bounds[3] = 0, driver.MaxNumber
		}, nil),
		says: `in "A clock outside the periods that were sent".* should answer .error clock.`,
	}, {
		name:   "the store's own clock decides",
		around: func(tx *mapTx, run func() error) error { tx.txn.Now = 0; return run() },
		says:   `decided at .*, not by the clock it was given`,
	}, {
		name:   "never is not said",
		around: ops(nil, func(t *driver.Txn, op *driver.Op) { op.Result.Never = false }),
		says:   `should answer .never .*., but the store answered .no `,
		random: true,
	}, {
		name: "joined uses are one use",
		around: ops(func(t *driver.Txn, op *driver.Op) {
			op.Times = min(op.Times, 1)
		}, nil),
		says:   `.take k b 1 times 10000. at 0s should answer .no times 6000`,
		random: true,
	}, {
		name: "a reset leaves nothing behind",
		save: func(t *driver.Txn, blob []byte, expires driver.Micros) ([]byte, driver.Micros) {
			if t.Verb == driver.Reset || t.Verb == driver.Forget {
				return nil, 0
			}
			return blob, expires
		},
		says:   `in "What was charged before a reset is not given back"`,
		random: true,
	}, {
		name: "the uses of a window go by the asking window",
		save: state(func(t *driver.Txn, op *driver.Op, st *arith.State) {
			for i := range st.Uses {
				st.Uses[i].Window = int64(op.Span)
				st.Expires = st.Uses[i].At + int64(op.Span)
			}
		}),
		says:   `in "A limit.s longest window decides when its uses may go"|in "A longer window does not bring back what was over"`,
		random: true,
	}, {
		name: "windows join too early",
		save: state(func(t *driver.Txn, op *driver.Op, st *arith.State) {
			if n := len(st.Uses); n > 200 {
				st.Uses[n-1].Cost += st.Uses[n-2].Cost
				st.Uses = slices.Delete(st.Uses, n-2, n-1)
			}
		}),
		says: `in "More than 256 uses are joined, late and never early"`,
	}, {
		name:   "a full store forgets what counts",
		evicts: true,
		says:   `after a flood of new keys`,
	}, {
		name:        "closing changes nothing",
		worksClosed: true,
		says:        `a take after Close should fail, but was decided`,
	}, {
		name:     "a round trip for each of a batch",
		tripEach: true,
		says:     `a batch of takes of .* should be one round trip, but made \d+`,
	}, {
		name:     "a sweep without bounds",
		sweepAll: true,
		says:     `Sweep of at most \d+ .* \d+`,
	},
}

// TestMutations breaks one rule at a time, and wants the suite to say so in a sentence about that rule.
func TestMutations(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(mutations, holdMutations) {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			got := complain(t, harness(m), brief, func(part string) bool { return !strings.HasSuffix(part, "/random") })
			if len(got.lines) == 0 {
				t.Fatal("nothing was noticed")
			}
			if !regexp.MustCompile(m.says).MatchString(strings.Join(got.lines, "\n")) {
				t.Errorf("no sentence matches %s:\n%s", m.says, strings.Join(got.lines, "\n"))
			}
			t.Logf("%s: %s", got.parts[0], got.lines[0])
		})
	}
}

// TestMutationsAtRandom breaks one rule at a time, and wants random commands to show it, as a short case.
func TestMutationsAtRandom(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(mutations, holdMutations) {
		if !m.random {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			got := complain(t, harness(m), settings{seed: 1, random: 10 * time.Second}, func(part string) bool {
				return part == "checks" || part == "checks/random"
			})
			if len(got.lines) == 0 {
				t.Fatal("random commands did not show it")
			}
			_, lines, _ := strings.Cut(got.lines[0], "as a case:\n")
			if n := strings.Count(lines, "\n"); n > 14 {
				t.Errorf("the case should be shorter than %d lines:\n%s", n, got.lines[0])
			}
			t.Log(got.lines[0])
		})
	}
}
