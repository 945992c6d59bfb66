package sqlitetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

const second driver.Micros = 1e6

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

// sweep ends the holds that are due, the earliest first.
func (m *model) sweep(t *testing.T, now driver.Micros) {
	for _, id := range slices.SortedFunc(maps.Keys(m.due), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.due[a], m.due[b]), cmp.Compare(a, b))
	}) {
		if due := m.due[id]; due == 0 || due > now {
			continue
		}
		if err := driver.Lapse(m, now, id); err != nil {
			t.Fatal(err)
		}
	}
}

// open lists the holds that have not been ended, as text.
func (m *model) open(t *testing.T) (all []string) {
	for id, blob := range m.holds {
		if h, isOpen, err := driver.DecodeHold(id, blob, 0); err != nil {
			t.Fatal(err)
		} else if isOpen {
			all = append(all, fmt.Sprintf("%+v", h))
		}
	}
	slices.Sort(all)
	return all
}

func openHolds(t testing.TB, s driver.HoldLister) (all []driver.Hold) {
	t.Helper()
	for h, err := range s.Holds(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// randomOp is of one of a few keys.
func randomOp(r *rand.Rand, now driver.Micros) driver.Op {
	kind := driver.Kind(1 + r.IntN(5))
	op := driver.Op{Kind: kind, Size: 10, Span: driver.Micros(5+5*r.IntN(2)) * second, Cost: r.Int64N(6)}
	op.Key = driver.Key{Space: fmt.Sprintf("|%d|", kind), ID: fmt.Sprint(r.IntN(3))}
	op.At = max(now-driver.Micros(r.IntN(8))*second, 1)
	switch kind {
	case driver.Bucket:
		op.Rate = 1
	case driver.Budget:
		op.Span = 0
		start := now - now%(20*second)
		op.Bounds = [4]driver.Micros{start - 20*second, start, start + 20*second, start + 40*second}
	case driver.Slots:
		op.Size = 3
	}
	return op
}

// randomTxn is a call on one of a few ids, or without one.
func randomTxn(r *rand.Rand, now driver.Micros) *driver.Txn {
	t := &driver.Txn{Now: now, ID: fmt.Sprint("|id", r.IntN(6))}
	for range 1 + r.IntN(3) {
		op := randomOp(r, now)
		if !slices.ContainsFunc(t.Ops, func(o driver.Op) bool { return o.Key == op.Key }) {
			t.Ops = append(t.Ops, op)
		}
	}
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

// TestHoldsSameAsRun compares random calls on one file, by one of two stores, with driver.Run over maps.
func TestHoldsSameAsRun(t *testing.T) {
	each(t, holdsSameAsRun)
}

func holdsSameAsRun(t *testing.T, engine string) {
	for round := range 3 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		path, opts := file(t), &sqlitestore.Options{Synchronous: sqlitestore.Normal, SweepEvery: 20 * time.Millisecond}
		stores := []*sqlitestore.Store{open(t, engine, path, opts), open(t, engine, path, opts)}
		m := newModel()
		now := 1000 * second
		for i := range 200 {
			now += driver.Micros(r.IntN(3000)) * second / 1000
			var got, want []*driver.Txn
			for range 1 + r.IntN(3) {
				txn := randomTxn(r, now)
				same := *txn
				same.Ops = slices.Clone(txn.Ops)
				got, want = append(got, txn), append(want, &same)
			}
			s := stores[r.IntN(2)]
			if err := s.Apply(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			if err := driver.Run(m, now, want); err != nil {
				t.Fatal(err)
			}
			for j := range got {
				if got, want := fmt.Sprintf("%+v", *got[j]), fmt.Sprintf("%+v", *want[j]); got != want {
					t.Fatalf("seed %d, round %d, step %d.%d:\n got %s\nwant %s", seed, round, i, j, got, want)
				}
			}
			if r.IntN(8) > 0 {
				continue
			}
			if _, err := s.Sweep(t.Context(), now, math.MaxInt); err != nil {
				t.Fatal(err)
			}
			m.sweep(t, now)
			var listed []string
			for _, h := range openHolds(t, s) {
				listed = append(listed, fmt.Sprintf("%+v", h))
			}
			slices.Sort(listed)
			if want := m.open(t); !slices.Equal(listed, want) {
				t.Fatalf("seed %d, round %d, step %d, open holds:\n got %s\nwant %s", seed, round, i, listed, want)
			}
		}
	}
}

// reserve holds n of a counter of an hour.
func reserve(id string, n int64, ret bool, ttl driver.Micros) *driver.Txn {
	txn := take("held", 1<<40, n)
	txn.ID, txn.Hold, txn.Return, txn.TTL = "|"+id, true, ret, ttl
	return txn
}

func settle(id string, n int64) *driver.Txn {
	return &driver.Txn{Verb: driver.Settle, ID: "|" + id, Amounts: []int64{n}}
}

// held is what counts in the counter of reserve.
func held(t testing.TB, s driver.Store, now driver.Micros) int64 {
	t.Helper()
	txn := take("held", 1<<40, 0)
	txn.Verb, txn.Now = driver.Peek, now
	apply(t, s, txn)
	return txn.Ops[0].Result.Used
}

// TestHoldsLapseInTime: without a pass in an hour, with two stores on the file; and not by the wrong clock.
func TestHoldsLapseInTime(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path, opts := file(t), &sqlitestore.Options{SweepEvery: time.Hour}
		s := open(t, engine, path, opts)
		open(t, engine, path, opts)
		old := reserve("old", 1000, true, 10*second)
		old.Now = 1e15
		old.Ops[0].Key.ID = "old"
		apply(t, s, old)
		var batch []*driver.Txn
		for i := range 100 { // some steps
			batch = append(batch, reserve(fmt.Sprint(i), 1+int64(i%2), i%2 == 1, second/10))
		}
		apply(t, s, batch...)
		end := batch[0].At + second/10
		if n := held(t, s, 0); n != 150 {
			t.Errorf("150 are reserved, but %d count", n)
		}
		until(t, "what is to go back goes back", func() bool { return held(t, s, 0) == 50 })
		if late := driver.MicrosOf(time.Now()) - end; late > 5*second { // a second, on a machine at rest
			t.Errorf("the holds were ended %v after their time", late.Duration())
		} else {
			t.Logf("after %v", late.Duration())
		}
		if left := openHolds(t, s); len(left) != 1 || left[0].ID != "|old" {
			t.Errorf("the hold of an injected clock should be open, and no other: %+v", left)
		}
		for _, c := range []struct {
			now  driver.Micros
			want int
		}{{0, 0}, {1e15 + 10*second - 1, 0}, {1e15 + 10*second, 1}, {1e15 + 10*second + driver.EndedFor - 1, 1}, {1e15 + 10*second + driver.EndedFor, 1}} {
			// The fourth removes the state, which has ended; the last the record.
			if n, err := s.Sweep(t.Context(), c.now, math.MaxInt); err != nil || n != c.want {
				t.Errorf("Sweep(%d) did %d things, not %d (%v)", c.now, n, c.want, err)
			}
		}
	})
}

// TestLapseOfInjectedClock: when a day more than its life has passed on the server's clock, a hold of an injected clock
// expires, at the time that this clock has by then.
func TestLapseOfInjectedClock(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		txn := reserve("a", 7, true, 10*second)
		txn.Now = 1e15
		apply(t, s, txn)
		if n, err := s.Sweep(t.Context(), 0, math.MaxInt); n != 0 || err != nil {
			t.Errorf("nothing is due, but %d was done (%v)", n, err)
		}
		passed := int64(24*hour + 10*second)
		if _, err := openDB(t, engine, path).Exec(`UPDATE ration_holds SET lag = lag - ?1, next = next - ?1`, passed); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Sweep(t.Context(), 0, math.MaxInt); n != 1 || err != nil {
			t.Errorf("a hold is due, but %d was done (%v)", n, err)
		}
		if n := held(t, s, 1e15+10*second); n != 0 {
			t.Errorf("7 were to go back, but %d still count", n)
		}
		if n := count(t, engine, path, "ration_holds"); n != 1 {
			t.Errorf("the record should be there for a day, but there are %d", n)
		}
	})
}

