package redisscript

import (
	"context"
	"errors"
	"testing"

	"github.com/ration-go/ration/driver"
)

// silent is a client that must not be asked.
type silent struct{ t *testing.T }

func (s silent) Do(_ context.Context, cmds []Cmd, _ []Reply) { s.t.Errorf("sent: %q", cmds[0].Args) }

// TestSlotsWithoutHold: slots that no hold has could never be let go, so nothing is sent, whatever the id.
func TestSlotsWithoutHold(t *testing.T) {
	t.Parallel()
	s := New(silent{t}, Config{SweepEvery: -1})
	slots := driver.Op{Key: driver.Key{Space: "|s||", ID: "k"}, Kind: driver.Slots, Size: 1, Span: 5e6, Cost: 1}
	count := driver.Op{Key: driver.Key{Space: "|c||", ID: "k"}, Kind: driver.Counter, Size: 9, Span: 5e6, Cost: 1}
	route := s.Route(slots.Key)
	for name, txn := range map[string]*driver.Txn{
		"Take":               {Verb: driver.Take, Ops: []driver.Op{slots}},
		"Take with an id":    {Verb: driver.Take, ID: "|" + route + ".x", TTL: 60e6, Ops: []driver.Op{slots}},
		"Take of a mixture":  {Verb: driver.Take, ID: "|" + route + ".x", TTL: 60e6, Ops: []driver.Op{count, slots}},
		"Hit":                {Verb: driver.Hit, Ops: []driver.Op{slots}},
		"Refund":             {Verb: driver.Refund, Ops: []driver.Op{slots}},
		"Take without an id": {Verb: driver.Take, Hold: true, TTL: 60e6, Ops: []driver.Op{slots}},
	} {
		if err := s.Apply(context.Background(), []*driver.Txn{txn}); err != nil || !errors.Is(txn.Err, driver.ErrNotApplied) {
			t.Errorf("%s: %v, %v", name, err, txn.Err)
		}
	}
}
