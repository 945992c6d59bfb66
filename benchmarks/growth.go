//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/sqlitestore"
)

const growthCallers = 64

// growth measures what a decision costs in stores that hold from a thousand keys on, up to most.
func growth(most int) []group {
	var all []group
	add := func(name string, grown func(i, keys int) opener) {
		g := group{name: "growth, " + name + ", any of so many keys, 64 callers", workers: growthCallers, base: "its cost by that of the last (spread)"}
		for i, keys := 0, 1000; keys <= most; i, keys = i+1, keys*10 {
			c := candidate{name: number(float64(keys)) + " keys", role: variant, open: grown(i, keys)}
			g.candidates = append(g.candidates, c)
		}
		if last := len(g.candidates) - 1; last > 0 {
			g.candidates[0].goal = goal{slower: 1.5}
			g.candidates[last].role = ours
			all = append(all, g)
		}
	}
	add("sqlite", func(_, keys int) opener {
		return grownTo(keys, func() (driver.Store, func(), error) {
			db, closer, err := openSQLite()
			if err != nil {
				return nil, nil, err
			}
			s, err := sqlitestore.New(context.Background(), db, nil)
			return s, closer, err
		})
	})
	pg := &database{}
	add("postgres", func(_, keys int) opener {
		return grownTo(keys, func() (driver.Store, func(), error) {
			pool, done, err := pg.connect(8)
			if err != nil {
				return nil, nil, err
			}
			s, err := pgstore.New(context.Background(), pool, &pgstore.Options{Schema: "grown" + strconv.Itoa(keys)})
			return s, done, err
		})
	})
	rd := &redisRun{}
	add("redis", func(i, keys int) opener {
		return grownTo(keys, func() (driver.Store, func(), error) {
			addr, done, err := rd.start()
			if err != nil {
				return nil, nil, err
			}
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, SelectDB: i})
			if err != nil {
				return nil, done, err
			}
			s, err := redisstore.New(c, nil)
			return s, func() { c.Close(); done() }, err
		})
	})
	return all
}

// grownTo fills a store of its own with so many keys.
func grownTo(keys int, open func() (driver.Store, func(), error)) opener {
	name := func(i uint64) ration.Key { return ration.KeyOf("user-" + strconv.FormatUint(i, 10)) }
	return opened(open, func(s driver.Store) (func(int, uint64) error, func(), error) {
		l := ration.New(s, &ration.Options{Timeout: time.Minute})
		take := func(k ration.Key) error {
			d, err := l.Take(context.Background(), k, aBucket, 1)
			if err == nil && !d.Allowed {
				err = errDirectRefused
			}
			return err
		}
		// Each caller waits for its own key, so many callers fill soonest.
		const callers = 1024
		var wg sync.WaitGroup
		errs := make([]error, callers)
		for c := range callers {
			wg.Go(func() {
				for i := c; i < keys && errs[c] == nil; i += callers {
					errs[c] = take(name(uint64(i)))
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return nil, func() { l.Close() }, fmt.Errorf("filling it: %w", err)
			}
		}
		return func(_ int, i uint64) error { return take(name(scatter(i) % uint64(keys))) }, func() { l.Close() }, nil
	})
}
