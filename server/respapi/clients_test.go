package respapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// do is a command through a client's library.
type do func(ctx context.Context, args ...string) ([]int64, error)

// TestClients: programs connect with the libraries that they have, in both protocols, also through pipelines.
func TestClients(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(t *testing.T, addr string) do{
		"go-redis 2": func(t *testing.T, addr string) do { return goRedis(t, addr, 2) },
		"go-redis 3": func(t *testing.T, addr string) do { return goRedis(t, addr, 3) },
		"rueidis 2":  func(t *testing.T, addr string) do { return rueidisOf(t, addr, true) },
		"rueidis 3":  func(t *testing.T, addr string) do { return rueidisOf(t, addr, false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, &remote{Store: memstore.New(nil)}, nil, nil, nil)
			take := connect(t, e.addr)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for i, want := range [][]int64{{0, 2, 1, -1, 60}, {0, 2, 0, -1, 120}, {1, 2, 0, 60, 120}} {
				got, err := take(ctx, "CL.THROTTLE", "alice", "1", "1", "60")
				// Seconds pass while the test runs.
				if err != nil || len(got) != 5 || !slices.Equal(got[:3], want[:3]) || got[4] > want[4] || got[4] < 1 || (got[3] == -1) != (want[3] == -1) || got[3] > want[3] {
					t.Errorf("%d: %v %v, want about %v", i, got, err, want)
				}
			}
			if _, err := take(ctx, "CL.THROTTLE", "alice", "-1", "1", "60"); err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "ERR "), "max_burst") {
				t.Error(err)
			}
			// 64 callers at once share connections.
			var allowed atomic.Int64
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					for range 5 {
						got, err := take(ctx, "CL.THROTTLE", "crowd", "99", "1", "3600")
						if err != nil {
							t.Error(err)
							return
						}
						if got[0] == 0 {
							allowed.Add(1)
						}
					}
				})
			}
			callers.Wait()
			if n := allowed.Load(); n != 100 {
				t.Errorf("%d were admitted, not 100", n)
			}
		})
	}
}

func goRedis(t *testing.T, addr string, protocol int) do {
	// An answer that did not come is not asked for again: it may have been charged.
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1, ClientName: "test"})
	t.Cleanup(func() { c.Close() })
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, args ...string) ([]int64, error) {
		all := make([]any, len(args))
		for i, arg := range args {
			all[i] = arg
		}
		return c.Do(ctx, all...).Int64Slice()
	}
}

func rueidisOf(t *testing.T, addr string, protocol2 bool) do {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, AlwaysRESP2: protocol2, DisableCache: protocol2, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(ctx context.Context, args ...string) ([]int64, error) {
		return c.Do(ctx, c.B().Arbitrary(args...).Build()).AsIntSlice()
	}
}

// TestClientPipelines are answered in order, with the errors in their places.
func TestClientPipelines(t *testing.T) {
	t.Parallel()
	store := &remote{Store: memstore.New(nil)}
	store.fail = func(batch []*driver.Txn) error {
		if slices.ContainsFunc(batch, func(t *driver.Txn) bool { return t.Ops[0].Key.ID == "down" }) {
			return errors.Join(errors.New("the line is dead"), driver.ErrNotApplied)
		}
		return nil
	}
	e := start(t, store, nil, nil, nil)
	c := redis.NewClient(&redis.Options{Addr: e.addr, MaxRetries: -1})
	defer c.Close()
	var commands []*redis.Cmd
	_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 50 {
			commands = append(commands, p.Do(t.Context(), "CL.THROTTLE", "alice", 19, 1, 3600))
			if i == 10 {
				commands = append(commands, p.Do(t.Context(), "CL.THROTTLE", "alice", 19, 0, 3600))
			}
		}
		return nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "ERR count") {
		t.Error(err)
	}
	for i, one := range commands {
		got, err := one.Int64Slice()
		switch at := i - truth(i > 11); {
		case i == 11:
			if err == nil {
				t.Errorf("%d: %v", i, got)
			}
		case err != nil || len(got) != 5 || got[0] != int64(truth(at >= 20)) || got[2] != int64(max(0, 19-at)):
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	if err := c.Do(t.Context(), "CL.THROTTLE", "down", 1, 1, 60).Err(); err == nil || !strings.HasPrefix(err.Error(), "UNAVAILABLE ") {
		t.Error(err)
	}
}
