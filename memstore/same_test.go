package memstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// blobs is the plainest store that driver.Run can decide on: it keeps everything.
type blobs map[string][]byte

func (m blobs) Load(key []byte) ([]byte, error) { return m[string(key)], nil }

func (m blobs) Save(key, blob []byte, _ driver.Micros) error {
	if blob == nil {
		delete(m, string(key))
	} else {
		m[string(key)] = blob
	}
	return nil
}

// history makes random transactions that run into each other: few keys, small limits, a clock that jumps and steps back.
type history struct {
	*rand.Rand
	now  driver.Micros
	past []driver.Micros // when charges were made
	far  bool            // numbers up to the greatest
	ids  []string
}

func (h *history) number(n int64) int64 {
	if h.far && h.IntN(4) == 0 {
		return h.Int64N(driver.MaxNumber) + 1
	}
	return h.Int64N(n)
}

func (h *history) tick() {
	switch h.IntN(8) {
	case 0: // the clock stands still
	case 1:
		h.now -= driver.Micros(h.Int64N(2e6))
	case 2:
		h.now += driver.Micros(h.Int64N(30e6))
	case 3:
		h.now += driver.Micros(h.Int64N(20))
	default:
		h.now += driver.Micros(h.Int64N(500e3))
	}
}

func (h *history) op(verb driver.Verb) driver.Op {
	kind := driver.Kind(h.IntN(4) + 1)
	if verb == driver.Hit {
		kind = driver.Counter
	}
	rule := h.IntN(2)
	op := driver.Op{
		Key:  driver.Key{Space: fmt.Sprintf("|%d|%d|", kind, rule), ID: h.ids[h.IntN(3)]},
		Kind: kind,
		Size: h.number(12),
		Cost: h.number(5),
	}
	if h.IntN(3) == 0 {
		op.Key.Group = h.ids[0]
	}
	span := []driver.Micros{1e3, 1e6, 3e6, 10e6, 86_400e6}[h.IntN(5)]
	switch kind {
	case driver.Bucket:
		op.Rate, op.Span = h.number(20)+1, span
		if gain, unit, tick, err := driver.Units(op.Size, op.Rate, op.Span); err == nil && h.IntN(2) == 0 {
			op.Gain, op.Unit, op.Tick = gain, unit, tick
		}
	case driver.Window, driver.Counter:
		op.Span = span
	case driver.Budget:
		day := h.now - h.now%10e6 + driver.Micros(h.Int64N(3)-1)*10e6
		op.Bounds = [4]driver.Micros{day - 10e6, day, day + 10e6, day + 20e6}
		if h.IntN(10) == 0 {
			op.Bounds = [4]driver.Micros{1, 2, 3, 4}
		}
	}
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

func (h *history) txn() *driver.Txn {
	h.tick()
	t := &driver.Txn{Now: h.now}
	switch n := h.IntN(40); {
	case n < 20:
		t.Verb = driver.Take
	case n < 26:
		t.Verb = driver.Peek
	case n < 31:
		t.Verb = driver.Hit
	case n < 36:
		t.Verb = driver.Refund
	case n < 38:
		t.Verb = driver.Reset
	case n < 39:
		t.Verb = driver.Forget
	default:
		t.Verb = driver.Refund
	}
	ops := 1
	if h.IntN(3) == 0 {
		ops = 1 + h.IntN(6)
	}
	seen := map[driver.Key]bool{}
	for range ops {
		op := h.op(t.Verb)
		if seen[op.Key] {
			continue
		}
		seen[op.Key] = true
		if t.Verb == driver.Forget {
			op.Key.Space = []string{"", "|", "|3", "|2|1", "no"}[h.IntN(5)]
		}
		t.Ops = append(t.Ops, op)
	}
	if len(t.Ops) == 1 && t.Verb <= driver.Peek && h.IntN(3) == 0 {
		t.Ops[0].Times = h.Int64N(6)
	}
	if t.Verb == driver.Take {
		h.past = append(h.past, t.Now)
	}
	return t
}

func clone(t *driver.Txn) *driver.Txn {
	c := *t
	c.Ops = append([]driver.Op(nil), t.Ops...)
	return &c
}

// sameError reports whether two errors say the same to a caller.
func sameError(a, b error) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	for _, e := range []error{driver.ErrNotApplied, driver.ErrFull, driver.ErrOverflow, driver.ErrClock, driver.ErrClosed, driver.ErrCorrupt} {
		if errors.Is(a, e) != errors.Is(b, e) {
			return false
		}
	}
	return true
}

// TestSameAsRun holds the store to driver.Run: every field of every answer, over long random histories.
func TestSameAsRun(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		h := &history{Rand: rand.New(rand.NewPCG(seed, uint64(round))), now: 1_700_000_000e6, far: round%4 == 0}
		opts := &memstore.Options{} // some with several keys in a shard: there are 48 in all
		if round%2 == 0 {
			opts.MaxKeys = 48 << (round % 3)
		}
		for i := range 3 {
			id := fmt.Sprint("key-", i)
			if round%3 == 0 {
				id += strings.Repeat("\x00", []int{0, 11, 12, 27, 28, 200, 300, driver.MaxID - 5}[h.IntN(8)])
			}
			h.ids = append(h.ids, id)
		}
		store := memstore.New(opts)
		model := blobs{}
		for i := 0; i < 3000; {
			var ours, theirs []*driver.Txn
			for range 1 + h.IntN(4) {
				txn := h.txn()
				ours, theirs = append(ours, txn), append(theirs, clone(txn))
				i++
			}
			if err := driver.Run(model, 1, theirs); err != nil {
				t.Fatal(err)
			}
			if err := store.Apply(t.Context(), ours); err != nil {
				t.Fatal(err)
			}
			if err := store.Check(); err != nil {
				t.Fatal(i, err)
			}
			for j, got := range ours {
				want := theirs[j]
				if !sameError(got.Err, want.Err) {
					t.Fatalf("seed %d round %d: %+v\n failed with %v, not %v", seed, round, got, got.Err, want.Err)
				}
				got.Err, want.Err = nil, nil
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d round %d txn %d: answered\n%+v\nnot\n%+v", seed, round, i, got, want)
				}
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSameAsRunManyUses is about windows that join their uses.
func TestSameAsRunManyUses(t *testing.T) {
	t.Parallel()
	store, model := memstore.New(nil), blobs{}
	defer store.Close()
	now, r := driver.Micros(1e12), rand.New(rand.NewPCG(1, 2))
	for i := range 6000 {
		now += driver.Micros(r.Int64N(9000))
		got := &driver.Txn{Verb: driver.Take, Now: now, Ops: []driver.Op{{
			Key: driver.Key{Space: "w", ID: "k"}, Kind: driver.Window, Size: 700, Span: []driver.Micros{2e6, 3e6}[i/1000%2], Cost: 1 + r.Int64N(2),
		}}}
		if i%50 == 49 {
			got.Verb, got.Ops[0].At = driver.Refund, now-driver.Micros(r.Int64N(1e6))
		}
		want := clone(got)
		if err := errors.Join(driver.Run(model, 1, []*driver.Txn{want}), store.Apply(t.Context(), []*driver.Txn{got})); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("txn %d: answered\n%+v\nnot\n%+v", i, got, want)
		}
	}
}
