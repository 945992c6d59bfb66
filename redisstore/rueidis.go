package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
)

// rueidisClient sends commands through rueidis. rueidis sends again what it redirects, and what is marked as reading; nothing
// here is marked so.
type rueidisClient struct {
	c        rueidis.Client
	replicas int
	wait     time.Duration
}

func (r rueidisClient) Do(ctx context.Context, cmds []redisscript.Cmd, replies []redisscript.Reply) {
	if r.replicas > 0 {
		r.doSure(ctx, cmds, replies)
		return
	}
	if len(cmds) == 1 {
		replies[0] = rueidisReply(r.c.Do(ctx, build(r.c.B(), &cmds[0])))
		return
	}
	built := make([]rueidis.Completed, len(cmds))
	for i := range cmds {
		built[i] = build(r.c.B(), &cmds[i])
	}
	for i, res := range r.c.DoMulti(ctx, built...) {
		replies[i] = rueidisReply(res)
	}
}

// doSure waits for the replicas after each command that asks for it: on the command's own connection, since WAIT is for what
// was written there. Such a connection follows no redirection, so redisscript repeats what was redirected.
func (r rueidisClient) doSure(ctx context.Context, cmds []redisscript.Cmd, replies []redisscript.Reply) {
	var wg sync.WaitGroup
	for i := range cmds {
		wg.Go(func() {
			if !cmds[i].Sure {
				replies[i] = rueidisReply(r.c.Do(ctx, build(r.c.B(), &cmds[i])))
				return
			}
			c, release := r.c.Dedicate()
			defer release()
			wait := c.B().Arbitrary("WAIT").Args(strconv.Itoa(r.replicas), strconv.FormatInt(max(r.wait.Milliseconds(), 1), 10)).Build()
			res := c.DoMulti(ctx, build(c.B(), &cmds[i]), wait)
			replies[i] = rueidisReply(res[0])
			if replies[i].Err == nil {
				if n, err := res[1].AsInt64(); err != nil || n < int64(r.replicas) {
					replies[i].Err = errors.Join(redisscript.ErrReplicas, err)
				}
			}
		})
	}
	wg.Wait()
}

// Nodes is of redisscript.NodeClient.
func (r rueidisClient) Nodes(ctx context.Context, cmds []redisscript.Cmd) map[string][]redisscript.Reply {
	all := map[string][]redisscript.Reply{}
	for addr, node := range r.c.Nodes() {
		replies := make([]redisscript.Reply, len(cmds))
		for i := range cmds {
			replies[i] = rueidisReply(node.Do(ctx, node.B().Arbitrary(cmds[i].Args...).Build()))
		}
		all[addr] = replies
	}
	return all
}

func build(b rueidis.Builder, cmd *redisscript.Cmd) rueidis.Completed {
	c := b.Arbitrary(cmd.Args[0])
	switch {
	case cmd.Keys > 0:
		c = c.Args(cmd.Args[1:3]...).Keys(cmd.Args[3 : 3+cmd.Keys]...).Args(cmd.Args[3+cmd.Keys:]...)
	case cmd.Key != "":
		c = c.Keys(cmd.Key).Args(cmd.Args[2:]...)
	default:
		c = c.Args(cmd.Args[1:]...)
	}
	if cmd.Aside {
		// On a connection that decisions do not use. From the first two calls at a time on, rueidis gives a connection goroutines
		// that write and read for all, and a lone caller then waits for those, too.
		return c.Blocking()
	}
	return c.Build()
}

func rueidisReply(res rueidis.RedisResult) (r redisscript.Reply) {
	m, err := res.ToMessage()
	switch {
	case rueidis.IsRedisNil(err):
		return r
	case err != nil:
		r.Err = rueidisError(err)
		return r
	case m.IsArray():
		list, err := m.ToArray()
		r.Err = err
		for i := range list {
			r.List = append(r.List, rueidisText(&list[i]))
		}
		return r
	case m.IsMap(): // CONFIG GET, in RESP 3
		all, err := m.AsStrMap()
		r.Err = err
		for k, v := range all {
			r.List = append(r.List, k, v)
		}
		return r
	}
	r.Text = rueidisText(&m)
	return r
}

func rueidisText(m *rueidis.RedisMessage) string {
	if m.IsInt64() {
		n, _ := m.ToInt64()
		return strconv.FormatInt(n, 10)
	}
	s, _ := m.ToString()
	return s
}

func rueidisError(err error) error {
	if server, ok := rueidis.IsRedisErr(err); ok {
		return redisscript.NewServerError(server.Error())
	}
	return netError(err)
}

// netError adds that nothing was sent where there was no connection to send it on.
func netError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot) {
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	return err
}
