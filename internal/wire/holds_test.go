package wire_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
)

func TestHoldsRoundTrip(t *testing.T) {
	t.Parallel()
	holds := []driver.Hold{
		{ID: "\xff|1.x", At: 1, Expires: most, Return: true, Ops: []driver.Op{
			{Key: driver.Key{Space: "|b|chat|", Group: "g", ID: "\xfe"}, Kind: driver.Bucket, Size: 20, Rate: 10, Span: 60e6, Cost: 3},
			{Key: driver.Key{Space: "|m||/day", ID: "x"}, Kind: driver.Budget, Size: 9, Cost: 1, Bounds: [4]driver.Micros{1, 2, 3, 4}},
		}},
		{ID: "y"},
	}
	body, err := wire.EncodeHolds(holds, true)
	if err != nil {
		t.Fatal(err)
	}
	got, more, err := wire.DecodeHolds(body)
	if err != nil || !more || !reflect.DeepEqual(got, holds) {
		t.Errorf("sent %+v\ngot %+v, %v, %v", holds, got, more, err)
	}
	if n := reflect.TypeFor[driver.Hold]().NumField(); n != reflect.TypeFor[wire.Hold]().NumField() {
		t.Errorf("a driver.Hold has %d fields", n)
	}
}

// TestLongPagesAreCut: but there is always one hold on a page, so that whoever asks gets on.
func TestLongPagesAreCut(t *testing.T) {
	t.Parallel()
	long := driver.Hold{Ops: make([]driver.Op, driver.MaxOps)}
	for i := range long.Ops {
		long.Ops[i].Key = driver.Key{Space: strings.Repeat("s", 2048), Group: strings.Repeat("\xff", driver.MaxID), ID: strings.Repeat("\xff", driver.MaxID)}
		long.Ops[i].Kind = driver.Counter
	}
	for _, n := range []int{1, 2, 20} {
		body, err := wire.EncodeHolds(make([]driver.Hold, 0), false)
		if err != nil || string(body) != `{"holds":[]}` {
			t.Errorf("%s, %v", body, err)
		}
		page := make([]driver.Hold, n)
		for i := range page {
			page[i] = long
		}
		if body, err = wire.EncodeHolds(page, false); err != nil || len(body) > wire.MaxAnswer {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
		got, more, err := wire.DecodeHolds(body)
		if err != nil || len(got) == 0 || more != (len(got) < n) {
			t.Errorf("%d holds of %d, %v, %v", len(got), n, more, err)
		}
	}
}

func TestHoldsRequest(t *testing.T) {
	t.Parallel()
	body, err := wire.EncodeHoldsRequest("\xff")
	if err != nil {
		t.Fatal(err)
	}
	var r wire.HoldsRequest
	if err := strictjson.Decode(body, &r); err != nil || r.After != "\xff" || r.Max != 0 {
		t.Errorf("%s: %+v, %v", body, r, err)
	}
	for _, bad := range []string{``, `{}`, `{"holds":{}}`, `{"holds":[{}]}`, `{"holds":[{"id":"?"}]}`, `{"holds":[{"id":"","ops":[{}]}]}`, `{"holds":[],"x":1}`} {
		if _, _, err := wire.DecodeHolds([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
