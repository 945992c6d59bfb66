package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ration-go/ration/driver"
)

type holdRows struct {
	rows
	holds map[string][]byte
	due   map[string]driver.Micros
}

func (r holdRows) LoadHold(id string) ([]byte, error) { return r.holds[id], nil }

func (r holdRows) SaveHold(id string, blob []byte, _, due driver.Micros) error {
	r.holds[id], r.due[id] = blob, due
	return nil
}

const (
	second = driver.Micros(1e6)
	minute = 60 * second
)

// bench runs transactions on one counter of 10 and, if asked, one slot.
type bench struct {
	t    *testing.T
	rows holdRows
	now  driver.Micros
}

func newBench(t *testing.T) *bench {
	return &bench{t, holdRows{rows{}, map[string][]byte{}, map[string]driver.Micros{}}, 1000 * second}
}

func counter(cost int64) driver.Op {
	return driver.Op{Key: driver.Key{Space: "|c||", ID: "k"}, Kind: driver.Counter, Size: 10, Span: minute, Cost: cost}
}

func slot() driver.Op {
	return driver.Op{Key: driver.Key{Space: "|s||", ID: "k"}, Kind: driver.Slots, Size: 1, Span: 5 * second, Cost: 1}
}

func (b *bench) do(t driver.Txn) driver.Txn {
	b.t.Helper()
	if err := driver.Run(b.rows, b.now, []*driver.Txn{&t}); err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bench) reserve(id string, ret bool, ops ...driver.Op) driver.Txn {
	b.t.Helper()
	return b.do(driver.Txn{Verb: driver.Take, ID: id, Hold: true, Return: ret, TTL: 10 * second, Ops: ops})
}

func (b *bench) used(want int64) {
	b.t.Helper()
	t := b.do(driver.Txn{Verb: driver.Peek, Ops: []driver.Op{counter(0)}})
	if got := t.Ops[0].Result.Used; got != want || t.Err != nil {
		b.t.Fatalf("used %d, want %d (%v)", got, want, t.Err)
	}
}

func (b *bench) end(verb driver.Verb, id string, want error, amounts ...int64) driver.Txn {
	b.t.Helper()
	t := b.do(driver.Txn{Verb: verb, ID: id, Amounts: amounts})
	if !errors.Is(t.Err, want) {
		b.t.Fatalf("verb %d of %s: %v, want %v", verb, id, t.Err, want)
	}
	return t
}

func TestSettle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got := b.reserve("a", false, counter(6)); !got.Allowed {
		t.Fatal(got)
	}
	if got := b.reserve("b", false, counter(6)); got.Allowed || len(b.rows.holds) != 1 {
		t.Fatal("a refusal is not remembered", got)
	}
	again := b.reserve("a", false, counter(6))
	if !again.Allowed || again.Ops[0].Result.Used != 6 {
		t.Fatal(again)
	}
	b.used(6)
	if got := b.reserve("a", false, counter(5)); !errors.Is(got.Err, driver.ErrIDReused) {
		t.Fatal(got.Err)
	}
	if got := b.end(driver.Settle, "a", nil, 4); got.Ops[0].Result.Given != 2 {
		t.Fatal(got)
	}
	b.used(4)
	b.end(driver.Settle, "a", nil, 4)
	b.end(driver.Settle, "a", driver.ErrEnded, 5)
	b.end(driver.Cancel, "a", nil)
	b.end(driver.Renew, "a", driver.ErrEnded)
	b.used(4)
	b.reserve("c", false, counter(6))
	b.end(driver.Settle, "c", nil, 20)
	b.used(24)
	b.end(driver.Settle, "nobody", driver.ErrNoHold, 1)
	b.end(driver.Settle, "c", driver.ErrAmounts, 1, 2)
}

func TestProgressAndCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve("a", false, counter(6))
	b.now += 9 * second
	if got := b.end(driver.Progress, "a", nil, 4); !got.Allowed {
		t.Fatal(got)
	}
	b.now += 9 * second // renewed
	if got := b.end(driver.Progress, "a", nil, 9); !got.Allowed {
		t.Fatal(got)
	}
	b.used(9)
	for _, amounts := range [][]int64{{11}, {11}, {3}, nil} { // again: the first answer may have been lost
		if got := b.end(driver.Progress, "a", nil, amounts...); got.Allowed || got.Ops[0].Result.Allowed {
			t.Fatal("over the limit, but go on")
		}
	}
	if got := b.end(driver.Renew, "a", nil); !got.Allowed {
		t.Fatal(got)
	}
	b.used(11)
	b.end(driver.Cancel, "a", nil)
	b.used(11)
	b.end(driver.Settle, "a", driver.ErrEnded)
}

func TestLapse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve("kept", false, counter(3))
	b.reserve("back", true, counter(4))
	b.end(driver.Progress, "back", nil, 1)
	b.now += 11 * second
	for id := range b.rows.due {
		if err := driver.Lapse(b.rows, b.now, id); err != nil {
			t.Fatal(err)
		}
	}
	b.used(4)
	b.end(driver.Progress, "kept", driver.ErrEnded, 1)
	b.end(driver.Cancel, "kept", nil)
	b.used(4)
	b.end(driver.Settle, "kept", nil, 5) // late: the truth, once
	b.end(driver.Settle, "back", nil, 2)
	b.end(driver.Settle, "back", nil, 2)
	b.used(7)
	b.now += driver.EndedFor
	b.end(driver.Settle, "back", driver.ErrNoHold, 2)
}

