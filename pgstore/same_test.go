//go:build linux

package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// blobs is the plainest store that driver.Run can decide on: it keeps everything.
type blobs struct{ states, holds map[string][]byte }

func newBlobs() *blobs { return &blobs{map[string][]byte{}, map[string][]byte{}} }

func (m *blobs) Load(key []byte) ([]byte, error) { return m.states[string(key)], nil }

func (m *blobs) Save(key, blob []byte, _ driver.Micros) error {
	if blob == nil {
		delete(m.states, string(key))
	} else {
		m.states[string(key)] = blob
	}
	return nil
}

func (m *blobs) LoadHold(id string) ([]byte, error) { return m.holds[id], nil }

func (m *blobs) SaveHold(id string, blob []byte, _, _ driver.Micros) error {
	m.holds[id] = blob
	return nil
}

// history makes random transactions that run into each other: few keys, small limits, a clock that jumps and steps back.
type history struct {
	*rand.Rand
	now  driver.Micros
	past []driver.Micros // when charges were made
	far  bool            // numbers up to the greatest
	ids  bool            // holds and ids
	wide bool            // many uses of one window
	take bool            // only what most batches are made of: takes and peeks of different keys at one time
}

func (h *history) number(n int64) int64 {
	if h.far && h.IntN(4) == 0 {
		return h.Int64N(driver.MaxNumber) + 1
	}
	return h.Int64N(n)
}

func (h *history) tick() {
	switch h.IntN(8) {
	case 0, 1: // it stands still
	case 2:
		h.now -= driver.Micros(h.Int64N(2e6))
	case 3:
		h.now += driver.Micros(h.Int64N(30e6))
	case 4:
		h.now += driver.Micros(h.Int64N(20))
	default:
		h.now += driver.Micros(h.Int64N(500e3))
	}
}

func (h *history) op(verb driver.Verb) driver.Op {
	kind := driver.Kind(h.IntN(4) + 1)
	if h.ids && h.IntN(4) == 0 && (verb == driver.Peek || verb == driver.Reset) {
		kind = driver.Slots
	}
	if h.wide {
		kind = driver.Window
	}
	if h.take && kind == driver.Window {
		kind = driver.Bucket
	}
	if verb == driver.Hit {
		kind = driver.Counter
	}
	op := driver.Op{
		Key:  driver.Key{Space: fmt.Sprintf("|%d|%d|", kind, h.IntN(2)), ID: fmt.Sprintf("key-%d", h.IntN(3))},
		Kind: kind, Size: h.number(12), Cost: h.number(5),
	}
	if h.IntN(3) == 0 {
		op.Key.Group = "a group whose name is so long that the row key is a digest of it"
	}
	if h.wide {
		op.Size += 1000
		op.Key.ID = "key-0"
	}
	h.limit(&op)
	switch verb {
	case driver.Hit:
		op.Cost = h.number(9) - 4
	case driver.Refund:
		op.At = h.now
		if n := len(h.past); n > 0 && h.IntN(4) > 0 {
			op.At = h.past[max(0, n-1-h.IntN(6))]
		}
	}
	return op
}

func (h *history) limit(op *driver.Op) {
	span := []driver.Micros{1e3, 1e6, 3e6, 10e6, 86_400e6}[h.IntN(5)]
	switch op.Kind {
	case driver.Bucket:
		op.Rate, op.Span = h.number(20)+1, span
		for {
			if r, ok := arith.RateOf(op.Size, op.Rate, int64(op.Span)); ok {
				op.Gain, op.Unit, op.Tick = r.Gain, r.Unit, driver.Micros(r.Tick)
				break
			}
			op.Size, op.Rate = op.Size/2, op.Rate/2+1
		}
	case driver.Window, driver.Counter:
		op.Span = span
		if h.wide {
			op.Span = []driver.Micros{600e6, 600e6, 60e6}[h.IntN(3)]
		}
	case driver.Slots:
		op.Span, op.Cost = []driver.Micros{1e6, 5e6, 20e6}[h.IntN(3)], h.Int64N(3)
	case driver.Budget:
		day := h.now - h.now%10e6 + driver.Micros(h.Int64N(3)-1)*10e6
		op.Bounds = [4]driver.Micros{day - 10e6, day, day + 10e6, day + 20e6}
		if h.IntN(10) == 0 {
			op.Bounds = [4]driver.Micros{1, 2, 3, 4}
		}
	}
}

