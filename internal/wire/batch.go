package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
)

// Bounds of one request and its answer.
const (
	MaxBody   = 4 << 20  // bytes of a request
	MaxTxns   = 1024     // transactions in a request
	MaxAnswer = 16 << 20 // bytes of an answer
)

// Batch is the body of a request.
type Batch struct {
	Txns []Txn `json:"txns" strict:"required"`
}

// Txn is a driver.Txn, without what a store fills in.
type Txn struct {
	Verb    verb          `json:"verb" strict:"required"`
	Ops     []Op          `json:"ops,omitempty"`
	ID      bytes         `json:"id,omitempty"`
	Hold    bool          `json:"hold,omitempty"`
	Return  bool          `json:"return,omitempty"`
	TTL     driver.Micros `json:"ttl_us,omitempty"`
	Amounts []int64       `json:"amounts,omitempty"`
	Async   bool          `json:"async,omitempty"`
	Now     driver.Micros `json:"now_us,omitempty"`
}

// Op is a driver.Op, without what a store fills in.
type Op struct {
	Space  string            `json:"space" strict:"required"`
	Group  bytes             `json:"group,omitempty"`
	ID     bytes             `json:"id" strict:"required"`
	Kind   kind              `json:"kind,omitempty"` // absent for verb forget
	Size   int64             `json:"size,omitempty"`
	Rate   int64             `json:"rate,omitempty"`
	Span   driver.Micros     `json:"span_us,omitempty"`
	Bounds *[4]driver.Micros `json:"bounds_us,omitempty"`
	Cost   int64             `json:"cost,omitempty"`
	Times  int64             `json:"times,omitempty"`
	At     driver.Micros     `json:"at_us,omitempty"`
}

// Answers is the body of an answer.
type Answers struct {
	Txns []Answer `json:"txns" strict:"required"`
}

// Answer is what a store filled in of a driver.Txn.
type Answer struct {
	Allowed bool          `json:"allowed,omitempty"`
	At      driver.Micros `json:"at_us,omitempty"`
	Error   *TxnError     `json:"error,omitempty"`
	Ops     []Result      `json:"ops,omitempty"`

	// ID is what finds a new hold from now on: the id that was sent, or that with the route of its keys.
	ID bytes `json:"id,omitempty"`

	// HoldOps are those of the hold, for the verbs that end or renew one.
	HoldOps []Op `json:"hold_ops,omitempty"`
}

// TxnError is a driver.Txn's Err. Whether it may have been charged follows from the code.
type TxnError struct {
	Code   Code   `json:"code" strict:"required"`
	Detail string `json:"detail" strict:"required"`
}

// Result is a driver.Result.
type Result struct {
	Allowed    bool          `json:"allowed,omitempty"`
	Never      bool          `json:"never,omitempty"`
	Times      int64         `json:"times,omitempty"`
	Used       int64         `json:"used,omitempty"`
	Given      int64         `json:"given,omitempty"`
	RetryAfter driver.Micros `json:"retry_after_us,omitempty"`
	ResetAt    driver.Micros `json:"reset_at_us,omitempty"`
}

// Encode is batch as the body of a request.
func Encode(batch []*driver.Txn) ([]byte, error) {
	b := Batch{Txns: make([]Txn, len(batch))}
	for i, t := range batch {
		b.Txns[i] = Txn{
			Verb: verb(t.Verb), Ops: opsOf(t.Ops), ID: bytes(t.ID), Hold: t.Hold, Return: t.Return, TTL: t.TTL,
			Amounts: t.Amounts, Async: t.Async, Now: t.Now,
		}
	}
	return json.Marshal(b)
}

func opsOf(ops []driver.Op) []Op {
	all := make([]Op, len(ops))
	for i := range ops {
		op := &ops[i]
		all[i] = Op{
			Space: op.Key.Space, Group: bytes(op.Key.Group), ID: bytes(op.Key.ID), Kind: kind(op.Kind), Size: op.Size,
			Rate: op.Rate, Span: op.Span, Cost: op.Cost, Times: op.Times, At: op.At,
		}
		if op.Bounds != [4]driver.Micros{} {
			all[i].Bounds = &op.Bounds
		}
	}
	return all
}

// Decode reads the body of a request. An error is a *strictjson.Error: it cannot be read, so nothing of it may be decided.
// The transactions have yet to pass Check.
func Decode(body []byte) ([]driver.Txn, error) {
	var b Batch
	if err := strictjson.Decode(body, &b); err != nil {
		return nil, err
	}
	if n := len(b.Txns); n < 1 || n > MaxTxns {
		return nil, &strictjson.Error{
			Code: strictjson.WrongType, Pointer: "/txns", Detail: fmt.Sprintf("a batch of %d transactions is not between 1 and %d", n, MaxTxns),
		}
	}
	batch := make([]driver.Txn, len(b.Txns))
	for i := range b.Txns {
		t := &b.Txns[i]
		batch[i] = driver.Txn{
			Verb: driver.Verb(t.Verb), Ops: driverOps(t.Ops), ID: string(t.ID), Hold: t.Hold, Return: t.Return, TTL: t.TTL,
			Amounts: t.Amounts, Async: t.Async, Now: t.Now,
		}
	}
	return batch, nil
}