// TestLapseAfterLongPause: a file that nobody had open for longer than records are kept still gives back.
func TestLapseAfterLongPause(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		const at driver.Micros = 1e15
		txn := reserve("a", 7, true, 10*second)
		txn.Now, txn.Ops[0].Span = at, 1000*hour
		apply(t, s, txn)
		later := at + 100*hour
		if n, err := s.Sweep(t.Context(), later, math.MaxInt); err != nil || n < 2 {
			t.Errorf("a hold should be ended and its record removed, but %d things were done (%v)", n, err)
		}
		peek := take("held", 1<<40, 0)
		peek.Verb, peek.Now, peek.Ops[0].Span = driver.Peek, later, 1000*hour
		if apply(t, s, peek); peek.Ops[0].Result.Used != 0 {
			t.Errorf("7 were to go back, but %d still count", peek.Ops[0].Result.Used)
		}
		if n := count(t, engine, path, "ration_holds"); n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}

func count(t testing.TB, engine, path, table string) (n int) {
	t.Helper()
	if err := openDB(t, engine, path).QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHoldSweepIsBounded: steps of any size end all, remove all, and count right.
func TestHoldSweepIsBounded(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		const at driver.Micros = 1e15
		var batch []*driver.Txn
		for i := range 700 {
			txn := take("held", 1<<40, 1)
			txn.Now, txn.ID, txn.TTL = at, fmt.Sprint("|id", i), second
			if i < 100 {
				txn = reserve(fmt.Sprint(i), 1, true, 2*second)
				txn.Now = at
			}
			batch = append(batch, txn)
		}
		apply(t, s, batch...)
		if n := len(openHolds(t, s)); n != 100 {
			t.Errorf("100 holds are open, and %d are listed", n)
		}
		for total := 0; total < 700; {
			n, err := s.Sweep(t.Context(), at+2*second, 150)
			if err != nil || n <= 0 || n > 150 {
				t.Fatalf("Sweep answered %d, %v after %d", n, err, total)
			}
			total += n
		}
		if n, err := s.Sweep(t.Context(), at+2*second, 150); n != 0 || err != nil {
			t.Errorf("nothing is left to do, but %d was done (%v)", n, err)
		}
		if n := held(t, s, at+2*second); n != 600 {
			t.Errorf("600 should count, but %d do", n)
		}
		if n := count(t, engine, path, "ration_holds"); n != 100 {
			t.Errorf("the records of 100 holds should be there for a day, but %d are", n)
		}
	})
}

