package redisscript

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
)

// Sweep is of driver.Sweeper: it ends holds that have expired. All else expires in Redis by itself. Holds that an injected
// clock wrote are left alone by the server's.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, most int) (dropped int, err error) {
	if most < 1 {
		return 0, nil
	}
	s.sweeps.Add(1)
	defer func() { s.swept.Add(int64(dropped)) }()
	cmds, err := s.dueCmds(ctx, now, most)
	if err != nil {
		return 0, err
	}
	var batch []*driver.Txn
	for _, r := range s.ask(ctx, cmds...) {
		if r.Err != nil {
			err = errors.Join(err, failure(r.Err)) // the other nodes of a cluster go on
			continue
		}
		for _, member := range r.List {
			if id, bad := unescape(member); !bad && len(batch) < most {
				batch = append(batch, &driver.Txn{Verb: lapse, ID: id, Now: now})
			}
		}
	}
	for part := range slices.Chunk(batch, sweepBatch) {
		err = errors.Join(err, s.Apply(ctx, part))
		for _, t := range part {
			if t.Err == nil {
				dropped++
			}
		}
	}
	return dropped, err
}

// dueCmds ask which holds are due: one script on a server, and one command for each tag on a cluster.
func (s *Store) dueCmds(ctx context.Context, now driver.Micros, most int) ([]Cmd, error) {
	var keys []string
	for tag := range int(s.names.tags) {
		for i, key := range s.names.due(tag) {
			if i == 0 || now != 0 {
				keys = append(keys, key)
			}
		}
	}
	if !s.cluster {
		args := append([]string{"EVALSHA", dueScript.sha, strconv.Itoa(len(keys))}, keys...)
		args = append(args, strconv.FormatInt(int64(now), 10), strconv.Itoa(most))
		return []Cmd{{Args: args, Key: keys[0], Keys: len(keys), Script: dueScript.text, Aside: true}}, nil
	}
	if now == 0 {
		var err error
		if now, err = s.clock(ctx); err != nil {
			return nil, err
		}
	}
	var cmds []Cmd
	for _, key := range keys {
		cmds = append(cmds, Cmd{Key: key, Args: []string{
			"ZRANGEBYSCORE", key, "-inf", strconv.FormatInt(int64(now), 10), "LIMIT", "0", strconv.Itoa(most),
		}})
	}
	return cmds, nil
}

// sweepAlways sweeps in the background. Of all processes that share the data one does it at a time.
func (s *Store) sweepAlways(ctx context.Context, every time.Duration) {
	const most = 256
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	key, token := s.names.own("sweep", 0), rand.Text()
	lease := strconv.FormatInt(max(every.Milliseconds()*9/10, 1), 10)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.lazy && time.Now().UnixMilli() > s.heldUntil.Load() {
			continue
		}
		round, cancel := context.WithTimeout(ctx, max(every, 5*time.Second))
		won := s.ask(round, Cmd{Key: key, Args: []string{"SET", key, token, "NX", "PX", lease}, Aside: true})[0]
		for won.Text == "OK" {
			// What fails is tried again in the next round.
			if n, err := s.Sweep(round, 0, most); n < most || err != nil {
				break
			}
		}
		cancel()
	}
}

// noteHold keeps a lazy sweeper awake until t's hold has ended.
func (s *Store) noteHold(t *driver.Txn) {
	until := time.Now().Add(t.TTL.Duration() + time.Minute).UnixMilli()
	for old := s.heldUntil.Load(); until > old && !s.heldUntil.CompareAndSwap(old, until); {
		old = s.heldUntil.Load()
	}
}

// sweepBatch is how many holds are ended in one step.
const sweepBatch = 32

// clock asks a server what time it is.
func (s *Store) clock(ctx context.Context) (driver.Micros, error) {
	r := s.ask(ctx, Cmd{Args: []string{"TIME"}})[0]
	if r.Err != nil {
		return 0, failure(r.Err)
	}
	if len(r.List) != 2 {
		return 0, errReply
	}
	clock := reader{s: strings.Join(r.List, " ")}
	now := clock.int(' ')*1_000_000 + clock.int(0)
	if clock.bad {
		return 0, errReply
	}
	return driver.Micros(now), nil
}

// Holds is of driver.HoldLister. Holds that begin or end meanwhile are in the list or not.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		now, err := s.clock(ctx)
		if err != nil {
			yield(driver.Hold{}, err)
			return
		}
		var keys []string
		for tag := range int(s.names.tags) {
			due := s.names.due(tag)
			keys = append(keys, due[:]...)
		}
		for from := 0; len(keys) > 0; from += page {
			ids, full, err := s.dueFrom(ctx, keys, from)
			if err != nil {
				yield(driver.Hold{}, err)
				return
			}
			for part := range slices.Chunk(ids, page) {
				if !s.yieldHolds(ctx, now, part, yield) {
					return
				}
			}
			keys = full
		}
	}
}

// page is how many holds are read at a time.
const page = 200

// dueFrom reads a page of each of the sorted sets, and answers those that have more.
func (s *Store) dueFrom(ctx context.Context, keys []string, from int) (ids, full []string, err error) {
	cmds := make([]Cmd, len(keys))
	for i, key := range keys {
		cmds[i] = Cmd{Key: key, Args: []string{"ZRANGE", key, strconv.Itoa(from), strconv.Itoa(from + page - 1)}}
	}
	for i, r := range s.ask(ctx, cmds...) {
		if r.Err != nil {
			return nil, nil, failure(r.Err)
		}
		for _, member := range r.List {
			if id, bad := unescape(member); !bad {
				ids = append(ids, id)
			}
		}
		if len(r.List) == page {
			full = append(full, keys[i])
		}
	}
	return ids, full, nil
}

func (s *Store) yieldHolds(ctx context.Context, now driver.Micros, ids []string, yield func(driver.Hold, error) bool) bool {
	var cmds []Cmd
	var known []string
	for _, id := range ids {
		if tag, ok := s.names.route(id); ok {
			key := s.names.hold(id, tag)
			cmds, known = append(cmds, Cmd{Key: key, Args: []string{"GET", key}}), append(known, id)
		}
	}
	if len(cmds) == 0 {
		return true
	}
	for i, r := range s.ask(ctx, cmds...) {
		if r.Err != nil {
			return yield(driver.Hold{}, failure(r.Err))
		}
		rec, ok := s.names.parseRecord(r.Text)
		if !ok || !rec.open || !rec.clock && rec.expires <= now {
			continue
		}
		h := driver.Hold{ID: known[i], At: rec.at, Ops: rec.ops, Expires: rec.expires, Return: rec.ret}
		for j := range h.Ops {
			h.Ops[j].Cost = rec.charged[j]
		}
		if !yield(h, nil) {
			return false
		}
	}
	return true
}
