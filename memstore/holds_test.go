package memstore_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// model is driver.Run over maps.
type model struct {
	rows, holds map[string][]byte
	due         map[string]driver.Micros
}

func newModel() *model {
	return &model{map[string][]byte{}, map[string][]byte{}, map[string]driver.Micros{}}
}

func (m *model) Load(key []byte) ([]byte, error) { return m.rows[string(key)], nil }

func (m *model) Save(key, blob []byte, _ driver.Micros) error {
	if m.rows[string(key)] = blob; blob == nil {
		delete(m.rows, string(key))
	}
	return nil
}

func (m *model) LoadHold(id string) ([]byte, error) { return m.holds[id], nil }

func (m *model) SaveHold(id string, blob []byte, _, due driver.Micros) error {
	m.holds[id], m.due[id] = blob, due
	return nil
}

// sweep ends the holds that are due, the earliest first: of two that give back to one state, the later may find it full.
func (m *model) sweep(t *testing.T, now driver.Micros) {
	var ids []string
	for id, due := range m.due {
		if due != 0 && due <= now {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(m.due[a], m.due[b]) })
	for _, id := range ids {
		if err := driver.Lapse(m, now, id); err != nil {
			t.Fatal(err)
		}
	}
}

const second = driver.Micros(1e6)

func randomOp(r *rand.Rand) driver.Op {
	kind := driver.Kind(1 + r.IntN(5))
	op := driver.Op{Kind: kind, Size: 10, Span: driver.Micros(5+5*r.IntN(2)) * second, Cost: r.Int64N(6)}
	op.Key = driver.Key{Space: fmt.Sprintf("|%d|", kind), ID: fmt.Sprint(r.IntN(3))}
	switch kind {
	case driver.Bucket:
		op.Rate = 1
	case driver.Budget:
		op.Span = 0
	case driver.Slots:
		op.Size = 3
	}
	return op
}

// randomTxn is a call on one of a few ids, or without one.
func randomTxn(r *rand.Rand, now driver.Micros) driver.Txn {
	t := driver.Txn{Now: now}
	for range 1 + r.IntN(3) {
		op := randomOp(r)
		start := now - now%(20*second)
		op.Bounds = [4]driver.Micros{start - 20*second, start, start + 20*second, start + 40*second}
		op.At = max(now-driver.Micros(r.IntN(8))*second, 1)
		if !slices.ContainsFunc(t.Ops, func(o driver.Op) bool { return o.Key == op.Key }) {
			t.Ops = append(t.Ops, op)
		}
	}
	t.ID = fmt.Sprint("|id", r.IntN(6))
	switch r.IntN(10) {
	case 0, 1, 2:
		t.Verb, t.Hold, t.Return, t.TTL = driver.Take, true, r.IntN(2) == 0, driver.Micros(1+r.IntN(20))*second
		if r.IntN(2) == 0 {
			t.ID = fmt.Sprint("|id", r.Int64())
		}
	case 3:
		t.Verb, t.TTL = driver.Take, driver.Micros(1+r.IntN(20))*second
	case 4:
		t.Verb = driver.Cancel
	case 5:
		t.Verb = driver.Renew
	case 6, 7:
		t.Verb = driver.Settle + driver.Verb(2*r.IntN(2)) // or Progress
		for range r.IntN(4) {
			t.Amounts = append(t.Amounts, r.Int64N(15))
		}
	case 8:
		t.Verb, t.ID = []driver.Verb{driver.Peek, driver.Reset, driver.Forget}[r.IntN(3)], ""
	default:
		t.Verb, t.ID = driver.Take, ""
	}
	if t.Verb > driver.Forget && (r.IntN(2) == 0 || t.Verb == driver.Cancel) {
		t.Ops = nil
	}
	return t
}

func TestHoldsSameAsRun(t *testing.T) {
	t.Parallel()
	for round := range 40 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		s, m := memstore.New(&memstore.Options{SweepEvery: -1}), newModel()
		now := 1000 * second
		for i := range 300 {
			now += driver.Micros(r.IntN(3000)) * second / 1000
			a := randomTxn(r, now)
			b := a
			b.Ops = slices.Clone(a.Ops)
			s.Apply(context.Background(), []*driver.Txn{&a})
			if err := driver.Run(m, now, []*driver.Txn{&b}); err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); got != want {
				t.Fatalf("seed %d, round %d, step %d:\n got %s\nwant %s", seed, round, i, got, want)
			}
			if r.IntN(10) == 0 {
				s.Sweep(context.Background(), now, 1<<30)
				m.sweep(t, now)
			}
		}
		s.Close()
	}
}

