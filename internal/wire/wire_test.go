package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
)

const most = driver.MaxNumber

// everything has every field of a Txn and an Op, at its bounds.
func everything() []*driver.Txn {
	return []*driver.Txn{
		{
			Verb: driver.Take, ID: "id\xff", Hold: true, Return: true, TTL: 1, Async: true, Now: driver.MaxNow,
			Ops: []driver.Op{
				{Key: driver.Key{Space: "a%20b|b|chat|", Group: "g\x00\xff", ID: "\xff\xfe"}, Kind: driver.Bucket, Size: 20, Rate: 10, Span: 60e6, Cost: most},
				{Key: driver.Key{Space: "|w||", ID: strings.Repeat("\xff", driver.MaxID)}, Kind: driver.Window, Size: most, Span: 1000, Times: 7},
				{
					Key: driver.Key{Space: "|m||/day", ID: "x"}, Kind: driver.Budget, Cost: 1,
					Bounds: [4]driver.Micros{-most, -1, 0, most},
				},
				{Key: driver.Key{Space: "|s||", ID: "x"}, Kind: driver.Slots, Size: 4096, Span: 1e6, Cost: 1},
			},
		},
		{Verb: driver.Hit, Ops: []driver.Op{{Key: driver.Key{Space: "|c||", ID: "x"}, Kind: driver.Counter, Span: 1e6, Cost: -most}}},
		{Verb: driver.Refund, Ops: []driver.Op{{Key: driver.Key{Space: "|c||", ID: "x"}, Kind: driver.Counter, Span: 1e6, At: most}}},
		{Verb: driver.Forget, Ops: []driver.Op{{Key: driver.Key{Space: "|", ID: "x"}}}},
		{Verb: driver.Settle, ID: "id", Amounts: []int64{0, most}},
		{Verb: driver.Settle, ID: "id", Ops: []driver.Op{{Key: driver.Key{Space: "|m||", ID: "x"}, Kind: driver.Budget, Bounds: [4]driver.Micros{1, 2, 3, 4}}}},
		{Verb: driver.Peek}, {Verb: driver.Reset}, {Verb: driver.Cancel}, {Verb: driver.Progress}, {Verb: driver.Renew},
	}
}

func TestRequestRoundTrip(t *testing.T) {
	t.Parallel()
	sent := everything()
	body, err := wire.Encode(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sent {
		if !reflect.DeepEqual(*sent[i], got[i]) {
			t.Errorf("%d: sent %+v\ngot %+v", i, *sent[i], got[i])
		}
	}
}

// TestEveryFieldIsSent fails when package driver gets a field that this package does not know.
func TestEveryFieldIsSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ   reflect.Type
		local string // not sent
		sent  int
	}{
		{reflect.TypeFor[driver.Txn](), "Allowed At Err", reflect.TypeFor[wire.Txn]().NumField()},
		{reflect.TypeFor[driver.Op](), "Gain Unit Tick Result", reflect.TypeFor[wire.Op]().NumField() - 2}, // the key's parts
		{reflect.TypeFor[driver.Key](), "", 3},
		{reflect.TypeFor[driver.Result](), "", reflect.TypeFor[wire.Result]().NumField()},
	} {
		if n := c.typ.NumField() - len(strings.Fields(c.local)); n != c.sent {
			t.Errorf("%v has %d fields to send, and %d are", c.typ, n, c.sent)
		}
	}
}

func TestAnswerRoundTrip(t *testing.T) {
	t.Parallel()
	result := driver.Result{Allowed: true, Never: true, Times: 1, Used: -most, Given: 2, RetryAfter: 3, ResetAt: most}
	decided := []driver.Txn{
		{Verb: driver.Take, Allowed: true, At: most, Ops: []driver.Op{{Result: result}, {}}},
		{Verb: driver.Take, At: 5, Err: driver.ErrClock, Ops: []driver.Op{{}, {}}},
		{Verb: driver.Settle, Allowed: true, At: 5, Ops: []driver.Op{{Key: driver.Key{Space: "|m||", ID: "\xff"}, Kind: driver.Budget, Size: 9, Cost: 7, Result: result}}},
		{Verb: driver.Settle, ID: "x", Err: driver.ErrNoHold},
	}
	body, err := wire.EncodeAnswers(decided)
	if err != nil {
		t.Fatal(err)
	}
	got := []*driver.Txn{
		{Verb: driver.Take, Ops: make([]driver.Op, 2)}, {Verb: driver.Take, Ops: make([]driver.Op, 2)},
		{Verb: driver.Settle}, {Verb: driver.Settle, ID: "x"},
	}
	if err := wire.DecodeAnswers(body, got); err != nil {
		t.Fatal(err)
	}
	for i := range decided {
		if want := decided[i].Err; want != nil {
			if !errors.Is(got[i].Err, want) {
				t.Errorf("%d: %v, not %v", i, got[i].Err, want)
			}
			decided[i].Err, got[i].Err = nil, nil
		}
		if !reflect.DeepEqual(decided[i], *got[i]) {
			t.Errorf("%d: decided %+v\ngot %+v", i, decided[i], *got[i])
		}
	}
}