func (h *history) txn(tick bool) *driver.Txn {
	if tick {
		h.tick()
	}
	t := &driver.Txn{Now: h.now, Async: h.IntN(2) == 0}
	if h.ids && h.IntN(2) == 0 {
		h.hold(t)
		return t
	}
	switch n := h.IntN(40); {
	case n < 20:
		t.Verb = driver.Take
	case n < 26:
		t.Verb = driver.Peek
	case n < 31:
		t.Verb = driver.Hit
	case n < 36:
		t.Verb = driver.Refund
	case n < 39:
		t.Verb = driver.Reset
	default:
		t.Verb = driver.Forget
	}
	if h.take && h.IntN(50) > 0 {
		t.Verb = driver.Take + driver.Verb(h.IntN(5)/4)
	}
	if h.wide && t.Verb >= driver.Reset && h.IntN(10) > 0 {
		t.Verb = driver.Take
	}
	h.ops(t)
	if len(t.Ops) == 1 && t.Verb <= driver.Peek && h.IntN(3) == 0 {
		t.Ops[0].Times = h.Int64N(6)
	}
	if t.Verb == driver.Take {
		h.past = append(h.past, t.Now)
	}
	return t
}

func (h *history) ops(t *driver.Txn) {
	n := 1
	if !h.take && h.IntN(3) == 0 {
		n = 1 + h.IntN(6)
	}
	seen := map[driver.Key]bool{}
	for range n {
		op := h.op(t.Verb)
		if t.Verb == driver.Forget {
			op.Key.Space = op.Key.Space[:h.IntN(3)]
		}
		if !seen[op.Key] {
			seen[op.Key] = true
			t.Ops = append(t.Ops, op)
		}
	}
}

// hold makes a take with an id, or a word on one.
func (h *history) hold(t *driver.Txn) {
	t.ID = fmt.Sprintf("id-%d", h.IntN(6))
	if h.IntN(5) < 2 {
		t.Verb = driver.Take
		t.TTL = driver.Micros(1e6 + h.Int64N(20e6))
		t.Hold, t.Return = h.IntN(3) > 0, h.IntN(2) == 0
		t.Return = t.Return && t.Hold
		h.ops(t)
		if t.Hold && h.IntN(2) == 0 {
			op := driver.Op{Key: driver.Key{Space: "|5|0|", ID: fmt.Sprintf("key-%d", h.IntN(2))}, Kind: driver.Slots, Size: h.Int64N(5)}
			h.limit(&op)
			t.Ops = append(t.Ops, op)
		}
		return
	}
	t.Verb = driver.Settle + driver.Verb(h.IntN(4))
	switch t.Verb {
	case driver.Settle, driver.Progress:
		for range h.IntN(4) {
			t.Amounts = append(t.Amounts, h.number(8))
		}
	}
	if t.Verb >= driver.Progress && h.IntN(2) == 0 {
		t.TTL = driver.Micros(1e6 + h.Int64N(20e6))
	}
}

func clone(t *driver.Txn) *driver.Txn {
	c := *t
	c.Ops = slices.Clone(t.Ops)
	return &c
}

// same compares all that a caller sees.
func same(want, got *driver.Txn) bool {
	if want.Allowed != got.Allowed || want.At != got.At || len(want.Ops) != len(got.Ops) {
		return false
	}
	if want.Err != got.Err && (want.Err == nil || got.Err == nil || want.Err.Error() != got.Err.Error()) {
		return false
	}
	if want.Verb > driver.Forget && want.Err != nil { // the results have no meaning
		want, got = clone(want), clone(got)
		for i := range want.Ops {
			want.Ops[i].Result, got.Ops[i].Result = driver.Result{}, driver.Result{}
		}
	}
	for i := range want.Ops {
		if !reflect.DeepEqual(want.Ops[i], got.Ops[i]) {
			return false
		}
	}
	return true
}

