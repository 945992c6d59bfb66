package ration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// distant is a store as if behind a network that can be cut.
type distant struct {
	*memstore.Store
	down  atomic.Pointer[error] // what calls fail with; errHang: they do not answer; errLost: they charge, and the answer is lost
	calls atomic.Int64
	caps  driver.Caps
}

var (
	errHang = errors.New("hang")
	errLost = errors.New("connection reset")
	errDead = fmt.Errorf("%w: connection refused", driver.ErrNotApplied)
)

func newDistant() *distant {
	return &distant{Store: memstore.New(&memstore.Options{SweepEvery: -1})}
}

func (d *distant) cut(err error) { d.down.Store(&err) }
func (d *distant) mend()         { d.down.Store(nil) }

func (d *distant) Info() driver.Info {
	i := d.Store.Info()
	i.Kind, i.Scope, i.Instant = "distant", driver.Network, false
	i.MaxBatch = 16
	i.Caps &^= d.caps
	return i
}

func (d *distant) Apply(ctx context.Context, batch []*driver.Txn) error {
	d.calls.Add(1)
	down := d.down.Load()
	switch {
	case down == nil:
	case *down == errHang:
		<-ctx.Done()
		return ctx.Err()
	case *down == errLost:
		d.Store.Apply(ctx, batch)
		return errLost
	default:
		return *down
	}
	return d.Store.Apply(ctx, batch)
}

// changes notes the changes of a store's state.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) observer() *ration.Observer {
	return &ration.Observer{StoreChanged: func(up bool, cause error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, fmt.Sprint(up, " ", cause))
	}}
}

func (c *changes) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.list, "; ")
}

func outageLimiter(t *testing.T, s driver.Store, o ration.Options) *ration.Limiter {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := ration.New(s, &o)
	t.Cleanup(func() { l.Close() })
	return l
}

var hundred = ration.FixedWindow{Limit: 100, Window: time.Hour}

func TestCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, log, seen := newDistant(), new(bytes.Buffer), new(changes)
		l := outageLimiter(t, s, ration.Options{Observer: seen.observer(), Logger: slog.New(slog.NewTextHandler(log, nil))})
		key := ration.KeyOf("k")
		s.cut(errDead)
		for range 4 {
			if _, err := l.Take(ctx, key, hundred, 1); !errors.Is(err, errDead) || errors.Is(err, ration.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if l.Take(ctx, key, hundred, 1); s.calls.Load() != 5 || seen.String() == "" {
			t.Fatalf("%d calls, changes %q", s.calls.Load(), seen)
		}
		begin := time.Now()
		for range 1000 {
			if _, err := l.Take(ctx, key, hundred, 1); !errors.Is(err, ration.ErrUnavailable) || errors.Is(err, ration.ErrOutcomeUnknown) {
				t.Fatal(err)
			}
		}
		if s.calls.Load() != 5 || time.Since(begin) != 0 {
			t.Errorf("a store that is down was called %d times, in %v", s.calls.Load()-5, time.Since(begin))
		}
		time.Sleep(3500 * time.Millisecond) // three probes
		synctest.Wait()
		if n := s.calls.Load(); n != 8 {
			t.Errorf("%d probes in 3.5 s", n-5)
		}
		s.mend()
		time.Sleep(time.Second)
		synctest.Wait()
		if d, err := l.Take(ctx, key, hundred, 1); err != nil || d.Degraded || d.Used != 1 {
			t.Errorf("after the store came back: %+v, %v", d, err)
		}
		if got := seen.String(); got != fmt.Sprintf("false %v; true <nil>", errDead) {
			t.Errorf("changes: %s", got)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines of log:\n%s", n, log)
		}
	})
}

