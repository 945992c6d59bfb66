package redisscript

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// Config says how a store keeps its data. The zero value is the default.
type Config struct {
	Prefix     string        // default DefaultPrefix
	Tags       int           // default DefaultTags; a power of two
	Cluster    bool          // keys of different tags may be on different nodes
	SweepEvery time.Duration // default a second; below zero: never
	Lazy       bool          // sweep only while holds of this process are open
	Replicas   int           // for which the client waits after a charge
}

// Store decides transactions by scripts. It is safe for concurrent use.
type Store struct {
	client   Client
	cluster  bool
	replicas int
	names    names

	limits limitTexts
	ones   sync.Pool // of *oneCall

	lazy      bool
	heldUntil atomic.Int64 // Unix time in ms
	stop      context.CancelFunc
	wg        sync.WaitGroup

	sweeps, swept atomic.Int64

	mu     sync.RWMutex
	spaces map[int][]string // of each tag, as last seen
}

// New is a Store over client. The tags have to pass CheckTags.
func New(client Client, cfg Config) *Store {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if cfg.Tags == 0 {
		cfg.Tags = DefaultTags
	}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = time.Second
	}
	n := newNames(cfg.Prefix, cfg.Tags)
	s := &Store{client: client, cluster: cfg.Cluster, replicas: cfg.Replicas, lazy: cfg.Lazy, names: n, spaces: map[int][]string{}}
	sweeping, stop := context.WithCancel(context.Background())
	s.stop = stop
	if cfg.SweepEvery > 0 {
		s.wg.Go(func() { s.sweepAlways(sweeping, cfg.SweepEvery) })
	}
	return s
}

// Close ends the background work and waits for it. A second call does nothing.
func (s *Store) Close() error {
	s.stop()
	s.wg.Wait()
	return nil
}

// Route is of driver.Router.
func (s *Store) Route(k driver.Key) string { return fmt.Sprint(s.names.tag(&k)) }

// Apply is of driver.Store.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	if len(batch) == 1 && single(batch[0]) {
		return s.applyOne(ctx, batch[0])
	}
	rest := s.works(batch)
	// Each round decides something, or learns what it lacked.
	for round := 0; len(rest) > 0; round++ {
		if round > 3*len(batch)+10 {
			fail(rest, fmt.Errorf("%w: what the transaction needs changes all the time", driver.ErrNotApplied))
			break
		}
		calls := s.calls(rest)
		var err error
		if rest, err = s.send(ctx, calls); err != nil && len(calls) == 1 && round == 0 {
			return err
		}
	}
	return nil
}

func fail(works []*work, err error) {
	for _, w := range works {
		w.t.Err = err
	}
}

// works are the transactions of batch that can be sent. The others get their errors.
func (s *Store) works(batch []*driver.Txn) []*work {
	all := make([]work, len(batch))
	works := make([]*work, 0, len(batch))
	for i, t := range batch {
		w := &all[i]
		w.t = t
		if t.Err = refuse(t); t.Err != nil {
			continue
		}
		if w.tag, t.Err = s.names.tagOfTxn(t); t.Err != nil {
			continue
		}
		if s.lazy && held(t) {
			s.noteHold(t)
		}
		if t.Verb > driver.Forget {
			w.sent = t.Ops
			for i := range t.Ops {
				w.keys = append(w.keys, string(s.names.state(nil, &t.Ops[i].Key, w.tag)))
			}
		}
		works = append(works, w)
	}
	return works
}

// calls are the script calls that decide works. One that cannot be sent gets its error.
func (s *Store) calls(works []*work) (calls []*call) {
	byPlace := map[int]*call{}
	for _, w := range works {
		place := 0
		if s.cluster {
			place = w.tag
		}
		c := byPlace[place]
		if c == nil {
			c = &call{texts: &s.limits, flat: true}
			byPlace[place], calls = c, append(calls, c)
		}
		c.addHeads(&s.names, w)
		c.flat = c.flat && flat(w.t)
		c.work = append(c.work, w)
	}
	for _, c := range calls {
		works := c.work
		c.work = works[:0]
		for _, w := range works {
			w.t.Err = c.add(&s.names, w, s.known(w))
		}
	}
	return slices.DeleteFunc(calls, func(c *call) bool { return len(c.work) == 0 })
}

// known are the spaces that w has to forget from, as far as known.
func (s *Store) known(w *work) []string {
	if w.t.Verb != driver.Forget {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.spaces[w.tag]
}

// send makes calls and answers the transactions that have to be sent again. err is that of the last call that failed, which
// its transactions have too.
func (s *Store) send(ctx context.Context, calls []*call) (rest []*work, err error) {
	cmds := make([]Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = c.cmd()
	}
	replies := make([]Reply, len(cmds))
	s.do(ctx, cmds, replies)
	for i, c := range calls {
		if e := failure(replies[i].Err); e != nil && !errors.Is(e, ErrReplicas) {
			fail(c.work, e)
			err = e
			continue
		}
		again, lacks, e := c.answer(&s.names, replies[i].Text)
		if e != nil {
			fail(c.work, e)
			err = e
			continue
		}
		if replies[i].Err != nil {
			c.unsure(len(c.work)-len(again), replies[i].Err)
		}
		if len(again) > 0 {
			s.learn(again[0], lacks)
			rest = append(rest, again...)
		}
	}
	return rest, err
}

// unsure gives the first n transactions err if they changed something.
func (c *call) unsure(n int, err error) {
	for _, w := range c.work[:n] {
		if w.t.Err == nil && changed(w.t) {
			w.t.Err = err
		}
	}
}

// changed reports whether t, which is decided, may have changed something.
func changed(t *driver.Txn) bool {
	return t.Verb != driver.Peek && (t.Allowed || t.Verb != driver.Take || t.Ops[0].Result.Times > 0)
}

// ask sends commands that are not scripts.
func (s *Store) ask(ctx context.Context, cmds ...Cmd) []Reply {
	replies := make([]Reply, len(cmds))
	s.do(ctx, cmds, replies)
	return replies
}

// learn notes what w lacked: the spaces of its tag, or the record of its hold.
func (s *Store) learn(w *work, lacks string) {
	if w.t.Verb == driver.Forget {
		_, list, _ := strings.Cut(lacks, " ")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.spaces[w.tag] = strings.Fields(list)
		return
	}
	if rec, ok := s.names.parseRecord(lacks); ok {
		w.keys = rec.keys
	}
}
