package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
)

// model is driver.Run over maps.
type model struct {
	rows  map[string][]byte
	holds map[string][]byte
	due   map[string]driver.Micros
}

func newModel() *model {
	return &model{map[string][]byte{}, map[string][]byte{}, map[string]driver.Micros{}}
}

func (m *model) Load(key []byte) ([]byte, error) { return m.rows[string(key)], nil }

func (m *model) Save(key, blob []byte, _ driver.Micros) error {
	if blob == nil {
		delete(m.rows, string(key))
	} else {
		m.rows[string(key)] = blob
	}
	return nil
}

func (m *model) LoadHold(id string) ([]byte, error) { return m.holds[id], nil }

func (m *model) SaveHold(id string, blob []byte, _, due driver.Micros) error {
	m.holds[id], m.due[id] = blob, due
	if due == 0 {
		delete(m.due, id)
	}
	return nil
}

func (m *model) sweep(t *testing.T, now driver.Micros) (n int) {
	var ids []string
	for id, due := range m.due {
		if due <= now {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(m.due[a], m.due[b]), strings.Compare(a, b)) })
	for _, id := range ids {
		if err := driver.Lapse(m, now, id); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.due[id]; ok { // its record is over
			delete(m.due, id)
		}
	}
	return len(ids)
}

// history makes random transactions.
type history struct {
	rng    *rand.Rand
	prefix string
	route  string
	now    driver.Micros
	limits []driver.Op
	ids    []string
	takes  []driver.Micros
	big    bool
	long   bool
	real   bool // by the server's clock
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (h *history) limit() driver.Op {
	r := h.rng
	kind := driver.Kind(1 + r.IntN(5))
	op := driver.Op{Kind: kind, Size: pick[int64](r, 0, 1, 2, 3, 5, 10, 20, 100, 1000)}
	op.Key.Space = fmt.Sprintf("%s|%c|%s|", h.prefix, "bwcms"[kind-1], pick(r, "", "one", "two"))
	op.Span = pick[driver.Micros](r, 1000, 1e6, 7e6, 10e6, 60e6, 90_500_000, 3600e6, 86400e6)
	if h.real {
		op.Span = pick[driver.Micros](r, 1000, 3000, 10e3, 50e3, 1e6)
	}
	if h.big && r.IntN(2) == 0 {
		op.Size = pick[int64](r, 1<<31, 1<<51-1, driver.MaxNumber, driver.MaxNumber-1)
		op.Span = pick[driver.Micros](r, 1e6, 87660*3600e6)
	}
	switch kind {
	case driver.Bucket:
		for {
			op.Rate = pick[int64](r, 1, 2, 3, 7, 10, 60, 1000, 65535, 1e9)
			op.Size = min(op.Size, 1<<51-1)
			gain, unit, tick, err := driver.Units(op.Size, op.Rate, op.Span)
			if err == nil {
				if r.IntN(2) == 0 { // a store needs one form or the other
					op.Gain, op.Unit, op.Tick = gain, unit, tick
				}
				return op
			}
			op.Size, op.Span = 10, 60e6
		}
	case driver.Slots:
		op.Size = min(op.Size, 4096)
		op.Span = max(op.Span, 1e6)
	case driver.Budget:
		op.Span = pick[driver.Micros](r, 60e6, 3600e6, 86400e6) // of the periods; no part of the op
		op.Key.Space += strconv.FormatInt(int64(op.Span), 10)
	}
	return op
}

// at is op with the bounds of now, or of another time.
func (h *history) at(op driver.Op) driver.Op {
	if op.Kind == driver.Budget {
		period := op.Span
		now := h.now
		if h.rng.IntN(8) == 0 {
			now += driver.Micros(h.rng.IntN(9)-4) * period
		}
		start := now - now%period
		op.Bounds = [4]driver.Micros{start - period, start, start + period, start + 2*period}
		op.Span = 0
	}
	return op
}

func (h *history) cost(size int64) int64 {
	switch h.rng.IntN(10) {
	case 0:
		return 0
	case 1:
		return size
	case 2:
		return size/2 + 1
	case 3:
		return min(size+1, driver.MaxNumber)
	}
	return 1 + h.rng.Int64N(3)
}

func (h *history) clock() {
	if h.real {
		h.now = driver.MicrosOf(time.Now())
		return
	}
	if h.rng.IntN(6) > 0 {
		step := pick[driver.Micros](h.rng, 0, 1, 1000, 100e3, 333_333, 1e6, 2e6, 5e6, 10e6, 60e6)
		if h.long {
			step = pick[driver.Micros](h.rng, 1e6, 600e6, 3600e6, 5*3600e6, 12*3600e6, 86400e6, 31*86400e6)
		}
		h.now += step
		return
	}
	h.now -= driver.Micros(h.rng.Int64N(pick[int64](h.rng, 2, 1000, 1e6, 10e6, 3600e6)))
}

func (h *history) op(slots bool) driver.Op {
	for {
		op := h.at(h.limits[h.rng.IntN(len(h.limits))])
		if op.Kind != driver.Slots || slots {
			op.Key.Group = "g"
			op.Key.ID = pick(h.rng, "a", "a", "b", "c d\x00{}%")
			op.Cost = h.cost(op.Size)
			return op
		}
	}
}

func (h *history) ops(slots bool, most int) (ops []driver.Op) {
	for range 1 + h.rng.IntN(most) {
		op := h.op(slots)
		if !slices.ContainsFunc(ops, func(o driver.Op) bool { return o.Key == op.Key }) {
			ops = append(ops, op)
		}
	}
	return ops
}

func (h *history) id() string {
	if len(h.ids) > 0 && h.rng.IntN(5) > 0 {
		return h.ids[len(h.ids)-1-h.rng.IntN(min(5, len(h.ids)))]
	}
	id := h.prefix + "|" + h.route + "." + fmt.Sprintf("id %d", len(h.ids))
	h.ids = append(h.ids, id)
	return id
}

func (h *history) txn() *driver.Txn {
	r := h.rng
	t := &driver.Txn{Now: h.now}
	if h.real {
		t.Now = 0
	}
	n, most := r.IntN(100), 3
	if h.real && r.IntN(2) == 0 {
		n, most = r.IntN(42), 1 // what has scripts of its own
	}
	switch {
	case n < 25:
		t.Verb, t.Ops = driver.Take, h.ops(false, most)
		if len(t.Ops) == 1 && r.IntN(3) == 0 {
			t.Ops[0].Times = 1 + r.Int64N(5)
			t.Ops[0].Cost = 1 + r.Int64N(2)
		}
		h.takes = append(h.takes, h.now)
	case n < 35:
		t.Verb, t.Ops = driver.Peek, h.ops(true, most)
	case n < 42:
		op := h.op(false)
		op.Kind, op.Span, op.Bounds = driver.Counter, pick[driver.Micros](r, 1e6, 10e6, 60e6), [4]driver.Micros{}
		op.Key.Space = h.prefix + "|c||"
		op.Cost = pick[int64](r, 0, 1, 1, 1, 5, -1, -3, driver.MaxNumber, -driver.MaxNumber)
		t.Verb, t.Ops = driver.Hit, []driver.Op{op}
	case n < 52:
		t.Verb, t.Ops = driver.Refund, h.ops(false, 2)
		for i := range t.Ops {
			t.Ops[i].At = h.now
			if len(h.takes) > 0 && r.IntN(5) > 0 {
				t.Ops[i].At = h.takes[len(h.takes)-1-r.IntN(min(6, len(h.takes)))]
			}
		}
	case n < 56:
		t.Verb, t.Ops = driver.Reset, h.ops(true, 2)
	case n < 58:
		op := h.op(true)
		op.Key.Space = h.prefix + "|"
		op = driver.Op{Key: op.Key}
		t.Verb, t.Ops = driver.Forget, []driver.Op{op}
	case n < 75:
		t.Hold, t.Return = r.IntN(4) > 0, r.IntN(2) == 0
		t.Verb, t.ID, t.Ops = driver.Take, h.id(), h.ops(t.Hold, 3)
		t.TTL = pick[driver.Micros](r, 1e6, 5e6, 10e6, 60e6, 86400e6)
		h.takes = append(h.takes, h.now)
	default:
		t.Verb, t.ID = driver.Settle+driver.Verb(r.IntN(4)), h.id()
		if r.IntN(4) == 0 {
			t.TTL = pick[driver.Micros](r, 1e6, 30e6)
		}
		for range r.IntN(4) {
			t.Amounts = append(t.Amounts, pick[int64](r, 0, 1, 1, 2, 2, 3, 7, 50))
		}
	}
	return t
}

// flat is a transaction that a batch of its like decides by a script of its own.
func (h *history) flat() *driver.Txn {
	for {
		t := h.txn()
		if t.Verb > driver.Hit || t.ID != "" || len(t.Ops) != 1 || t.Ops[0].Kind == driver.Window || t.Ops[0].Kind == driver.Slots {
			continue
		}
		t.Ops[0].Key.Group = pick(h.rng, "", "g", "g", "other") // of several places
		return t
	}
}

func clone(t *driver.Txn) *driver.Txn {
	c := *t
	c.Ops = slices.Clone(t.Ops)
	return &c
}

var sentinels = []error{driver.ErrClock, driver.ErrOverflow, driver.ErrEnded, driver.ErrIDReused, driver.ErrNoHold, driver.ErrAmounts, driver.ErrCorrupt}

func sentinel(err error) error {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s
		}
	}
	return err
}

