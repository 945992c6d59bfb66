package driver_test

import (
	"errors"
	"testing"

	"github.com/ration-go/ration/driver"
)

// TestRefusedTakes: a Take that nobody could let go of changes nothing.
func TestRefusedTakes(t *testing.T) {
	t.Parallel()
	for name, txn := range map[string]driver.Txn{
		"slots under an id":      {Verb: driver.Take, ID: "a", TTL: minute, Ops: []driver.Op{slot()}},
		"slots beside a counter": {Verb: driver.Take, ID: "a", TTL: minute, Ops: []driver.Op{counter(1), slot()}},
		"slots without an id":    {Verb: driver.Take, Ops: []driver.Op{slot()}},
		"a hold without an id":   {Verb: driver.Take, Hold: true, TTL: minute, Ops: []driver.Op{counter(1)}},
	} {
		b := newBench(t)
		if got := b.do(txn); !errors.Is(got.Err, driver.ErrNotApplied) || got.Allowed {
			t.Errorf("%s: %v, %v", name, got.Allowed, got.Err)
		}
		if len(b.rows.rows) != 0 || len(b.rows.holds) != 0 {
			t.Errorf("%s: %d states and %d records were made", name, len(b.rows.rows), len(b.rows.holds))
		}
	}
}

// TestUnreadableUnderAnExpiredHold: a state that cannot be read is the trouble of those alone who need it, also where a hold
// that has expired is to give back to it.
func TestUnreadableUnderAnExpiredHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := counter(3)
	other.Key.ID = "other"
	b.reserve("a", true, counter(6), other)
	broken, readable := string(counter(0).Key.AppendTo(nil)), string(other.Key.AppendTo(nil))
	whole := b.rows.rows[broken]
	b.rows.rows[broken] = []byte("not ours")
	before := string(b.rows.rows[readable])
	b.now += 30 * second

	settle := &driver.Txn{Verb: driver.Settle, ID: "a", Amounts: []int64{1, 1}}
	cancel := &driver.Txn{Verb: driver.Cancel, ID: "a"}
	take := &driver.Txn{Verb: driver.Take, Ops: []driver.Op{other}}
	if err := driver.Run(b.rows, b.now, []*driver.Txn{settle, take, cancel}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(settle.Err, driver.ErrCorrupt) || !errors.Is(cancel.Err, driver.ErrCorrupt) || settle.Allowed || cancel.Allowed {
		t.Errorf("settle: %v, %v; cancel: %v, %v", settle.Allowed, settle.Err, cancel.Allowed, cancel.Err)
	}
	if take.Err != nil || !take.Allowed || take.Ops[0].Result.Used != 6 {
		t.Errorf("the take beside them: %+v", take)
	}
	if err := driver.Lapse(b.rows, b.now, "|none"); err != nil {
		t.Error(err)
	}
	if err := driver.Lapse(b.rows, b.now, "a"); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("a sweep should say that it cannot be given back, but says %v", err)
	}
	// It is as it was, so what can be read again is given back.
	b.rows.rows[broken], b.rows.rows[readable] = whole, []byte(before)
	if err := driver.Lapse(b.rows, b.now, "a"); err != nil {
		t.Error(err)
	}
	b.used(0)
	b.end(driver.Renew, "a", driver.ErrEnded)
}