// A store that hangs costs its first callers their time, and nobody else anything. Those in a hurry prove nothing.
func TestCircuitHang(t *testing.T) {
	t.Parallel()
	for _, noJoin := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, seen := newDistant(), new(changes)
			l := outageLimiter(t, s, ration.Options{Observer: seen.observer(), Timeout: time.Second, OnError: ration.AllowOnError, NoJoin: noJoin})
			s.cut(errHang)
			for range 20 {
				hurry, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				if d, err := l.Take(hurry, ration.KeyOf("k"), hundred, 1); err != nil || !d.Degraded || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				cancel()
			}
			if got := seen.String(); got != "" {
				t.Errorf("callers in a hurry opened the circuit: %s", got)
			}
			begin := time.Now()
			for range 5 {
				l.Take(ctx, ration.KeyOf("k"), hundred, 1)
			}
			if took := time.Since(begin); took != 5*time.Second {
				t.Errorf("five calls took %v", took)
			}
			begin = time.Now()
			for range 100 {
				if d, err := l.Take(ctx, ration.KeyOf("k"), hundred, 1); err != nil || !d.Degraded || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			if took := time.Since(begin); took != 0 {
				t.Errorf("a hundred calls of a store that is down took %v", took)
			}
			s.mend()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if d, err := l.Take(ctx, ration.KeyOf("k"), hundred, 1); err != nil || d.Degraded {
				t.Errorf("after the store came back: %+v, %v", d, err)
			}
		})
	}
}

// Three processes on one store: each admits its part, and no more, and the store learns of all of it.
func TestLocal(t *testing.T) {
	t.Parallel()
	for _, limit := range []ration.Limit{
		hundred,
		ration.TokenBucket{Burst: 100, Refill: ration.Per(1, time.Hour)},
		ration.SlidingWindow{Limit: 100, Window: time.Hour},
		ration.Rule{Name: "money", Limit: ration.Budget{Limit: 100, Period: ration.Month}},
	} {
		for _, lacks := range []driver.Caps{0, driver.CapHolds | driver.CapIDs | driver.CapSlots} {
			for _, how := range []error{errDead, errLost} {
				synctest.Test(t, func(t *testing.T) { localOutage(t, limit, lacks, how) })
			}
		}
	}
}

func localOutage(t *testing.T, limit ration.Limit, lacks driver.Caps, how error) {
	s := newDistant()
	s.caps = lacks
	key, before, unknown := ration.KeyOf("k"), 60, 0
	if _, bucket := limit.(ration.TokenBucket); bucket {
		before = 20 // a bucket in debt is told of more only when it is out of it
	}
	var all []*ration.Limiter
	for range 3 {
		all = append(all, outageLimiter(t, s, ration.Options{OnError: ration.LocalOnError, Outage: &ration.Outage{Parts: 5}}))
	}
	for range before {
		if d, err := all[0].Take(ctx, key, limit, 1); err != nil || !d.Allowed || d.Degraded {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	s.cut(how)
	for i, l := range all {
		admitted := 0
		for range 50 {
			calls := s.calls.Load()
			d, err := l.Take(ctx, key, limit, 1)
			if err != nil || !d.Degraded || d.Limit != 20 {
				t.Fatalf("%+v, %v", d, err)
			}
			if how == errLost && s.calls.Load() > calls {
				unknown++
			}
			if d.Allowed {
				admitted++
			} else if d.RetryAfter <= 0 {
				t.Errorf("refused without a time: %+v", d)
			}
		}
		if admitted != 20 {
			t.Errorf("process %d admitted %d of its part of 20", i, admitted)
		}
	}
	s.mend()
	time.Sleep(3 * time.Second)
	synctest.Wait()
	d, err := all[0].Peek(ctx, key, limit, 1)
	want := int64(before + 3*20 + unknown)
	if err != nil || d.Degraded || d.Used != want {
		t.Errorf("%v, without %v, %v: after the outage %+v, %v; want %d used", limit, lacks, how, d, err, want)
	}
}

func TestLocalRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		l := outageLimiter(t, s, ration.Options{OnError: ration.LocalOnError, Outage: &ration.Outage{MaxKeys: 3}})
		s.cut(errDead)
		if d, err := l.Take(ctx, ration.KeyOf("k"), ration.FixedWindow{Limit: 9, Window: time.Hour}, 1); err == nil {
			t.Errorf("a tenth of nine: %+v", d)
		}
		strict := ration.Rule{Name: "strict", Limit: hundred, OnError: ration.DenyOnError}
		if o, err := l.TakeAll(ctx, ration.KeyOf("k").Charge(hundred, 1), ration.KeyOf("k").Charge(strict, 1)); err == nil {
			t.Errorf("a list with a strict limit: %+v", o)
		}
		for i := range 5 {
			_, err := l.Take(ctx, ration.KeyOf(fmt.Sprint(i)), hundred, 1)
			if (err == nil) != (i < 3) {
				t.Errorf("key %d of at most three: %v", i, err)
			}
		}
		if r, err := l.Reserve(ctx, nil, ration.KeyOf("0").Charge(ration.Concurrency{Limit: 100, Lease: time.Minute}, 1)); err == nil {
			t.Errorf("a slot without a store: %+v", r.Decision)
		}
		o, err := l.TakeAll(ctx, ration.KeyOf("0").Charge(hundred, 1), ration.KeyOf("z").Charge(ration.Rule{Name: "free", Limit: hundred, OnError: ration.AllowOnError}, 1))
		if err != nil || !o.Allowed || !o.Degraded || len(o.Each) != 2 || o.Each[0].Limit != 10 || o.Each[0].Used != 2 || o.Each[1].Limit != 100 {
			t.Errorf("a list of a local and a free limit: %+v, %v", o, err)
		}
	})
}

