//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/sqlitestore"
)

const (
	fairCallers = 256
	mostWait    = 10 // times the median
)

// fairness watches 256 callers of one Limiter, half of them on one key and the others on any of 100 k: what each call waited.
func fairness(lasts time.Duration) []group {
	return []group{{name: "fairness, 256 callers", special: func(int, time.Duration) (section, error) {
		s := section{
			head: []string{"store", "callers", "calls", "median", "p99.9", "longest", "longest / median", "slowest caller's mean / the median caller's"},
			note: fmt.Sprintf("Each store for %v. Callers who want one key are answered together, so they are watched apart.", lasts),
		}
		for _, of := range []struct {
			name string
			open func() (driver.Store, func(), error)
		}{
			{"sqlite", func() (driver.Store, func(), error) {
				db, closer, err := openSQLite()
				if err != nil {
					return nil, nil, err
				}
				s, err := sqlitestore.New(context.Background(), db, nil)
				return s, closer, err
			}},
			{"postgres", func() (driver.Store, func(), error) {
				db := &database{}
				pool, done, err := db.connect(8)
				if err != nil {
					return nil, nil, err
				}
				s, err := pgstore.New(context.Background(), pool, nil)
				return s, done, err
			}},
			{"redis", func() (driver.Store, func(), error) {
				r := &redisRun{}
				addr, done, err := r.start()
				if err != nil {
					return nil, nil, err
				}
				c, err := newRueidis(addr)
				if err != nil {
					return nil, done, err
				}
				s, err := redisstore.New(c, nil)
				return s, func() { c.Close(); done() }, err
			}},
		} {
			if err := watch(&s, of.name, of.open, lasts); err != nil {
				return s, fmt.Errorf("%s: %w", of.name, err)
			}
		}
		return s, nil
	}}}
}

func watch(s *section, name string, open func() (driver.Store, func(), error), lasts time.Duration) error {
	store, done, err := open()
	if done != nil {
		defer done()
	}
	if err != nil {
		return err
	}
	l := ration.New(store, &ration.Options{Timeout: time.Minute})
	defer l.Close()
	clocks, waited, calls, errs := newClocks(true, fairCallers), make([]time.Duration, fairCallers), make([]int64, fairCallers), make([]error, fairCallers)
	warm := time.Now().Add(time.Second)
	end := warm.Add(lasts)
	var wg sync.WaitGroup
	for c := range fairCallers {
		wg.Go(func() {
			for i := uint64(c) << 40; ; i++ {
				key := ration.KeyOf("hot")
				if c%2 == 1 {
					key = ration.KeyOf("user-" + strconv.FormatUint(scatter(i)%100_000, 10))
				}
				began := time.Now()
				if began.After(end) {
					return
				}
				_, err := l.Take(context.Background(), key, aBucket, 1)
				if err != nil {
					errs[c] = err
					return
				}
				if began.After(warm) { // and the connections are there
					took := time.Since(began)
					clocks[c].add(took)
					waited[c], calls[c] = waited[c]+took, calls[c]+1
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for half, who := range []string{"128 on one key", "128 on 100 k keys"} {
		sum := newClocks(true, 1)[0]
		var means []float64
		total := int64(0)
		for c := half; c < fairCallers; c += 2 {
			sum.merge(clocks[c])
			total += calls[c]
			means = append(means, float64(waited[c])/float64(max(calls[c], 1)))
		}
		p50, longest := sum.percentile(0.5), float64(sum.longest)
		slowest := slices.Max(means) / median(means)
		s.rows = append(s.rows, []string{name, who, number(float64(total)), duration(p50), duration(sum.percentile(0.999)), duration(longest),
			fmt.Sprintf("%.1f", longest/p50), fmt.Sprintf("%.2f", slowest)})
		s.checks = append(s.checks, check{
			"fairness, " + name + ", " + who + ", the longest of all waits", "the median wait", fmt.Sprintf("≤ %d×", mostWait), fmt.Sprintf("%.1f×", longest/p50), longest <= mostWait*p50})
	}
	return nil
}
