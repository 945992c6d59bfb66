package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-chi/httprate"
	"github.com/throttled/throttled/v2"
	throttledmemory "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
)

var errMemoryRefused = errors.New("it was refused, which no limit here does")

// floor is no limiter: what one needs at least, in a map that nobody changes any more.
func floor(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		m := make(map[string]*atomic.Int64, keys.n)
		_ = keys.fill(func(name string) error {
			m[name] = new(atomic.Int64)
			return nil
		})
		begin := time.Now()
		return func(w int, i uint64) error {
			n := m[keys.pick(w, i)]
			now := int64(time.Since(begin))
			for {
				if old := n.Load(); n.CompareAndSwap(old, max(old, now)+1) {
					return nil
				}
			}
		}, nil, nil
	}
}

func ululeMemory(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		ctx := context.Background()
		l := ulule.New(ululememory.NewStoreWithOptions(ulule.StoreOptions{Prefix: "l", CleanUpInterval: time.Hour}), ulule.Rate{Period: time.Hour, Limit: 1 << 40})
		take := func(name string) error {
			_, err := l.Get(ctx, name)
			return err
		}
		return func(w int, i uint64) error { return take(keys.pick(w, i)) }, nil, keys.fill(take)
	}
}

// throttledMemory gives up on a key that two want at a time. Then it is asked again, as a caller would.
func throttledMemory(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		ctx := context.Background()
		s, err := throttledmemory.NewCtx(0)
		if err != nil {
			return nil, nil, err
		}
		l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerMin(perMinute), MaxBurst: burst})
		if err != nil {
			return nil, nil, err
		}
		take := func(name string) error {
			for try := 0; ; try++ {
				if _, _, err := l.RateLimitCtx(ctx, name, 1); err == nil || try == 100 {
					return err
				}
			}
		}
		return func(w int, i uint64) error { return take(keys.pick(w, i)) }, nil, keys.fill(take)
	}
}

// httprateMemory leaves out the headers, which the others do not make either.
func httprateMemory(keys *users) opener {
	return func() (func(int, uint64) error, func(), error) {
		l := httprate.NewRateLimiter(1<<40, time.Hour, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		if err != nil {
			return nil, nil, err
		}
		take := func(name string) error {
			if l.OnLimit(nil, r, name) {
				return errMemoryRefused
			}
			return nil
		}
		return func(w int, i uint64) error { return take(keys.pick(w, i)) }, nil, keys.fill(take)
	}
}
