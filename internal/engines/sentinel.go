//go:build linux

package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SentinelSet is a primary with one replica, watched by three Sentinels.
type SentinelSet struct {
	Master    string // the name by which clients ask for the primary
	Primary   *Server
	Replica   *Server
	Sentinels []*Server
}

// Sentinel starts a primary, a replica and three Sentinels for the time of a test, and waits until they know each other.
func Sentinel(t testing.TB, opts *RedisOptions) *SentinelSet {
	t.Helper()
	return started(t, func() (*SentinelSet, error) { return StartSentinel(opts) })
}

// StartSentinel is Sentinel without a test: the caller calls Close.
func StartSentinel(opts *RedisOptions) (set *SentinelSet, err error) {
	set = &SentinelSet{Master: "ration"}
	defer func() {
		if err != nil {
			err = errors.Join(err, set.Close())
		}
	}()
	if set.Primary, err = StartRedis(opts); err != nil {
		return nil, err
	}
	k, err := redisKind(opts, "--replicaof", "127.0.0.1", fmt.Sprint(set.Primary.Port))
	if err != nil {
		return nil, err
	}
	if set.Replica, err = start(k); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := poll(ctx, func() error { return followed(ctx, set.Replica.Addr) }); err != nil {
		return nil, err
	}
	for range 3 {
		sentinel, err := startSentinel(opts, set)
		if err != nil {
			return nil, err
		}
		set.Sentinels = append(set.Sentinels, sentinel)
	}
	return set, set.Ready(ctx)
}

func startSentinel(opts *RedisOptions, set *SentinelSet) (*Server, error) {
	k, err := redisKind(opts)
	if err != nil {
		return nil, err
	}
	k.name += "-sentinel"
	// A Sentinel writes what it learns into its configuration.
	file := func(s *Server) string { return filepath.Join(s.Dir, "sentinel.conf") }
	k.prepare = func(s *Server) error {
		lines := []string{
			fmt.Sprintf("port %d", s.Port), "bind 127.0.0.1", "protected-mode no", "daemonize no", "dir " + s.Dir,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", set.Master, set.Primary.Port),
			"sentinel down-after-milliseconds " + set.Master + " 2000",
			"sentinel failover-timeout " + set.Master + " 5000",
		}
		return os.WriteFile(file(s), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
	}
	k.args = func(s *Server) []string { return []string{file(s), "--sentinel"} }
	return start(k)
}

// Ready waits until every Sentinel knows the other two and the replica, or ctx is done.
func (set *SentinelSet) Ready(ctx context.Context) error {
	return poll(ctx, func() error {
		for _, s := range set.Sentinels {
			reply, err := redisDo(ctx, s.Addr, "SENTINEL", "MASTER", set.Master)
			if err != nil {
				return err
			}
			list, _ := reply.([]any)
			fields := map[any]any{}
			for i := 0; i+1 < len(list); i += 2 {
				fields[list[i]] = list[i+1]
			}
			if fields["num-slaves"] != "1" || fields["num-other-sentinels"] != "2" || fields["flags"] != "master" {
				return fmt.Errorf("engines: the Sentinel %s knows %v replicas and %v others", s.Addr, fields["num-slaves"], fields["num-other-sentinels"])
			}
		}
		return nil
	})
}

// Current answers the address of the primary, as the first Sentinel that answers knows it.
func (set *SentinelSet) Current(ctx context.Context) (addr string, err error) {
	for _, s := range set.Sentinels {
		reply, e := redisDo(ctx, s.Addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.Master)
		if list, _ := reply.([]any); e == nil && len(list) == 2 {
			return fmt.Sprintf("%v:%v", list[0], list[1]), nil
		}
		err = errors.Join(err, e)
	}
	return "", errors.Join(errors.New("engines: no Sentinel answers"), err)
}

// Addrs are the addresses of the Sentinels.
func (set *SentinelSet) Addrs() (addrs []string) {
	for _, s := range set.Sentinels {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

func (set *SentinelSet) all() (all []*Server) {
	all = append(all, set.Sentinels...)
	for _, s := range []*Server{set.Replica, set.Primary} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// Close ends all servers and removes their data.
func (set *SentinelSet) Close() error { return closeAll(set.all()) }

func (set *SentinelSet) logs() string { return logsOf(set.all()) }