func difference(got, want *driver.Txn) string {
	g, w := clone(got), clone(want)
	g.Err, w.Err = sentinel(g.Err), sentinel(w.Err)
	if w.Err != nil { // then results say nothing
		for _, t := range []*driver.Txn{g, w} {
			for i := range t.Ops {
				t.Ops[i].Result = driver.Result{}
			}
		}
	}
	if len(g.Ops) == 0 && len(w.Ops) == 0 {
		g.Ops, w.Ops = nil, nil
	}
	if reflect.DeepEqual(g, w) {
		return ""
	}
	return fmt.Sprintf("\n got %+v\nwant %+v", *g, *w)
}

// flats reports whether limits has one for history.flat.
func flats(limits []driver.Op) bool {
	return slices.ContainsFunc(limits, func(op driver.Op) bool { return op.Kind != driver.Window && op.Kind != driver.Slots })
}

// TestSameAsRun compares random histories, holds and slots among them, with driver.Run.
func TestSameAsRun(t *testing.T) {
	t.Parallel()
	c := newClient(t, server(t, "redis").Addr)
	compareWithRun(t, func() sweptStore { return open(t, c, nil) }, 2*time.Second)
}

func compareWithRun(t *testing.T, open func() sweptStore, least time.Duration) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RATION_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 0, 64)
	}
	long, err := strconv.Atoi(os.Getenv("RATION_LONG"))
	if err != nil {
		long = 1
	}
	steps, began := 0, time.Now()
	for n := uint64(0); time.Since(began) < least*time.Duration(long); n++ {
		rng := rand.New(rand.NewPCG(seed, n))
		h := &history{rng: rng, prefix: fmt.Sprintf("s%d", n), real: rng.IntN(3) == 0, now: 1_790_000_000e6 + driver.Micros(rng.Int64N(1e12)), big: rng.IntN(4) == 0, long: rng.IntN(3) == 0}
		s := open() // a sweep is of all its holds
		h.clock()
		h.route = s.Route(driver.Key{Group: "g", ID: "a"})
		for range 2 + rng.IntN(4) {
			h.limits = append(h.limits, h.limit())
		}
		if h.limits[len(h.limits)-1].Kind == driver.Slots { // the last stays, and is for all verbs
			continue
		}
		m := newModel()
		length := 60
		if rng.IntN(10) == 0 {
			length = 600 // enough for a window to join its uses
		}
		var log []string
		for i := 0; i < length; i++ {
			if h.real || rng.IntN(3) == 0 {
				h.clock()
			}
			if rng.IntN(30) == 0 {
				h.limits[rng.IntN(len(h.limits)-1)] = h.limit()
			}
			if rng.IntN(30) == 0 && !h.real {
				log = append(log, fmt.Sprintf("sweep at %d", h.now))
				want := m.sweep(t, h.now)
				if got, err := s.Sweep(context.Background(), h.now, 1000); err != nil || got != want {
					t.Fatalf("seed %d, history %d, step %d: a sweep ended %d, %v, want %d\n%s", seed, n, i, got, err, want, tail(log))
				}
			}
			var batch, wants []*driver.Txn
			next, size := h.txn, pick(rng, 1, 1, 1, 5)
			if h.real && rng.IntN(4) == 0 && flats(h.limits) {
				next, size = h.flat, 2+rng.IntN(30)
			}
			for range size {
				txn := next()
				if rng.IntN(2) == 0 && txn.Verb > driver.Forget && !h.real { // with the ops, as the Limiter sends them
					if blob := m.holds[txn.ID]; blob != nil {
						held, _, err := driver.DecodeHold(txn.ID, blob, 0)
						if err != nil {
							t.Fatal(err)
						}
						txn.Ops = held.Ops
						for i := range txn.Ops {
							if op := &txn.Ops[i]; op.Kind == driver.Budget {
								span, _ := strconv.ParseInt(op.Key.Space[strings.LastIndexByte(op.Key.Space, '|')+1:], 10, 64)
								start := h.now - h.now%driver.Micros(span)
								for j := range op.Bounds {
									op.Bounds[j] = start + driver.Micros(j-1)*driver.Micros(span)
								}
							}
						}
					}
				}
				batch, wants = append(batch, txn), append(wants, clone(txn))
				log = append(log, fmt.Sprintf("%+v", *txn))
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			err := s.Apply(ctx, batch)
			cancel()
			if err != nil {
				t.Fatalf("seed %d, history %d: %v\n%s", seed, n, err, tail(log))
			}
			for j := range batch {
				if h.real {
					wants[j].Now = batch[j].At
				}
			}
			if err := driver.Run(m, 1, wants); err != nil {
				t.Fatal(err)
			}
			for j := range batch {
				steps++
				wants[j].Now = batch[j].Now
				if d := difference(batch[j], wants[j]); d != "" {
					t.Fatalf("seed %d, history %d, step %d.%d:%s\n%s", seed, n, i, j, d, tail(log))
				}
			}
		}
	}
	t.Logf("%d transactions compared, seed %d", steps, seed)
}

// tail is the end of a history, or all of it if RATION_TRACE is set.
func tail(log []string) string {
	if os.Getenv("RATION_TRACE") == "" {
		log = log[max(0, len(log)-12):]
	}
	return strings.Join(log, "\n")
}

type sweptStore interface {
	driver.Store
	driver.Sweeper
	driver.Router
	driver.HoldLister
}
