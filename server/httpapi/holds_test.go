package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// placed is a store that finds holds by the route in their ids only.
type placed struct{ *memstore.Store }

func (p placed) Route(k driver.Key) string {
	return fmt.Sprint(crc32.ChecksumIEEE([]byte(k.ID)) % 1000)
}

func (p placed) Apply(ctx context.Context, batch []*driver.Txn) error {
	for _, t := range batch {
		_, id, _ := strings.Cut(t.ID, "|")
		route, _, routed := strings.Cut(id, ".")
		if t.ID != "" && !routed || t.ID != "" && t.Verb == driver.Take && route != p.Route(t.Ops[0].Key) {
			return fmt.Errorf("%w: an id without its route", driver.ErrNotApplied)
		}
	}
	return p.Store.Apply(ctx, batch)
}

// TestReservationsOverTheWire: by the one who made them, by their ids alone, and by the API of the server.
func TestReservationsOverTheWire(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]driver.Store{"one place": memstore.New(nil), "many places": placed{memstore.New(nil)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testReservations(t, serve(t, store))
		})
	}
}

func testReservations(t *testing.T, s remote) {
	ctx := t.Context()
	one := ration.New(s, nil)
	other := ration.New(again(t, s), nil)
	user := ration.Rule{Name: "user", Limit: ration.FixedWindow{Limit: 100, Window: time.Hour}}
	slots := ration.Rule{Name: "jobs", Limit: ration.Concurrency{Limit: 2, Lease: 30 * time.Second}}
	used := func(key string, want int64) {
		t.Helper()
		if d, err := other.Peek(ctx, ration.KeyOf(key), user, 0); err != nil || d.Used != want {
			t.Errorf("%s has used %d, not %d; %v", key, d.Used, want, err)
		}
	}
	reserve := func(id string, cost int64) *ration.Reservation {
		t.Helper()
		r, err := one.Reserve(ctx, &ration.ReserveOptions{ID: id}, ration.KeyOf(id).Charge(user, cost), ration.KeyOf("all").Charge(slots, 1))
		if err != nil || !r.Allowed || !strings.HasSuffix(r.ID(), id) {
			t.Fatalf("%v, %v", r, err)
		}
		return r
	}
	a, b := reserve("a", 10), reserve("b", 20)
	if r := reserve("a", 10); r.ID() != a.ID() {
		t.Errorf("the id %q became %q", a.ID(), r.ID())
	}
	var ids []string
	for h, err := range other.Holds(ctx) {
		if err != nil || len(h.Charged) != 2 || h.Charged[0].Name != "user" {
			t.Fatalf("%+v, %v", h, err)
		}
		ids = append(ids, h.ID)
	}
	if len(ids) != 2 {
		t.Errorf("open are %v", ids)
	}
	if r, err := one.Reserve(ctx, nil, ration.KeyOf("c").Charge(user, 1), ration.KeyOf("all").Charge(slots, 1)); err != nil || r.Allowed || r.Name != "jobs" {
		t.Errorf("a third slot: %v, %v", r, err)
	}
	if err := a.Settle(ctx, 13, 1); err != nil {
		t.Error(err)
	}
	if err := other.Reservation(b.ID()).Cancel(ctx); err != nil {
		t.Error(err)
	}
	used("a", 13)
	used("b", 0)
	if err := b.Settle(ctx); !errors.Is(err, ration.ErrEnded) {
		t.Errorf("another end: %v", err)
	}
	if err := other.Reservation("1.none").Settle(ctx); !errors.Is(err, ration.ErrNoReservation) {
		t.Errorf("no reservation: %v", err)
	}
	for range 2 {
		if o, err := one.TakeOnce(ctx, "once", ration.KeyOf("once").Charge(user, 5)); err != nil || o.Used != 5 {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if _, err := other.TakeOnce(ctx, "once", ration.KeyOf("once").Charge(user, 6)); !errors.Is(err, ration.ErrIDReused) {
		t.Errorf("another request: %v", err)
	}
}

// many is a store with many open holds, and one that cannot be read.
type many struct {
	*memstore.Store
	broken bool
}

func (m many) Holds(context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		const n = 3456
		for i := range n {
			id := fmt.Sprintf("|%04d", i*1000%3457) // each once, in no order
			if !yield(driver.Hold{ID: id, At: driver.Micros(i), Expires: 5, Return: i%2 == 0}, nil) {
				return
			}
		}
		if m.broken {
			yield(driver.Hold{}, errors.New("broken"))
		}
	}
}

func TestPagesOfHolds(t *testing.T) {
	t.Parallel()
	s := serve(t, many{Store: memstore.New(nil)})
	last, n := "", 0
	for h, err := range s.Holds(t.Context()) {
		if err != nil || h.ID <= last {
			t.Fatalf("%+v after %q, %v", h, last, err)
		}
		last, n = h.ID, n+1
	}
	if n != 3456 || trips(s) != 4 {
		t.Errorf("%d holds in %d requests", n, trips(s))
	}
	for range s.Holds(t.Context()) {
		break
	}
	if trips(s) != 5 {
		t.Errorf("%d requests", trips(s))
	}
	for _, err := range serve(t, many{memstore.New(nil), true}).Holds(t.Context()) {
		if err == nil || !errors.Is(err, driver.ErrNotApplied) || strings.Contains(err.Error(), "broken") {
			t.Errorf("%v", err)
		}
	}
}

func TestSweepOverTheWire(t *testing.T) {
	t.Parallel()
	s := serve(t, memstore.New(&memstore.Options{SweepEvery: -1}))
	const n = 10
	for i := range n {
		take := &driver.Txn{Verb: driver.Take, Now: 1e6, Ops: []driver.Op{{
			Key: driver.Key{Space: "|c||", ID: fmt.Sprint(i)}, Kind: driver.Counter, Size: 1, Span: 1e6, Cost: 1,
		}}}
		if err := s.Apply(t.Context(), []*driver.Txn{take}); err != nil || !take.Allowed {
			t.Fatalf("%v, %+v", err, take)
		}
	}
	for _, c := range []struct {
		now       driver.Micros
		max, want int
	}{{1.5e6, 100, 0}, {3e6, 3, 3}, {3e6, 0, 0}, {3e6, -1, 0}, {3e6, 1 << 40, n - 3}, {0, 10, 0}} {
		if dropped, err := s.Sweep(t.Context(), c.now, c.max); err != nil || dropped != c.want {
			t.Errorf("Sweep(%d, %d) = %d, %v; want %d", c.now, c.max, dropped, err, c.want)
		}
	}
	if _, err := s.Sweep(t.Context(), -1, 1); !errors.Is(err, ration.ErrInvalidTime) {
		t.Errorf("%v", err)
	}
}
