//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ration-go/ration/server"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	rationredis "github.com/ration-go/ration/server/redis"
)

// The servers that this program can be, and one that it builds.
const (
	serveEcho       = "echo"
	serveMemory     = "memory"
	serveEnvoy      = "envoy"
	serveLeases     = "leases"
	servePipelines  = "pipelines"
	serveEnvoyproxy = "envoyproxy"
	serveHTTP       = "http"
	serveHTTPEcho   = "http-echo"
)

// serverVariable makes this program a server: its kind, the URL of Redis, and a file for Envoy's service.
const serverVariable = "RATION_BENCHMARK_SERVER"

// process is a server.
type process struct {
	address string
	cmd     *exec.Cmd
	stdin   io.Closer
	after   []func()
}

func (p *process) end() {
	p.stdin.Close() // which ends it, also if this program dies
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it keeps nothing
		_ = p.cmd.Wait()
	}
	for _, f := range p.after {
		f()
	}
}

// startServer starts a server of a kind, and waits until it listens.
func startServer(kind string, redisURL ...string) (p *process, err error) {
	if kind == serveEnvoyproxy {
		return startEnvoyproxy(redisURL[0])
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p = &process{cmd: exec.Command(program)}
	args := append([]string{kind}, redisURL...)
	if kind == serveEnvoy || kind == serveLeases {
		text := envoyConfig
		if kind == serveLeases {
			text += leases
		}
		dir, file, err := writeConfig(text)
		if err != nil {
			return nil, err
		}
		p.after = append(p.after, func() { os.RemoveAll(dir) })
		args = append(args, file)
	}
	p.cmd.Env = append(os.Environ(), serverVariable+"="+strings.Join(args, " "))
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err != nil {
		return nil, err
	}
	before := "gRPC on "
	if kind == serveHTTP || kind == serveHTTPEcho {
		before = "listens on http://"
	}
	err = p.cmd.Start()
	for lines := bufio.NewReader(stdout); err == nil && p.address == ""; {
		var line string
		line, err = lines.ReadString('\n')
		if _, rest, found := strings.Cut(line, before); found {
			p.address = rest[:strings.IndexAny(rest, " ;\n")]
		}
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("the server %s: %w", kind, err)
	}
	return p, nil
}

// beServer is the server that the environment asks for, until standard input ends. It reports false if it asks for none.
func beServer() bool {
	args := strings.Fields(os.Getenv(serverVariable))
	if len(args) == 0 {
		return false
	}
	// What somebody has set for ration is not to change what is measured.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "RATION_") {
			os.Unsetenv(name)
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it ends
		os.Exit(0)
	}()
	if err := serveAs(args[0], args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
	return true
}

func serveAs(kind string, args []string) error {
	switch kind {
	case serveHTTPEcho:
		return serveEchoOverHTTP()
	case serveEcho:
		return serveBare(func(gs *grpc.Server) { rationv1.RegisterRationServiceServer(gs, newEcho()) })
	case servePipelines:
		opts, err := redis.ParseURL(args[0])
		if err != nil {
			return err
		}
		return serveBare(func(gs *grpc.Server) {
			rlsv3.RegisterRateLimitServiceServer(gs, &pipelineService{client: redis.NewClient(opts)})
		})
	}
	command := []string{"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--log-level", "error", "--store", "memory:"}
	if len(args) > 0 {
		command = append(command[:len(command)-1], args[0], "--envoy-configs", args[1])
	}
	opts := &server.Options{Stores: map[string]server.OpenFunc{"memory": server.OpenMemory, "redis": rationredis.Open}}
	if code := server.Run(context.Background(), opts, command, os.Stdout, os.Stderr); code != server.ExitOK {
		return fmt.Errorf("ration serve ended with %d", code)
	}
	return nil
}

// serveBare serves with grpc-go as it comes.
func serveBare(register func(*grpc.Server)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gs := grpc.NewServer()
	register(gs)
	fmt.Printf("gRPC on %s; as it comes\n", l.Addr())
	return gs.Serve(l)
}

// echoService answers with what it has.
type echoService struct {
	rationv1.UnimplementedRationServiceServer
	answer *rationv1.TakeResponse
}

func newEcho() *echoService {
	return &echoService{answer: &rationv1.TakeResponse{Decision: &rationv1.Decision{
		Allowed: true, Limit: 1_000_000_000, Used: 1000, Remaining: 999_999_000, ResetAfterMs: 3_600_000, AtUs: time.Now().UnixMicro(),
	}}}
}

func (s *echoService) Take(context.Context, *rationv1.TakeRequest) (*rationv1.TakeResponse, error) {
	return s.answer, nil
}

// pipelineService counts and answers as envoyproxy/ratelimit does, and does nothing else: an INCRBY and an EXPIRE for each
// descriptor, sent in one pipeline for the request. go-redis sends each pipeline by itself, on a connection that nobody else uses
// meanwhile.
type pipelineService struct {
	rlsv3.UnimplementedRateLimitServiceServer
	client *redis.Client
}

func (s *pipelineService) ShouldRateLimit(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	const unit, limit = 3600, 1_000_000_000
	now := time.Now().Unix()
	window := now / unit * unit
	pipe := s.client.Pipeline()
	counts := make([]*redis.IntCmd, len(r.Descriptors))
	for i, d := range r.Descriptors {
		key := r.Domain
		for _, e := range d.Entries {
			key += "_" + e.Key + "_" + e.Value
		}
		key = fmt.Sprintf("%s_%d", key, window)
		counts[i] = pipe.IncrBy(ctx, key, int64(max(1, r.HitsAddend)))
		pipe.Expire(ctx, key, unit*time.Second)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	a := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}
	for _, count := range counts {
		st := &rlsv3.RateLimitResponse_DescriptorStatus{
			Code:               rlsv3.RateLimitResponse_OK,
			CurrentLimit:       &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: limit, Unit: rlsv3.RateLimitResponse_RateLimit_HOUR},
			LimitRemaining:     uint32(max(0, limit-count.Val())),
			DurationUntilReset: &durationpb.Duration{Seconds: window + unit - now},
		}
		if count.Val() > limit {
			st.Code, a.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT, rlsv3.RateLimitResponse_OVER_LIMIT
		}
		a.Statuses = append(a.Statuses, st)
	}
	return a, nil
}