func driverOps(ops []Op) []driver.Op {
	if len(ops) == 0 {
		return nil
	}
	all := make([]driver.Op, len(ops))
	for i := range ops {
		op := &ops[i]
		all[i] = driver.Op{
			Key:  driver.Key{Space: op.Space, Group: string(op.Group), ID: string(op.ID)},
			Kind: driver.Kind(op.Kind), Size: op.Size, Rate: op.Rate, Span: op.Span, Cost: op.Cost, Times: op.Times, At: op.At,
		}
		if op.Bounds != nil {
			all[i].Bounds = *op.Bounds
		}
	}
	return all
}

// EncodeAnswers is what a store filled in of batch, as the body of an answer.
func EncodeAnswers(batch []driver.Txn) ([]byte, error) {
	a := Answers{Txns: make([]Answer, len(batch))}
	for i := range batch {
		t := &batch[i]
		to := &a.Txns[i]
		to.Allowed, to.At, to.Ops = t.Allowed, t.At, make([]Result, len(t.Ops))
		if t.Err != nil {
			to.Error = &TxnError{CodeOf(t.Err), Explain(t.Err)}
		}
		for j := range t.Ops {
			to.Ops[j] = Result(t.Ops[j].Result)
		}
		if ofHold(t) {
			to.HoldOps = opsOf(t.Ops)
		}
		if t.Hold && t.Allowed && t.Err == nil {
			to.ID = bytes(t.ID)
		}
	}
	return json.Marshal(a)
}

// DecodeAnswers reads the body of an answer into the result fields of batch. After an error it is not known what was
// decided, and batch is as it was.
func DecodeAnswers(body []byte, batch []*driver.Txn) error {
	var a Answers
	if err := strictjson.Decode(body, &a); err != nil {
		return err
	}
	if len(a.Txns) != len(batch) {
		return fmt.Errorf("the answer has %d transactions, not %d", len(a.Txns), len(batch))
	}
	for i, t := range batch {
		ops := len(t.Ops)
		if ofHold(t) {
			ops = len(a.Txns[i].HoldOps)
		}
		if got := len(a.Txns[i].Ops); got != ops && a.Txns[i].Error == nil {
			return fmt.Errorf("transaction %d of the answer has %d results, not %d", i, got, ops)
		}
	}
	for i, t := range batch {
		from := &a.Txns[i]
		t.Allowed, t.At, t.Err = from.Allowed, from.At, nil
		if from.Error != nil {
			t.Err = from.Error.Code.Err(from.Error.Detail)
		}
		if ofHold(t) {
			t.Ops = driverOps(from.HoldOps)
		}
		if from.ID != "" && t.Hold {
			t.ID = string(from.ID)
		}
		for j := range min(len(t.Ops), len(from.Ops)) {
			t.Ops[j].Result = driver.Result(from.Ops[j])
		}
	}
	return nil
}

// ofHold reports whether t's ops are those of a hold, which the store knows.
func ofHold(t *driver.Txn) bool { return t.Verb >= driver.Settle }

// bytes are arbitrary bytes, base64 on the wire.
type bytes string

// MarshalText is base64.
func (b bytes) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(b)), nil
}

// UnmarshalStrict reads base64.
func (b *bytes) UnmarshalStrict(d *strictjson.Decoder) error {
	text, err := d.Text()
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return d.Error(strictjson.WrongType, "this must be base64, with padding")
	}
	*b = bytes(raw)
	return nil
}

type verb driver.Verb

var verbs = []string{
	driver.Take: "take", driver.Peek: "peek", driver.Hit: "hit", driver.Refund: "refund", driver.Reset: "reset",
	driver.Forget: "forget", driver.Settle: "settle", driver.Cancel: "cancel", driver.Progress: "progress", driver.Renew: "renew",
}

// MarshalText is the verb's name.
func (v verb) MarshalText() ([]byte, error) { return nameOf(verbs, int(v)) }

// UnmarshalStrict reads a verb's name.
func (v *verb) UnmarshalStrict(d *strictjson.Decoder) error {
	i, err := indexOf(d, verbs, "verb")
	*v = verb(i)
	return err
}

type kind driver.Kind

var kinds = []string{
	driver.Bucket: "bucket", driver.Window: "window", driver.Counter: "counter", driver.Budget: "budget", driver.Slots: "slots",
}

// MarshalText is the kind's name.
func (k kind) MarshalText() ([]byte, error) { return nameOf(kinds, int(k)) }

// UnmarshalStrict reads a kind's name.
func (k *kind) UnmarshalStrict(d *strictjson.Decoder) error {
	i, err := indexOf(d, kinds, "kind")
	*k = kind(i)
	return err
}

var errNoName = errors.New("ration: a verb or kind that this version does not know")

func nameOf(names []string, i int) ([]byte, error) {
	if i < 1 || i >= len(names) {
		return nil, errNoName
	}
	return []byte(names[i]), nil
}

func indexOf(d *strictjson.Decoder, names []string, what string) (int, error) {
	text, err := d.Text()
	if err != nil {
		return 0, err
	}
	for i, name := range names {
		if i > 0 && name == text {
			return i, nil
		}
	}
	return 0, d.Error(strictjson.WrongType, fmt.Sprintf("there is no such %s", what))
}