// brief is t in a line, with those ops whose keys are of the given group and id only.
func brief(t *driver.Txn, of ...driver.Key) string {
	var b strings.Builder
	fmt.Fprintf(&b, "verb %d at %d", t.Verb, t.Now)
	if t.ID != "" {
		fmt.Fprintf(&b, " %q hold %v back %v ttl %d amounts %v", t.ID, t.Hold, t.Return, t.TTL, t.Amounts)
	}
	fmt.Fprintf(&b, ": %v %d %v", t.Allowed, t.At, t.Err)
	for i := range t.Ops {
		op := &t.Ops[i]
		if len(of) > 0 && !slices.ContainsFunc(of, func(k driver.Key) bool { return k.Group == op.Key.Group && k.ID == op.Key.ID }) {
			continue
		}
		fmt.Fprintf(&b, "; %s %.1s %s size %d cost %d x %d span %d at %d %v: %v", op.Key.Space, op.Key.Group, op.Key.ID, op.Size, op.Cost, op.Times, op.Span, op.At, op.Bounds, op.Result)
	}
	return b.String()
}

// story is what led to a difference: the last of log against got.
func story(log []*driver.Txn, got *driver.Txn) string {
	want := log[len(log)-1]
	if len(want.Ops) != len(got.Ops) {
		return brief(want) + "\n" + brief(got)
	}
	var of []driver.Key
	if want.Verb > driver.Forget && want.Err != nil { // the results have no meaning
		want, got = clone(want), clone(got)
		for i := range want.Ops {
			want.Ops[i].Result, got.Ops[i].Result = driver.Result{}, driver.Result{}
		}
	}
	for i := range want.Ops {
		if !reflect.DeepEqual(want.Ops[i], got.Ops[i]) {
			of = append(of, want.Ops[i].Key)
		}
	}
	var b strings.Builder
	for _, t := range log {
		text := brief(t, of...)
		if strings.Contains(text, ";") || t.ID == want.ID && t.ID != "" {
			b.WriteString(text + "\n")
		}
	}
	return b.String() + brief(got, of...) + "\n(the last two are what was wanted and what was got)"
}

func seed(t testing.TB) uint64 {
	if text := os.Getenv("RATION_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return uint64(time.Now().UnixNano())
}

// long is how many times longer than usual a test is to be.
func long() int {
	n, err := strconv.Atoi(os.Getenv("RATION_LONG"))
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// TestSameAsRun compares the store with driver.Run over random batches.
func TestSameAsRun(t *testing.T) {
	t.Parallel()
	all := &places{url: server(t, 15).URL}
	t.Cleanup(all.close)
	for _, h := range []history{{}, {far: true}, {ids: true}, {far: true, ids: true}, {wide: true}, {take: true}, {take: true, far: true}} {
		t.Run(h.String(), func(t *testing.T) {
			t.Parallel()
			for i := range 6 * long() {
				t.Run(strconv.Itoa(i), func(t *testing.T) { sameAsRun(t, all.open(t), h) })
			}
		})
	}
}

// String names what is special about h.
func (h *history) String() string {
	name := "plain"
	for _, f := range []struct {
		on   bool
		name string
	}{{h.far, "far"}, {h.ids, "ids"}, {h.wide, "wide"}, {h.take, "take"}} {
		if f.on {
			name += " " + f.name
		}
	}
	return name
}

var rounds atomic.Uint64

// sameAsRun compares s, which is empty, with driver.Run over one random history like h.
func sameAsRun(t *testing.T, s driver.Store, h history) {
	t.Helper()
	n, round := seed(t), rounds.Add(1)
	h.Rand, h.now = rand.New(rand.NewPCG(n, round)), 1_700_000_000e6
	model := newBlobs()
	var log []*driver.Txn
	steps := 150
	if h.wide {
		steps = 500
	}
	for done := 0; done < steps; {
		var batch, want []*driver.Txn
		ticks := !h.take && h.IntN(2) == 0 // between those of the batch
		seen := map[driver.Key]bool{}
		for i := range 1 + h.IntN(2)*h.IntN(8) {
			txn := h.txn(ticks || i == 0)
			if h.take {
				if seen[txn.Ops[0].Key] {
					continue
				}
				seen[txn.Ops[0].Key] = true
			}
			batch, want = append(batch, txn), append(want, clone(txn))
		}
		done += len(batch)
		if err := driver.Run(model, 1, want); err != nil {
			t.Fatal(err)
		}
		apply(t, s, batch...)
		for i := range batch {
			log = append(log, want[i])
			if !same(want[i], batch[i]) {
				t.Fatalf("seed %d, round %d, %d of a batch of %d:\n%s", n, round, i, len(batch), story(log, batch[i]))
			}
		}
	}
}

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(seed(t), rounds.Add(1)))
}