// Of what went back at the expiry a late end answers nothing, and what nobody swept for days goes back when somebody does.
func TestLapseLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	day := counter(4)
	day.Span = 10 * driver.EndedFor
	b.do(driver.Txn{Verb: driver.Take, ID: "a", Hold: true, Return: true, TTL: second, Ops: []driver.Op{day}})
	b.do(driver.Txn{Verb: driver.Take, ID: "b", Hold: true, Return: true, TTL: second, Ops: []driver.Op{day}})
	b.now += minute
	if got := b.end(driver.Cancel, "a", nil); !got.Allowed || got.Ops[0].Result.Given != 0 {
		t.Fatal(got)
	}
	b.used(4)
	if got := b.end(driver.Settle, "a", nil, 1); got.Ops[0].Result.Given != 0 {
		t.Fatal(got)
	}
	b.used(5)
	b.now += 2 * driver.EndedFor
	b.end(driver.Settle, "b", driver.ErrNoHold)
	b.used(5)
	if err := driver.Lapse(b.rows, b.now, "b"); err != nil {
		t.Fatal(err)
	}
	b.used(1)
}

// The same end again gives the same number again; another gives nothing.
func TestCancelAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve("a", false, counter(6))
	b.reserve("b", false, counter(3))
	b.end(driver.Settle, "b", nil, 1)
	for range 2 {
		if got := b.end(driver.Cancel, "a", nil); got.Ops[0].Result.Given != 6 {
			t.Fatal(got)
		}
		if got := b.end(driver.Cancel, "b", nil); !got.Allowed || got.Ops[0].Result.Given != 0 {
			t.Fatal(got)
		}
	}
	b.used(1)
}

// A settle gives back only into the state charged, and charges an excess to the one that runs now.
func TestSettleAfterTheWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do(driver.Txn{Verb: driver.Take, ID: "a", Hold: true, TTL: 10 * minute, Ops: []driver.Op{counter(5)}})
	b.do(driver.Txn{Verb: driver.Take, ID: "b", Hold: true, TTL: 10 * minute, Ops: []driver.Op{counter(5)}})
	b.now += 2 * minute
	b.reserve("c", false, counter(1))
	b.end(driver.Settle, "a", nil, 0)
	b.used(1)
	b.end(driver.Settle, "b", nil, 7)
	b.used(3)
}

func TestSlots(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got := b.reserve("a", true, slot(), counter(2)); !got.Allowed {
		t.Fatal(got)
	}
	got := b.reserve("b", true, slot(), counter(2))
	if got.Allowed || got.Ops[0].Result.RetryAfter != 5*second || !got.Ops[1].Result.Allowed {
		t.Fatalf("%+v", got.Ops[0].Result)
	}
	b.used(2)
	b.now += 4 * second
	b.end(driver.Renew, "a", nil)
	b.now += 4 * second
	if got := b.reserve("b", true, slot()); got.Allowed || got.Ops[0].Result.RetryAfter != second {
		t.Fatalf("%+v", got.Ops[0].Result)
	}
	b.end(driver.Settle, "a", nil, 1)
	b.used(1)
	if got := b.reserve("b", true, slot()); !got.Allowed {
		t.Fatal(got)
	}
	b.now += 5 * second // its holder is dead
	if got := b.reserve("c", true, slot()); !got.Allowed {
		t.Fatal(got)
	}
	b.end(driver.Renew, "b", driver.ErrEnded)
	if got := b.do(driver.Txn{Verb: driver.Take, Ops: []driver.Op{slot()}}); !errors.Is(got.Err, driver.ErrNotApplied) {
		t.Fatal(got.Err)
	}
}

// A hold that is charged by a clock behind that of others is given back all the same, and nothing of theirs.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	for kind, span := range map[driver.Kind]driver.Micros{driver.Bucket: 1000 * minute, driver.Counter: minute, driver.Window: minute} {
		b := newBench(t)
		op := driver.Op{Key: driver.Key{Space: fmt.Sprint(kind), ID: "k"}, Kind: kind, Size: 10, Rate: 1, Span: span, Cost: 1}
		b.do(driver.Txn{Verb: driver.Take, Ops: []driver.Op{op}})
		b.now += 5
		b.do(driver.Txn{Verb: driver.Take, Ops: []driver.Op{op}})
		b.now -= 8
		op.Cost = 6
		if got := b.reserve("a", false, op); !got.Allowed {
			t.Fatal(got)
		}
		b.now += 4
		if got := b.end(driver.Cancel, "a", nil); got.Ops[0].Result.Given != 6 {
			t.Errorf("kind %d: %d given back of 6", kind, got.Ops[0].Result.Given)
		}
		op.Cost = 0
		look := b.do(driver.Txn{Verb: driver.Peek, Ops: []driver.Op{op}})
		if look.Ops[0].Result.Used != 2 {
			t.Errorf("kind %d: %d used, not 2", kind, look.Ops[0].Result.Used)
		}
	}
}
