package driver_test

import (
	"testing"

	"github.com/ration-go/ration/driver"
)

type rows map[string][]byte

func (r rows) Load(key []byte) ([]byte, error) { return r[string(key)], nil }

func (r rows) Save(key, blob []byte, _ driver.Micros) error {
	if blob == nil {
		delete(r, string(key))
	} else {
		r[string(key)] = blob
	}
	return nil
}

func TestRunBucket(t *testing.T) {
	gain, unit, tick, err := driver.Units(10, 5, 1e6)
	if err != nil {
		t.Fatal(err)
	}
	data := rows{}
	take := func(at, cost int64) driver.Txn {
		txn := &driver.Txn{Verb: driver.Take, Ops: []driver.Op{{
			Key: driver.Key{Space: "|b||", ID: "k"}, Kind: driver.Bucket, Size: 10,
			Rate: 5, Span: 1e6, Gain: gain, Unit: unit, Tick: tick, Cost: cost,
		}}}
		if err := driver.Run(data, driver.Micros(at)*1e6, []*driver.Txn{txn}); err != nil || txn.Err != nil {
			t.Fatal(err, txn.Err)
		}
		return *txn
	}
	for _, c := range []struct {
		at, cost int64
		allowed  bool
		used     int64
	}{{10, 5, true, 5}, {9, 1, true, 6}, {10, 5, false, 6}, {11, 0, true, 1}, {11, 9, true, 10}, {100, 11, false, 0}} {
		got := take(c.at, c.cost)
		if r := got.Ops[0].Result; got.Allowed != c.allowed || r.Used != c.used {
			t.Errorf("at %d take %d: %+v", c.at, c.cost, r)
		}
	}
}
