package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
)

// rueidisClient sends commands through rueidis. It sends none twice by itself: only what is marked as reading is retried by
// rueidis, and nothing here is.
type rueidisClient struct {
	c rueidis.Client
}

func (r rueidisClient) Do(ctx context.Context, cmds []redisscript.Cmd, replies []redisscript.Reply) {
	if len(cmds) == 1 {
		replies[0] = rueidisReply(r.c.Do(ctx, r.build(&cmds[0])))
		return
	}
	built := make([]rueidis.Completed, len(cmds))
	for i := range cmds {
		built[i] = r.build(&cmds[i])
	}
	for i, res := range r.c.DoMulti(ctx, built...) {
		replies[i] = rueidisReply(res)
	}
}

func (r rueidisClient) build(cmd *redisscript.Cmd) rueidis.Completed {
	b := r.c.B().Arbitrary(cmd.Args[0])
	switch {
	case cmd.Keys > 0:
		return b.Args(cmd.Args[1:3]...).Keys(cmd.Args[3 : 3+cmd.Keys]...).Args(cmd.Args[3+cmd.Keys:]...).Build()
	case cmd.Key != "":
		return b.Keys(cmd.Key).Args(cmd.Args[2:]...).Build()
	}
	return b.Args(cmd.Args[1:]...).Build()
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