// startEnvoyproxy builds and starts envoyproxy/ratelimit. Its modules are in rivals.mod, since they need other versions of ours.
func startEnvoyproxy(redisURL string) (p *process, err error) {
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, err
	}
	dir, _, err := writeConfig(envoyConfig)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	build := exec.Command("go", "build", "-modfile=rivals.mod", "-o", dir+"/server", "github.com/envoyproxy/ratelimit/src/service_cmd")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("envoyproxy/ratelimit does not build here (run this in the folder benchmarks): %w\n%s", err, out)
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(dir + "/server")
	cmd.Env = append(os.Environ(), "USE_STATSD=false", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+opts.Addr,
		"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"HOST=127.0.0.1", "PORT="+ports[0], "GRPC_HOST=127.0.0.1", "GRPC_PORT="+ports[1], "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+ports[2])
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	p = &process{cmd: cmd, stdin: stdin, address: "127.0.0.1:" + ports[1], after: []func(){func() { os.RemoveAll(dir) }}}
	for deadline := time.Now().Add(30 * time.Second); err == nil; {
		conn, failed := net.Dial("tcp", p.address)
		if failed == nil {
			conn.Close()
			return p, nil
		}
		if time.Now().After(deadline) {
			err = errors.New("envoyproxy/ratelimit does not listen")
		}
		<-time.After(20 * time.Millisecond)
	}
	if p.cmd.Process != nil {
		p.end()
	}
	return nil, err
}

// freePorts are ports of the loopback address that nobody has.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}
