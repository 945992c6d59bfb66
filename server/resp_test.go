package server_test

import (
	"context"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ration-go/ration/server"
)

var respAddress = regexp.MustCompile(`CL\.THROTTLE on (\S+)\n`)

// serveRESP runs a server that speaks Redis's protocol too, and answers where.
func serveRESP(t *testing.T, dir string, args ...string) (*process, string) {
	t.Helper()
	p := serve(t, dir, append([]string{"--store", "memory:", "--resp-listen", "127.0.0.1:0"}, args...)...)
	p.wait(p.stdout, "CL.THROTTLE on ")
	return p, respAddress.FindStringSubmatch(p.wait(p.stdout, "\n"))[1]
}

func TestServeRESP(t *testing.T) {
	t.Parallel()
	p, address := serveRESP(t, t.TempDir(), "--namespace", "shop", "--grpc-listen", "127.0.0.1:0")
	c := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	defer c.Close()
	got, err := c.Do(t.Context(), "CL.THROTTLE", "alice", 1, 1, 3600).Int64Slice()
	if err != nil || len(got) != 5 || got[0] != 0 || got[1] != 2 || got[2] != 1 || got[3] != -1 {
		t.Errorf("%v, %v", got, err)
	}
	// It is the count that HTTP sees.
	if _, answer := post(t, p.url+"/v1/take", `{"key": "alice", "limit": "bucket 1/1h burst 2"}`); sprint(answer["remaining"]) != "0" {
		t.Errorf("%v", answer)
	}
	if got, err = c.Do(t.Context(), "CL.THROTTLE", "alice", 1, 1, 3600).Int64Slice(); err != nil || len(got) != 5 || got[0] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	// A connection that is open does not keep it from ending.
	p.signal(syscall.SIGTERM)
	if code, by := p.end(); code != server.ExitOK || by != 0 {
		t.Errorf("ended with %d, by signal %v\n%s", code, by, p.stderr)
	}
}

// TestRESPIsOff unless it was asked for.
func TestRESPIsOff(t *testing.T) {
	t.Parallel()
	cfg := server.Defaults()
	cfg.Store = "memory:"
	s := must[*server.Server](t)(server.New(t.Context(), cfg, &server.Options{Stores: map[string]server.OpenFunc{"memory": server.OpenMemory}}))
	defer s.Close()
	if l, err := s.ListenRESP(t.Context()); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	l := must[net.Listener](t)(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	if err := s.ServeRESP(context.Background(), l); err == nil {
		t.Error("it serves")
	}
	for _, command := range []string{"serve", "config check"} {
		_, stderr, code := run(t, t.TempDir(), nil, append(strings.Fields(command), "--resp-listen", "7533")...)
		if code != server.ExitError || !strings.Contains(stderr, `--resp-listen: "7533" is not HOST:PORT`) {
			t.Errorf("%d\n%s", code, stderr)
		}
	}
}
