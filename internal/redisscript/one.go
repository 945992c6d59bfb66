package redisscript

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// Most calls are of one transaction with one op, by the server's clock. They have scripts of their own, and what they need
// here is reused.
type oneCall struct {
	cmds    [1]Cmd
	replies [1]Reply
	args    [8]string
	buf     []byte
	view    viewed
}

// single reports whether t can be decided by one of the short scripts.
func single(t *driver.Txn) bool {
	return len(t.Ops) == 1 && t.Now == 0 && t.ID == "" && t.Verb >= driver.Take && t.Verb <= driver.Hit && t.Ops[0].Kind >= driver.Bucket && t.Ops[0].Kind < driver.Slots
}

func (s *Store) applyOne(ctx context.Context, t *driver.Txn) error {
	op := &t.Ops[0]
	c, _ := s.ones.Get().(*oneCall)
	if c == nil {
		c = new(oneCall)
	}
	defer s.ones.Put(c)
	limit, err := s.limits.text(op, &c.view.lim)
	if err != nil {
		t.Err = err
		return nil
	}
	tag := s.names.tag(&op.Key)
	c.buf = s.names.state(c.buf[:0], &op.Key, tag)
	key := string(c.buf)
	script := &oneScripts[op.Kind]
	args := append(c.args[:0], "EVALSHA", script.sha, "1", key)
	keys := 1
	if t.Verb != driver.Peek {
		args[2], keys = "2", 2
		args = append(args, s.names.spaces(tag))
	}
	args = append(args, limit, strconv.FormatInt(op.Cost, 10))
	switch {
	case t.Verb == driver.Hit:
		args = append(args, "h")
	case op.Times > 1:
		args = append(args, strconv.FormatInt(op.Times, 10))
	}
	c.cmds[0] = Cmd{Args: args, Key: key, Keys: keys, Script: script.text, Sure: keys == 2}
	r := &c.replies[0]
	*r = Reply{}
	s.do(ctx, c.cmds[:], c.replies[:])
	if r.Err != nil && !errors.Is(r.Err, ErrReplicas) {
		return failure(r.Err)
	}
	if err := c.answer(t, r.Text); err != nil {
		return err
	}
	if r.Err != nil && changed(t) {
		t.Err = r.Err
	}
	return nil
}

// answer fills in the results of t.
func (c *oneCall) answer(t *driver.Txn, reply string) error {
	r := reader{s: reply}
	clock := r.int(' ')*1_000_000 + r.int('\n')
	code := r.int(' ')
	if r.bad || code < 0 || code >= int64(len(failures)) {
		return errReply
	}
	t.At = driver.Micros(clock)
	if t.Err = failures[code]; t.Err != nil {
		return nil
	}
	return txnAnswer(t, &r, &c.view)
}

// limitTexts keeps the texts of limits in use.
type limitTexts struct {
	table [256]atomic.Pointer[limitText]
}

type limitText struct {
	lim  arith.Limit
	text string
}

// text sets lim to the numbers of op and answers them as the scripts read them.
func (l *limitTexts) text(op *driver.Op, lim *arith.Limit) (string, error) {
	*lim = arith.Limit{}
	if err := driver.LimitOf(op, lim); err != nil {
		return "", err
	}
	h := uint64(lim.Size)*0x9E3779B97F4A7C15 ^ uint64(lim.Span)*0xC2B2AE3D27D4EB4F ^ uint64(lim.Unit)*0x165667B19E3779F9 ^ uint64(lim.Bounds[1])
	place := &l.table[h>>40%uint64(len(l.table))]
	if known := place.Load(); known != nil && known.lim == *lim {
		return known.text, nil
	}
	known := &limitText{*lim, string(appendLimit(nil, lim))}
	place.Store(known)
	return known.text, nil
}
