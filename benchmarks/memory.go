package main

import (
	"context"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

// memory compares decisions in one process: a bucket per key that never refuses.
func memory() []group {
	var all []group
	for _, g := range []struct {
		name            string
		workers         int
		keys            *users
		rate, sethvargo goal
	}{
		{"memory, one hot key, 1 goroutine", 1, &users{n: 1}, goal{least: 1.2, hoped: 2}, goal{}},
		{"memory, one hot key, 2 goroutines", 2, &users{n: 1}, goal{least: 1.5, hoped: 2}, goal{}},
		{"memory, 1 M keys, 2 goroutines", 2, &users{n: million}, goal{least: 2.5, hoped: 3.5}, goal{least: 1.2, hoped: 1.6}},
	} {
		all = append(all, group{name: g.name, workers: g.workers, chart: true, candidates: []candidate{
			{name: "the floor: clock, map without lock, one CAS", role: bound, open: floor(g.keys)},
			{name: "x/time/rate in a mutex map", open: mutexMap(g.keys)},
			{name: "x/time/rate in sync.Map", goal: g.rate, open: syncMap(g.keys)},
			{name: "sethvargo/go-limiter memorystore", goal: g.sethvargo, open: sethvargo(g.keys)},
			{name: "ulule/limiter memory", open: ululeMemory(g.keys)},
			{name: "throttled memstore", open: throttledMemory(g.keys)},
			{name: "httprate", open: httprateMemory(g.keys)},
			{name: "ration memstore, Limiter.Take", role: ours, open: oursInMemory(g.keys)},
		}})
	}
	return all
}

// million is the power of two.
const million = 1 << 20

type opener = func() (func(int, uint64) error, func(), error)

// users are n names of 6 to 12 bytes; n is a power of two.
type users struct {
	n    uint64
	bufs [2]struct {
		name [24]byte
		_    [104]byte // a worker's alone, in the cache
	}
}

// pick answers the name of a user until the worker's next pick. It is written where the worker wrote the last one, as a service
// has a key from a request: picked from a list of a million names it would cost everybody two more waits for memory.
func (u *users) pick(worker int, i uint64) string {
	if u.n == 1 {
		return "user-0"
	}
	b := strconv.AppendUint(append(u.bufs[worker].name[:0], "user-"...), scatter(i)&(u.n-1), 10)
	return unsafe.String(&b[0], len(b))
}

// fill makes a state for each user, with take keeping the name.
func (u *users) fill(take func(name string) error) error {
	for i := range u.n {
		if err := take("user-" + strconv.FormatUint(i, 10)); err != nil {
			return err
		}
	}
	return nil
}

// A limit that never refuses in the time of a run, and refills nothing in it: a bucket that is full again is no state to
// be found, and would be made anew each time.
const (
	burst     = 1 << 26
	perMinute = 2
)

func mutexMap(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		var mu sync.Mutex
		m := make(map[string]*rate.Limiter)
		take := func(name string) error {
			mu.Lock()
			l := m[name]
			if l == nil {
				l = rate.NewLimiter(rate.Every(time.Minute/perMinute), burst)
				m[name] = l
			}
			mu.Unlock()
			l.Allow()
			return nil
		}
		return func(w int, i uint64) error { return take(keys.pick(w, i)) }, nil, keys.fill(take)
	}
}

func syncMap(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		var m sync.Map
		take := func(name string) error {
			l, ok := m.Load(name)
			if !ok {
				l, _ = m.LoadOrStore(name, rate.NewLimiter(rate.Every(time.Minute/perMinute), burst))
			}
			l.(*rate.Limiter).Allow()
			return nil
		}
		return func(w int, i uint64) error { return take(keys.pick(w, i)) }, nil, keys.fill(take)
	}
}

func sethvargo(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		ctx := context.Background()
		s, err := memorystore.New(&memorystore.Config{Tokens: burst, Interval: time.Hour, SweepInterval: time.Hour, SweepMinTTL: time.Hour})
		if err != nil {
			return nil, nil, err
		}
		take := func(name string) error {
			_, _, _, _, err := s.Take(ctx, name)
			return err
		}
		return func(w int, i uint64) error { return take(keys.pick(w, i)) }, func() { s.Close(ctx) }, keys.fill(take)
	}
}

func oursInMemory(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		ctx := context.Background()
		l := ration.New(memstore.New(&memstore.Options{MaxKeys: 2 << 20, MaxBytes: 1 << 30}), nil)
		limit := ration.TokenBucket{Burst: burst, Refill: ration.PerMinute(perMinute)}
		take := func(name string) error {
			_, err := l.Take(ctx, ration.KeyOf(name), limit, 1)
			return err
		}
		return func(w int, i uint64) error { return take(keys.pick(w, i)) }, func() { l.Close() }, keys.fill(take)
	}
}