// TestDamagedHold: a record that is not ours is told of, changes nothing, and is in nobody's way.
func TestDamagedHold(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		const at driver.Micros = 1e15
		a, b := reserve("a", 1, true, second), reserve("b", 2, true, second)
		a.Now, b.Now = at, at
		apply(t, s, a, b)
		if _, err := openDB(t, engine, path).Exec(`UPDATE ration_holds SET record = x'00' WHERE id = x'7c61'`); err != nil {
			t.Fatal(err)
		}
		end := settle("a", 1)
		if err := s.Apply(t.Context(), []*driver.Txn{end}); err != nil || !errors.Is(end.Err, driver.ErrCorrupt) {
			t.Errorf("a settle of a damaged hold answered %v, %v", err, end.Err)
		}
		var listed []string
		for h, err := range s.Holds(t.Context()) {
			if listed = append(listed, h.ID); (err != nil) != (h.ID == "|a") {
				t.Errorf("the list has %q with %v", h.ID, err)
			}
		}
		if len(listed) != 2 {
			t.Errorf("two should be listed, but %q are", listed)
		}
		for range 2 {
			if _, err := s.Sweep(t.Context(), at+second, math.MaxInt); err != nil {
				t.Error(err)
			}
		}
		if n := held(t, s, at+second); n != 1 {
			t.Errorf("2 of 3 should have gone back, but %d count", n)
		}
		if _, err := s.Sweep(t.Context(), at+second+driver.EndedFor, math.MaxInt); err != nil {
			t.Error(err)
		}
		if n := count(t, engine, path, "ration_holds"); n != 0 {
			t.Errorf("%d records are left after their time", n)
		}
	})
}

