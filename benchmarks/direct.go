//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/sqlitestore"
)

// direct compares a lone caller's way through the Limiter with a transaction that is ready and goes to the store itself.
func direct() []group {
	near := goal{slower: 1.05}
	var all []group
	for _, of := range []struct {
		name string
		goal goal
		open func() (driver.Store, func(), error)
	}{
		{"memory", goal{over: 100 * time.Nanosecond}, func() (driver.Store, func(), error) { return memstore.New(nil), func() {}, nil }},
		{"sqlite", near, func() (driver.Store, func(), error) {
			db, closer, err := openSQLite()
			if err != nil {
				return nil, nil, err
			}
			s, err := sqlitestore.New(context.Background(), db, nil)
			return s, closer, err
		}},
		{"postgres", near, func() (driver.Store, func(), error) {
			db := &database{}
			pool, done, err := db.connect(4)
			if err != nil {
				return nil, nil, err
			}
			s, err := pgstore.New(context.Background(), pool, nil)
			return s, done, err
		}},
		{"redis", near, func() (driver.Store, func(), error) {
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
		all = append(all, group{name: "direct, " + of.name + ", one hot key, 1 caller", workers: 1, timed: of.name != "memory", candidates: []candidate{
			{name: "the store's Apply", role: bound, goal: of.goal, open: opened(of.open, applies)},
			{name: "Limiter.Take", role: ours, open: opened(of.open, limiterTakes)},
		}})
	}
	return all
}

// opened has work on a store of its own.
func opened(open func() (driver.Store, func(), error), work func(s driver.Store) (func(int, uint64) error, func(), error)) opener {
	return func() (func(int, uint64) error, func(), error) {
		s, done, err := open()
		if err != nil {
			return nil, done, err
		}
		w, closer, err := work(s)
		return w, func() { closer(); done() }, err
	}
}

var errDirectRefused = errors.New("it was refused, which no limit here does")

// applies sends one transaction again and again.
func applies(s driver.Store) (func(int, uint64) error, func(), error) {
	const span = driver.Micros(time.Minute / time.Microsecond)
	gain, unit, tick, err := driver.Units(burst, perMinute, span)
	t := &driver.Txn{}
	batch := []*driver.Txn{t}
	ops := make([]driver.Op, 1)
	return func(int, uint64) error {
		ops[0] = driver.Op{Key: driver.Key{Space: "|b|direct", ID: "user-0"}, Kind: driver.Bucket, Size: burst, Rate: perMinute, Gain: gain, Unit: unit, Tick: tick, Span: span, Cost: 1}
		*t = driver.Txn{Verb: driver.Take, Ops: ops}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if !s.Info().Instant { // who asks a store that waits has a deadline
			ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		}
		defer cancel()
		if err := s.Apply(ctx, batch); err != nil {
			return err
		}
		if t.Err == nil && !t.Allowed {
			return errDirectRefused
		}
		return t.Err
	}, func() { s.Close() }, err
}

func limiterTakes(s driver.Store) (func(int, uint64) error, func(), error) {
	l := ration.New(s, nil)
	key := ration.KeyOf("user-0")
	ctx := context.Background()
	return func(int, uint64) error {
		_, err := l.Take(ctx, key, aBucket, 1)
		return err
	}, func() { l.Close() }, nil
}
