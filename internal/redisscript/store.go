package redisscript

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ration-go/ration/driver"
)

// Config says how a store keeps its data.
type Config struct {
	Prefix  string
	Tags    int
	Cluster bool // keys of different tags may be on different nodes
}

// Store decides transactions by scripts. It is safe for concurrent use.
type Store struct {
	client  Client
	cluster bool
	names   names

	mu     sync.RWMutex
	spaces map[int][]string // of each tag, as last seen
}

// New is a Store over client.
func New(client Client, cfg Config) (*Store, error) {
	n, err := newNames(cfg.Prefix, cfg.Tags)
	if err != nil {
		return nil, err
	}
	return &Store{client: client, cluster: cfg.Cluster, names: n, spaces: map[int][]string{}}, nil
}

// Route is of driver.Router.
func (s *Store) Route(k driver.Key) string { return fmt.Sprint(s.names.tag(&k)) }

// Apply is of driver.Store.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	rest := batch
	// Each round decides something, or learns what it lacked.
	for round := 0; len(rest) > 0; round++ {
		if round > 3*len(batch)+10 {
			fail(rest, fmt.Errorf("%w: what the transaction needs changes all the time", driver.ErrNotApplied))
			break
		}
		calls := s.calls(rest)
		if len(calls) == 0 {
			break
		}
		var err error
		if rest, err = s.send(ctx, calls); err != nil && len(calls) == 1 && round == 0 {
			return err
		}
	}
	return nil
}

func fail(txns []*driver.Txn, err error) {
	for _, t := range txns {
		t.Err = err
	}
}

// calls are the script calls that decide txns. One that cannot be sent gets its error.
func (s *Store) calls(txns []*driver.Txn) (calls []*call) {
	type placed struct {
		t   *driver.Txn
		tag int
	}
	byPlace := map[int][]placed{}
	var order []int
	for _, t := range txns {
		if t.Err = refuse(t); t.Err != nil {
			continue
		}
		tag, err := s.names.tagOfTxn(t)
		if t.Err = err; err != nil {
			continue
		}
		place := 0
		if s.cluster {
			place = tag
		}
		if byPlace[place] == nil {
			order = append(order, place)
		}
		byPlace[place] = append(byPlace[place], placed{t, tag})
	}
	for _, place := range order {
		c := &call{}
		for _, p := range byPlace[place] {
			if p.t.Verb != driver.Peek && !slices.Contains(c.tags, p.tag) {
				c.tags = append(c.tags, p.tag)
				c.keys = append(c.keys, s.names.spaces(p.tag))
			}
			c.writes = c.writes || p.t.Verb != driver.Peek
		}
		for _, p := range byPlace[place] {
			p.t.Err = c.add(&s.names, p.t, p.tag, s.known(p.tag))
		}
		if len(c.txns) > 0 {
			calls = append(calls, c)
		}
	}
	return calls
}

func (s *Store) known(tag int) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.spaces[tag]
}

// send makes calls and answers the transactions that have to be sent again. err is that of the last call that failed, which
// its transactions have too.
func (s *Store) send(ctx context.Context, calls []*call) (rest []*driver.Txn, err error) {
	cmds := make([]Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = c.cmd()
	}
	replies := s.do(ctx, calls, cmds)
	for i, c := range calls {
		if e := failure(replies[i].Err); e != nil && !errors.Is(e, ErrReplicas) {
			fail(c.txns, e)
			err = e
			continue
		}
		again, lacks, e := c.answer(replies[i].Text)
		if e != nil {
			fail(c.txns, e)
			err = e
			continue
		}
		if replies[i].Err != nil {
			c.unsure(len(c.txns)-len(again), replies[i].Err)
		}
		if len(again) > 0 {
			s.learn(again[0], lacks)
			rest = append(rest, again...)
		}
	}
	return rest, err
}

// do sends cmds, and those whose script a server has forgotten once more with the script.
func (s *Store) do(ctx context.Context, calls []*call, cmds []Cmd) []Reply {
	replies := s.client.Do(ctx, cmds)
	var forgotten []int
	for i := range replies {
		var server *ServerError
		if errors.As(replies[i].Err, &server) && server.Code == "NOSCRIPT" {
			forgotten = append(forgotten, i)
		}
	}
	if len(forgotten) == 0 {
		return replies
	}
	again := make([]Cmd, len(forgotten))
	for j, i := range forgotten {
		calls[i].withText(&cmds[i])
		again[j] = cmds[i]
	}
	for j, r := range s.client.Do(ctx, again) {
		replies[forgotten[j]] = r
	}
	return replies
}

// unsure gives the first n transactions err if they changed something.
func (c *call) unsure(n int, err error) {
	for _, t := range c.txns[:n] {
		if t.Err == nil && t.Verb != driver.Peek && (t.Allowed || t.Verb != driver.Take) {
			t.Err = err
		}
	}
}

// learn notes what t lacked.
func (s *Store) learn(t *driver.Txn, lacks string) {
	if t.Verb != driver.Forget {
		return
	}
	tag, _ := s.names.tagOfTxn(t)
	_, list, _ := strings.Cut(lacks, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spaces[tag] = strings.Fields(list)
}