// TestHoldFaults: an error in any statement leaves holds and counts as they were.
func TestHoldFaults(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		fault := errors.New("a fault")
		var at atomic.Value
		at.Store("")
		s := openWith(t, engine, file(t), func(text string) error {
			if begins := at.Load().(string); begins != "" && strings.HasPrefix(text, begins) {
				return fault
			}
			return nil
		})
		const now driver.Micros = 1e15
		a := reserve("a", 5, true, second)
		a.Now = now
		apply(t, s, a)
		for _, begins := range []string{"SELECT id, record", "INSERT INTO ration_states", "INSERT INTO ration_holds"} {
			at.Store(begins)
			var errs []error
			for _, txn := range []*driver.Txn{reserve("b", 1, true, second), settle("a", 3)} {
				txn.Now = now
				errs = append(errs, s.Apply(t.Context(), []*driver.Txn{txn}))
			}
			if !strings.HasPrefix(begins, "SELECT") {
				_, err := s.Sweep(t.Context(), now+second, math.MaxInt)
				errs = append(errs, err)
			}
			at.Store("")
			for i, err := range errs {
				if !errors.Is(err, fault) || !errors.Is(err, driver.ErrNotApplied) {
					t.Errorf("a fault in %s answered %d: %v", begins, i, err)
				}
			}
			if n, open := held(t, s, now), openHolds(t, s); n != 5 || len(open) != 1 {
				t.Errorf("after a fault in %s 5 should be held, but %d are, by %+v", begins, n, open)
			}
		}
		for _, begins := range []string{"SELECT EXISTS", "SELECT id, expires", "DELETE FROM ration_holds"} {
			at.Store(begins)
			_, err := s.Sweep(t.Context(), now+second+driver.EndedFor, math.MaxInt)
			at.Store("")
			if !errors.Is(err, fault) {
				t.Errorf("a fault in %s answered: %v", begins, err)
			}
		}
		if _, err := s.Sweep(t.Context(), now+second+driver.EndedFor, math.MaxInt); err != nil || len(openHolds(t, s)) != 0 {
			t.Errorf("the hold should be ended now (%v)", err)
		}
	})
}

// TestIDIsForWriters: a Take of nothing with an ID is remembered too, and its second answer writes nothing.
func TestIDIsForWriters(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		var commits atomic.Int64
		s := openWith(t, engine, file(t), func(text string) error {
			if text == "COMMIT" {
				commits.Add(1)
			}
			return nil
		})
		once := func(n int64) *driver.Txn {
			txn := take("a", 10, n)
			txn.ID, txn.TTL = "|x", hour
			return txn
		}
		first, again, other := once(0), once(0), once(1)
		apply(t, s, first)
		before := commits.Load()
		apply(t, s, again)
		if err := s.Apply(context.Background(), []*driver.Txn{other}); err != nil || !errors.Is(other.Err, driver.ErrIDReused) {
			t.Errorf("another request of the same id answered %v, %v", err, other.Err)
		}
		if again.At != first.At || commits.Load() != before || before != 1 {
			t.Errorf("the same request at %d and %d, with %d commits and then %d", first.At, again.At, before, commits.Load()-before)
		}
	})
}
