package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// place is a namespace of its own for one check.
type place struct{ prefix, group string }

func (s *suite) place() place {
	p := place{prefix: runName()}
	if s.info.OneGroup {
		p.group = "one"
	}
	return p
}

// op is one key and limit, at the caller's time: 0 for that of the machine.
func (p place) op(limitText, key string, cost int64, caller driver.Micros) driver.Op {
	l, err := parseLimit("", limitText)
	if err != nil {
		panic(fmt.Sprintf("storetest: %s: %v", limitText, err))
	}
	if caller == 0 {
		caller = driver.MicrosOf(time.Now())
	}
	op := l.at(driver.Key{Group: p.group, ID: key}, cost, caller)
	op.Key.Space = p.prefix + op.Key.Space
	return op
}

// txn is a decision by the store's own clock.
func (p place) txn(verb driver.Verb, limitText, key string, cost int64) *driver.Txn {
	return &driver.Txn{Verb: verb, Ops: []driver.Op{p.op(limitText, key, cost, 0)}}
}

// txnAt is a decision by the suite's clock.
func (p place) txnAt(now driver.Micros, verb driver.Verb, limitText, key string, cost int64) *driver.Txn {
	return &driver.Txn{Verb: verb, Now: now, Ops: []driver.Op{p.op(limitText, key, cost, now)}}
}

// hit is a use of a counter that ends in an hour.
func (p place) hit(key string, n int64) *driver.Txn {
	return p.txn(driver.Hit, hourCounter, key, n)
}

// hourCounter is what Hit counts in; the size means nothing to it.
const hourCounter = "fixed 0/1h"

// failure is why a call or one of its transactions could not be decided.
func failure(store driver.Store, batch ...*driver.Txn) error {
	if err := apply(store, batch...); err != nil {
		return err
	}
	var all []error
	for _, t := range batch {
		all = append(all, t.Err)
	}
	return errors.Join(all...)
}

// used reads what counts under key.
func (p place) used(t scope, store driver.Store, limitText, key string) int64 {
	t.Helper()
	txn := p.txn(driver.Peek, limitText, key, 0)
	if limitText == hourCounter {
		txn.Verb = driver.Hit
	}
	if err := failure(store, txn); err != nil {
		t.Errorf("reading what counts for %q under %s failed: %v", key, limitText, err)
	}
	return txn.Ops[0].Result.Used
}

// together runs f(0) to f(n-1) at once and waits for all.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// slowLimits are limits of each kind of n uses that do not come back while a test runs.
func (s *suite) slowLimits(n int64) (all []string) {
	for _, l := range []struct {
		cap  driver.Caps
		text string
	}{
		{driver.CapBucket, fmt.Sprintf("bucket 1/1000h burst %d", n)},
		{driver.CapWindow, fmt.Sprintf("sliding %d/24h", n)},
		{driver.CapCounter, fmt.Sprintf("fixed %d/24h", n)},
		{driver.CapBudget, fmt.Sprintf("budget %d/year", n)},
	} {
		if s.info.Caps.Has(l.cap) {
			all = append(all, l.text)
		}
	}
	return all
}