func reserve(s *memstore.Store, id string, ret bool) *driver.Txn {
	t := &driver.Txn{Verb: driver.Take, ID: id, Hold: true, Return: ret, TTL: 10 * second, Ops: []driver.Op{
		{Key: driver.Key{Space: "|c|", ID: "k"}, Kind: driver.Counter, Size: 1000, Span: 3600 * second, Cost: 1}}}
	s.Apply(context.Background(), []*driver.Txn{t})
	return t
}

// The store's own sweep gives back what is due and forgets records after a day, and then nothing is left.
func TestHoldsAreSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(&memstore.Options{MaxKeys: 100, SweepEvery: time.Minute})
		defer s.Close()
		for i := range 100 {
			if got := reserve(s, fmt.Sprint("|", i), i%2 == 0); !got.Allowed {
				t.Fatal(got.Err)
			}
		}
		n := 0
		for range s.Holds(context.Background()) {
			n++
		}
		if n != 100 {
			t.Fatal(n)
		}
		time.Sleep(2 * time.Minute)
		peek := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{{Key: driver.Key{Space: "|c|", ID: "k"}, Kind: driver.Counter, Size: 1000, Span: 3600 * second}}}
		s.Apply(context.Background(), []*driver.Txn{peek})
		if peek.Ops[0].Result.Used != 50 {
			t.Fatal(peek.Ops[0].Result)
		}
		for range s.Holds(context.Background()) {
			t.Fatal("an open hold")
		}
		time.Sleep(25 * time.Hour)
		if s.Len() != 0 || s.Bytes() != 0 {
			t.Fatal(s.Len(), s.Bytes())
		}
	})
}

// A full store takes no new hold and ends those that it has.
func TestHoldsWhenFull(t *testing.T) {
	t.Parallel()
	s := memstore.New(&memstore.Options{MaxBytes: 20_000})
	defer s.Close()
	var taken []string
	for i := range 1000 {
		id := fmt.Sprint("|", i)
		switch got := reserve(s, id, false); {
		case got.Err == nil:
			taken = append(taken, id)
		case got.Err != driver.ErrFull || got.Allowed || got.Ops[0].Result != (driver.Result{}):
			t.Fatalf("%+v", got)
		}
	}
	if len(taken) == 0 || len(taken) == 1000 {
		t.Fatal(len(taken))
	}
	for _, id := range taken {
		end := &driver.Txn{Verb: driver.Cancel, ID: id}
		if s.Apply(context.Background(), []*driver.Txn{end}); end.Err != nil || end.Ops[0].Result.Given != 1 {
			t.Fatal(end.Err)
		}
	}
	peek := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{{Key: driver.Key{Space: "|c|", ID: "k"}, Kind: driver.Counter, Size: 1000, Span: 3600 * second}}}
	if s.Apply(context.Background(), []*driver.Txn{peek}); peek.Ops[0].Result.Used != 0 {
		t.Fatal(peek.Ops[0].Result)
	}
}

// Many callers reserve, renew and end at once; what is settled is what counts.
func TestHoldsInParallel(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	defer s.Close()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				id := fmt.Sprintf("|%d-%d", g, i)
				if got := reserve(s, id, true); !got.Allowed {
					t.Error(got.Err)
				}
				verb := driver.Cancel
				if i%4 == 0 {
					verb = driver.Settle
				}
				end := &driver.Txn{Verb: verb, ID: id}
				if s.Apply(context.Background(), []*driver.Txn{end}); end.Err != nil {
					t.Error(end.Err)
				}
			}
		})
	}
	wg.Wait()
	peek := &driver.Txn{Verb: driver.Peek, Ops: []driver.Op{{Key: driver.Key{Space: "|c|", ID: "k"}, Kind: driver.Counter, Size: 1000, Span: 3600 * second}}}
	if s.Apply(context.Background(), []*driver.Txn{peek}); peek.Ops[0].Result.Used != 400 {
		t.Fatal(peek.Ops[0].Result)
	}
}
