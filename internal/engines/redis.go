//go:build linux

package engines

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
)

// RedisOptions says which server and how.
type RedisOptions struct {
	Valkey bool     // Valkey instead of Redis
	Args   []string // more arguments, as "--maxmemory", "10mb"; they win over ours
}

// Redis starts a Redis or Valkey server for the time of a test. It keeps an append-only file, so that nothing that was
// acknowledged is lost by Kill and Restart.
func Redis(t testing.TB, opts *RedisOptions) *Server {
	t.Helper()
	return started(t, func() (*Server, error) { return StartRedis(opts) })
}

// StartRedis is Redis without a test: the caller calls Close.
func StartRedis(opts *RedisOptions) (*Server, error) {
	k, err := redisKind(opts)
	if err != nil {
		return nil, err
	}
	return start(k)
}

func redisKind(opts *RedisOptions, more ...string) (kind, error) {
	if opts == nil {
		opts = &RedisOptions{}
	}
	name := "redis"
	variable, places := "RATION_REDIS_SERVER", []string{"redis-server", "/usr/bin/redis-server"}
	if opts.Valkey {
		name = "valkey"
		variable = "RATION_VALKEY_SERVER"
		places = []string{filepath.Join(cacheFolder(), "valkey", "usr", "bin", "valkey-server"), "valkey-server"}
	}
	server, err := program(variable, "", places...)
	if err != nil {
		return kind{}, err
	}
	return kind{
		name:    name,
		program: server,
		prepare: func(s *Server) error {
			s.URL = "redis://" + s.Addr + "/0"
			return nil
		},
		args: func(s *Server) []string {
			args := []string{
				"--port", fmt.Sprint(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir, "--protected-mode", "no",
				"--save", "", "--appendonly", "yes", "--daemonize", "no",
				"--repl-diskless-sync-delay", "0",
			}
			return append(append(args, more...), opts.Args...)
		},
		ping: func(ctx context.Context, s *Server) error {
			_, err := redisText(ctx, s.Addr, "PING")
			return err
		},
		stop:   syscall.SIGTERM,
		orphan: syscall.SIGKILL,
	}, nil
}