func TestLocalReservation(t *testing.T) {
	t.Parallel()
	for _, how := range []error{errDead, errLost} {
		synctest.Test(t, func(t *testing.T) {
			s := newDistant()
			l := outageLimiter(t, s, ration.Options{OnError: ration.LocalOnError})
			key, rule := ration.KeyOf("k"), ration.Rule{Name: "tokens", Limit: ration.Budget{Limit: 1000, Period: ration.Month}}
			s.cut(how)
			reserve := func(n int64) *ration.Reservation {
				r, err := l.Reserve(ctx, nil, key.Charge(rule, n))
				if err != nil || !r.Allowed || !r.Degraded {
					t.Fatalf("%+v, %v", r, err)
				}
				return r
			}
			less, more, none, late := reserve(10), reserve(10), reserve(10), reserve(10)
			for range 2 {
				if err := errors.Join(less.Settle(ctx, 4), more.Settle(ctx, 25), none.Cancel(ctx)); err != nil && how == errDead {
					t.Error(err)
				}
			}
			s.mend()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if err := late.Settle(ctx, 17); err != nil {
				t.Error(err)
			}
			for _, r := range []*ration.Reservation{less, more, none} {
				if err := r.Cancel(ctx); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if d, err := l.Peek(ctx, key, rule, 0); err != nil || d.Used != 4+25+17 {
				t.Errorf("%v: %+v, %v; want 46 used", how, d, err)
			}
		})
	}
}

// What was admitted just before Close is charged by it.
func TestLocalClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		l := ration.New(plainClose{s}, &ration.Options{OnError: ration.LocalOnError, Logger: slog.New(slog.DiscardHandler)})
		s.cut(errDead)
		l.Take(ctx, ration.KeyOf("k"), hundred, 7)
		s.mend()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		other := outageLimiter(t, s, ration.Options{})
		if d, err := other.Peek(ctx, ration.KeyOf("k"), hundred, 0); err != nil || d.Used != 7 {
			t.Errorf("%+v, %v", d, err)
		}
		down := ration.New(plainClose{s}, &ration.Options{OnError: ration.LocalOnError, Logger: slog.New(slog.DiscardHandler)})
		s.cut(errHang)
		hurry, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for range 6 {
			down.Take(hurry, ration.KeyOf("k"), hundred, 1)
		}
		down.Close() // while the circuit is open
	})
}

// plainClose leaves the store open for others.
type plainClose struct{ *distant }

func (plainClose) Close() error { return nil }