// TestAnswersThatAreNone: after an error nothing of the batch was touched.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `{}`, `null`, `{"txns":[]}`, `{"txns":[{"allowed":true,"ops":[{}]},{}]}`, `{"txns":[{"allowed":true}]}`,
		`{"txns":[{"allowed":true,"ops":[{},{}]}]}`, `{"txns":[{"allowed":true,"ops":[{"used":1.5}]}]}`, `{"txns":[{"allowed":1}]}`,
		`{"txns":[{"allowed":true,"ops":[{}]}]} x`,
	} {
		batch := []*driver.Txn{{Verb: driver.Take, Ops: make([]driver.Op, 1)}}
		if err := wire.DecodeAnswers([]byte(body), batch); err == nil || batch[0].Allowed {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestCodes sends each error there and back.
func TestCodes(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		driver.ErrFull, driver.ErrOverflow, driver.ErrCrossGroup, driver.ErrEnded, driver.ErrClock, driver.ErrIDReused, driver.ErrNoHold,
		driver.ErrAmounts, driver.ErrCorrupt, driver.ErrClosed, driver.ErrNotApplied, ration.ErrUnsupported, ration.ErrOverloaded,
		ration.ErrInvalidKey, ration.ErrInvalidLimit, ration.ErrInvalidCost, ration.ErrInvalidTime, ration.ErrInvalidID, wire.ErrInvalidTxn,
	} {
		// A store's error may say more, and a Limiter's or a check's may stand behind driver.ErrNotApplied.
		for _, sent := range []error{
			fmt.Errorf("store: %w", err), fmt.Errorf("%w: %w", driver.ErrNotApplied, err), fmt.Errorf("%w: %w", err, driver.ErrNotApplied),
		} {
			if !errors.Is(sent, driver.ErrNotApplied) {
				continue
			}
			code := wire.CodeOf(sent)
			got := code.Err(wire.Explain(sent))
			if !errors.Is(got, err) || !errors.Is(got, driver.ErrNotApplied) || wire.CodeOf(got) != code {
				t.Errorf("%v became %s and then %v", sent, code, got)
			}
			if code.Err("").Error() == "" {
				t.Errorf("%s has no text", code)
			}
		}
	}
	for _, sent := range []error{errors.New("x"), fmt.Errorf("%w: %w", ration.ErrOutcomeUnknown, driver.ErrFull)} {
		if code := wire.CodeOf(sent); code != wire.CodeOutcomeUnknown || errors.Is(code.Err("y"), driver.ErrNotApplied) {
			t.Errorf("%v became %s", sent, code)
		}
	}
	if err := wire.Code("of_later").Err("more"); errors.Is(err, driver.ErrNotApplied) {
		t.Errorf("a code that nobody knows is %v", err)
	}
}

// TestExplainHidesTheStore: texts of stores name files and hosts.
func TestExplainHidesTheStore(t *testing.T) {
	t.Parallel()
	for _, kind := range []error{driver.ErrFull, driver.ErrCorrupt, driver.ErrClock, driver.ErrClosed, driver.ErrNotApplied, errors.New("x")} {
		if text := wire.Explain(fmt.Errorf("/var/lib/x.db: %w", kind)); strings.Contains(text, "/var") || text == "" {
			t.Errorf("%v: %q", kind, text)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	all := driver.Info{Caps: driver.CapsRun | driver.CapSlots | driver.CapIDs | driver.CapHolds}
	for i, txn := range everything()[:6] {
		if err := wire.Check(txn, &all); (err == nil) != (i != 0) { // Times stands in a list there
			t.Errorf("%d: %v", i, err)
		}
	}
	good := func() *driver.Txn {
		return &driver.Txn{Verb: driver.Take, Ops: []driver.Op{
			{Key: driver.Key{Space: "|b||", ID: "x"}, Kind: driver.Bucket, Size: 20, Rate: 10, Span: 60e6, Cost: 1},
			{Key: driver.Key{Space: "|m||", ID: "x"}, Kind: driver.Budget, Size: 20, Cost: 1, Bounds: [4]driver.Micros{1, 2, 3, 4}},
		}}
	}
	txn := good()
	if err := wire.Check(txn, &all); err != nil || txn.Ops[0].Unit == 0 || txn.Ops[0].Gain == 0 || txn.Ops[0].Tick == 0 {
		t.Fatalf("%v, %+v", err, txn.Ops[0])
	}
	run := driver.Info{Caps: driver.CapsRun}
	oneGroup := driver.Info{Caps: driver.CapsRun, OneGroup: true}
	for i, c := range []struct {
		info *driver.Info
		kind error
		do   func(t *driver.Txn, op *driver.Op)
	}{
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Verb = 0 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Verb = driver.Renew + 1 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Ops = nil }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Ops = make([]driver.Op, driver.MaxOps+1) }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Ops[1].Key = t.Ops[0].Key }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Now = -1 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Now = driver.MaxNow + 1 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Verb, t.ID = driver.Peek, "x" }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Hold = true }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Return = true }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.TTL = -1 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.ID = "x" }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Amounts = []int64{1} }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Verb, t.ID, t.Amounts = driver.Settle, "x", []int64{-1} }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Verb, t.Ops = driver.Settle, nil }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.ID, t.Hold = strings.Repeat("x", 2000), true }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, op *driver.Op) { t.Verb, op.At = driver.Refund, 0 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Verb = driver.Hit }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Key.Space = "" }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Key.Space = "|b|ü|" }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Key.Space = "\x00spaces" }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Key.Space = strings.Repeat("x", 3000) }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Key.ID = "" }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Key.ID = strings.Repeat("x", driver.MaxID+1) }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Key.Group = strings.Repeat("x", driver.MaxID+1) }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Kind = 0 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Kind = driver.Slots + 1 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Size = -1 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Size = most + 1 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Size = most }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Rate = 0 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Span = 999 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Span = 87_660*3600*1e6 + 1 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Cost = -1 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Cost = most + 1 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Times = 2 }},
		{&run, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Times = -1 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Ops[1].Bounds[2] = 2 }},
		{&run, wire.ErrInvalidTxn, func(t *driver.Txn, _ *driver.Op) { t.Ops[1].Bounds = [4]driver.Micros{} }},
		{&all, wire.ErrInvalidTxn, func(_ *driver.Txn, op *driver.Op) { op.Kind, op.Span = driver.Slots, 1e6 }},
		{&run, ration.ErrUnsupported, func(t *driver.Txn, _ *driver.Op) { t.ID, t.TTL = "x", 1 }},
		{&run, ration.ErrUnsupported, func(t *driver.Txn, _ *driver.Op) { t.ID, t.Hold, t.TTL = "x", true, 1 }},
		{&run, ration.ErrUnsupported, func(t *driver.Txn, _ *driver.Op) { t.Verb, t.ID, t.Ops = driver.Cancel, "x", nil }},
		{&run, ration.ErrUnsupported, func(t *driver.Txn, op *driver.Op) { t.Verb, op.Kind, op.Span = driver.Peek, driver.Slots, 1e6 }},
		{&driver.Info{Caps: driver.CapBucket | driver.CapBudget}, ration.ErrUnsupported, func(*driver.Txn, *driver.Op) {}},
		{&driver.Info{Caps: driver.CapBucket}, ration.ErrUnsupported, func(t *driver.Txn, _ *driver.Op) { t.Verb, t.Ops = driver.Forget, t.Ops[:1] }},
		{&oneGroup, driver.ErrCrossGroup, func(t *driver.Txn, _ *driver.Op) { t.Ops[1].Key.ID = "y" }},
		{&oneGroup, driver.ErrCrossGroup, func(t *driver.Txn, op *driver.Op) { op.Key.Group = "g" }},
	} {
		txn := good()
		c.do(txn, &txn.Ops[0])
		if err := wire.Check(txn, c.info); !errors.Is(err, c.kind) || !errors.Is(err, driver.ErrNotApplied) {
			t.Errorf("%d: %v, want %v", i, err, c.kind)
		}
	}
	// What needs no checking, and a Group that makes keys one group.
	for i, do := range []func(t *driver.Txn){
		func(*driver.Txn) {},
		func(t *driver.Txn) {
			t.Ops[0].Key.Group, t.Ops[1].Key = "g", driver.Key{Space: "|m||", Group: "g", ID: "y"}
		},
		func(t *driver.Txn) {
			t.Verb, t.Ops = driver.Forget, []driver.Op{{Key: driver.Key{Space: "|", ID: "x"}}}
		},
		func(t *driver.Txn) { t.Verb, t.Ops[0].At = driver.Reset, 7 },
		func(t *driver.Txn) { t.Ops, t.Ops[0].Times = t.Ops[:1], most },
	} {
		txn := good()
		do(txn)
		if err := wire.Check(txn, &oneGroup); err != nil {
			t.Errorf("fine %d: %v", i, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	_, err := wire.Decode([]byte(`{"txns":[{"verb":"take","ops":[{"space":"s","id":"eA==","used":1}]}]}`))
	var e *strictjson.Error
	if !errors.As(err, &e) || e.Code != strictjson.UnknownField || e.Pointer != "/txns/0/ops/0" {
		t.Errorf("%v", err)
	}
}

// rows are those of driver.Run, in a map.
type rows map[string][]byte

func (r rows) Load(key []byte) ([]byte, error) { return r[string(key)], nil }

func (r rows) Save(key, blob []byte, _ driver.Micros) error {
	r[string(key)] = blob
	return nil
}

// FuzzDecode gives what passes Decode and Check to driver.Run, which must stand it, and checks that it is sent again as
// it was.
func FuzzDecode(f *testing.F) {
	for _, txn := range everything() {
		body, err := wire.Encode([]*driver.Txn{txn})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"txns":[{"verb":"hit","ops":[{"space":"s","id":"eA==","kind":"counter","span_us":1000,"cost":-9007199254740991}],"now_us":1},` +
		`{"verb":"take","ops":[{"space":"s","id":"eA==","kind":"window","span_us":1000,"size":3,"cost":2}],"now_us":900},` +
		`{"verb":"take","ops":[{"space":"s","id":"eA==","kind":"bucket","rate":1,"span_us":1000,"size":3,"cost":2,"times":9}]},` +
		`{"verb":"refund","ops":[{"space":"s","id":"eA==","kind":"budget","bounds_us":[1,2,3,4],"at_us":2,"cost":2}],"now_us":2}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		batch, err := wire.Decode(body)
		if err != nil {
			return
		}
		sent := make([]*driver.Txn, len(batch))
		for i := range batch {
			sent[i] = &batch[i]
		}
		again, err := wire.Encode(sent)
		if err != nil {
			t.Fatal(err)
		}
		second, err := wire.Decode(again)
		if err != nil || !reflect.DeepEqual(batch, second) {
			t.Fatalf("%v\n%+v\n%+v", err, batch, second)
		}
		info := driver.Info{Caps: driver.CapsRun}
		var run []*driver.Txn
		for i := range batch {
			if batch[i].Err = wire.Check(&batch[i], &info); batch[i].Err == nil {
				run = append(run, &batch[i])
			} else if !errors.Is(batch[i].Err, driver.ErrNotApplied) {
				t.Fatal(batch[i].Err)
			}
		}
		if err := driver.Run(rows{}, 1_767_225_600_000_000, run); err != nil {
			t.Fatal(err)
		}
		answer, err := wire.EncodeAnswers(batch)
		if err != nil || !json.Valid(answer) {
			t.Fatal(err)
		}
		for i := range second {
			sent[i] = &second[i]
		}
		if err := wire.DecodeAnswers(answer, sent); err != nil {
			t.Fatal(err)
		}
		for i := range run {
			for j, op := range run[i].Ops {
				if r := op.Result; r.Used > most || r.Used < -most || r.RetryAfter < 0 || r.RetryAfter > driver.Century || run[i].Allowed && r.Never {
					t.Fatalf("op %d of %+v", j, run[i])
				}
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	batch := takes(64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Encode(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	body, err := wire.Encode(takes(64))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func takes(n int) []*driver.Txn {
	batch := make([]*driver.Txn, n)
	for i := range batch {
		batch[i] = &driver.Txn{Verb: driver.Take, Ops: []driver.Op{{
			Key: driver.Key{Space: "|b|chat|", ID: fmt.Sprint("user-", i)}, Kind: driver.Bucket, Size: 20, Rate: 10, Span: 60e6, Cost: 1,
		}}}
	}
	return batch
}
