package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

// memory compares decisions in one process: a bucket per key that never refuses.
func memory() []group {
	million := make([]string, 1<<20)
	for i := range million {
		million[i] = "user-" + strconv.Itoa(i) // 6 to 12 bytes
	}
	var all []group
	for _, g := range []struct {
		name    string
		workers int
		keys    []string
	}{
		{"memory, one hot key, 1 goroutine", 1, million[:1]},
		{"memory, one hot key, 2 goroutines", 2, million[:1]},
		{"memory, 1 M keys, 2 goroutines", 2, million},
	} {
		all = append(all, group{g.name, g.workers, []candidate{
			{"golang.org/x/time/rate in a mutex map", mutexMap(g.keys)},
			{"golang.org/x/time/rate in sync.Map", syncMap(g.keys)},
			{"sethvargo/go-limiter memorystore", sethvargo(g.keys)},
			{"ration memstore, through Limiter.Take", ours(g.keys)},
		}})
	}
	return all
}

type opener = func() (func(int, uint64) error, func(), error)

func pick(keys []string, i uint64) string { return keys[scatter(i)&uint64(len(keys)-1)] }

// A limit that never refuses in the time of a run, and refills nothing in it: a bucket that is full again is no state to
// be found, and would be made anew each time.
const (
	burst     = 1 << 26
	perMinute = 2
)

func mutexMap(keys []string) opener {
	return func() (func(int, uint64) error, func(), error) {
		var mu sync.Mutex
		m := make(map[string]*rate.Limiter)
		work := func(_ int, i uint64) error {
			k := pick(keys, i)
			mu.Lock()
			l := m[k]
			if l == nil {
				l = rate.NewLimiter(rate.Every(time.Minute/perMinute), burst)
				m[k] = l
			}
			mu.Unlock()
			l.Allow()
			return nil
		}
		return work, nil, fill(keys, work)
	}
}

func syncMap(keys []string) opener {
	return func() (func(int, uint64) error, func(), error) {
		var m sync.Map
		work := func(_ int, i uint64) error {
			k := pick(keys, i)
			l, ok := m.Load(k)
			if !ok {
				l, _ = m.LoadOrStore(k, rate.NewLimiter(rate.Every(time.Minute/perMinute), burst))
			}
			l.(*rate.Limiter).Allow()
			return nil
		}
		return work, nil, fill(keys, work)
	}
}

func sethvargo(keys []string) opener {
	return func() (func(int, uint64) error, func(), error) {
		ctx := context.Background()
		s, err := memorystore.New(&memorystore.Config{Tokens: burst, Interval: time.Hour, SweepInterval: time.Hour, SweepMinTTL: time.Hour})
		if err != nil {
			return nil, nil, err
		}
		work := func(_ int, i uint64) error {
			_, _, _, _, err := s.Take(ctx, pick(keys, i))
			return err
		}
		return work, func() { s.Close(ctx) }, fill(keys, work)
	}
}

func ours(keys []string) opener {
	return func() (func(int, uint64) error, func(), error) {
		ctx := context.Background()
		l := ration.New(memstore.New(&memstore.Options{MaxKeys: 2 << 20, MaxBytes: 1 << 30}), nil)
		limit := ration.TokenBucket{Burst: burst, Refill: ration.PerMinute(perMinute)}
		work := func(_ int, i uint64) error {
			_, err := l.Take(ctx, ration.KeyOf(pick(keys, i)), limit, 1)
			return err
		}
		return work, func() { l.Close() }, fill(keys, work)
	}
}

// fill makes a state for nearly every key.
func fill(keys []string, work func(int, uint64) error) error {
	for i := range uint64(3 * len(keys)) {
		if err := work(0, i); err != nil {
			return err
		}
	}
	return nil
}
