//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ration-go/ration/internal/engines"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

const grpcCallers = 64

// rpcs compares decisions over gRPC with the least that a gRPC server can do, many decisions in a call with one, and Envoy's
// rate limit service on Redis with others that ask Redis by themselves for each request. Each server is a process of its own;
// its 64 callers are in this one, and share a connection. Those of the rate limit service call as Envoy does, for little (load).
func rpcs() []group {
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%d", i)
	}
	return []group{
		{name: "grpc, one decision a call in memory, 64 callers", workers: grpcCallers, timed: true, chart: true, candidates: []candidate{
			{name: "grpc-go, a server that decides nothing", role: bound, open: takes(keys, serveEcho)},
			{name: "ration serve", role: ours, open: takes(keys, serveMemory)},
		}},
		{name: "grpc, 100 decisions a call in memory, 64 callers", workers: grpcCallers, candidates: []candidate{
			{name: "ration serve, a decision a call", role: variant, open: takes(keys, serveMemory)},
			{name: "ration serve, TakeBatch", role: ours, open: batches(keys)},
		}},
		{name: "grpc, Envoy's rate limit service on Redis, 100 k keys, 64 callers", workers: grpcCallers, timed: true, chart: true, candidates: envoys(keys)},
		{name: "grpc, Envoy's rate limit service on Redis, one hot key, 64 callers", workers: grpcCallers, timed: true, candidates: envoys(keys[:1])},
	}
}

func envoys(keys []string) []candidate {
	return []candidate{
		{name: "INCRBY and EXPIRE in a pipeline a request, by go-redis", open: asks(keys, servePipelines)},
		{name: "envoyproxy/ratelimit", open: asks(keys, serveEnvoyproxy)},
		{name: "ration serve, with leases of 100", role: variant, open: asks(keys, serveLeases)},
		{name: "ration serve", role: ours, open: asks(keys, serveEnvoy)},
	}
}

// at is a key for i.
func at(keys []string, i uint64) string { return keys[scatter(i)%uint64(len(keys))] }

// limitText is a limit that never refuses in the time of a run.
const limitText = "fixed 1000000000/1h"

func takeRequest(keys []string, i uint64) *rationv1.TakeRequest {
	return &rationv1.TakeRequest{Key: &rationv1.Key{Parts: []string{at(keys, i)}}, Limit: limitText}
}

var errRefused = errors.New("it was refused, which no limit here does")

// calling connects to the server of a process.
func calling(start func() (*process, error), work func(*grpc.ClientConn) func(int, uint64) error) opener {
	return func() (func(int, uint64) error, func(), error) {
		p, err := start()
		if err != nil {
			return nil, nil, err
		}
		conn, err := grpc.NewClient(p.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			p.end()
			return nil, nil, err
		}
		return work(conn), func() { conn.Close(); p.end() }, nil
	}
}

// takes has each decision made by a call.
func takes(keys []string, kind string) opener {
	return calling(func() (*process, error) { return startServer(kind) }, func(conn *grpc.ClientConn) func(int, uint64) error {
		client := rationv1.NewRationServiceClient(conn)
		return func(_ int, i uint64) error {
			a, err := client.Take(context.Background(), takeRequest(keys, i))
			if err == nil && !a.Decision.Allowed {
				err = errRefused
			}
			return err
		}
	})
}

// batches has a hundred decisions made by one call, so each call stands for a hundred.
func batches(keys []string) opener {
	return calling(func() (*process, error) { return startServer(serveMemory) }, func(conn *grpc.ClientConn) func(int, uint64) error {
		client := rationv1.NewRationServiceClient(conn)
		const many = 100
		asked := make([]int, grpcCallers)
		return func(worker int, i uint64) error {
			if asked[worker]++; asked[worker]%many != 1 {
				return nil
			}
			r := &rationv1.TakeBatchRequest{Takes: make([]*rationv1.TakeRequest, many)}
			for j := range r.Takes {
				r.Takes[j] = takeRequest(keys, i+uint64(j))
			}
			a, err := client.TakeBatch(context.Background(), r)
			if err != nil {
				return err
			}
			for _, one := range a.Results {
				if !one.GetDecision().GetAllowed() {
					return errRefused
				}
			}
			return nil
		}
	})
}

// asks has each decision made as Envoy would.
func asks(keys []string, kind string) opener {
	start := func() (*process, error) {
		rd, err := engines.StartRedis(nil)
		if err != nil {
			return nil, err
		}
		p, err := startServer(kind, rd.URL)
		if err != nil {
			return nil, errors.Join(err, rd.Close())
		}
		p.after = append(p.after, func() { rd.Close() })
		return p, nil
	}
	return func() (func(int, uint64) error, func(), error) {
		requests := make([][]byte, len(keys))
		for i, key := range keys {
			message, err := proto.Marshal(&rlsv3.RateLimitRequest{Domain: "bench", Descriptors: []*commonv3.RateLimitDescriptor{
				{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: key}}},
			}})
			if err != nil {
				return nil, nil, err
			}
			requests[i] = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		}
		p, err := start()
		if err != nil {
			return nil, nil, err
		}
		l, err := dialLoad(p.address, rlsv3.RateLimitService_ShouldRateLimit_FullMethodName)
		if err != nil {
			p.end()
			return nil, nil, err
		}
		callers := make([]*caller, grpcCallers)
		for i := range callers {
			callers[i] = newCaller()
		}
		return func(worker int, i uint64) error {
			answer, err := l.call(callers[worker], requests[scatter(i)%uint64(len(requests))])
			if err != nil || bytes.HasPrefix(answer, passes) {
				return err
			}
			a := new(rlsv3.RateLimitResponse)
			if err := proto.Unmarshal(answer, a); err != nil {
				return err
			}
			if a.OverallCode != rlsv3.RateLimitResponse_OK {
				return errRefused
			}
			return nil
		}, func() { l.close(); p.end() }, nil
	}
}

// passes is how an answer begins that lets a request pass, if its fields are in their order.
var passes = []byte{1 << 3, byte(rlsv3.RateLimitResponse_OK)}

// envoyConfig is a configuration for both who read such.
const envoyConfig = "domain: bench\ndescriptors:\n- key: user\n  rate_limit:\n    unit: hour\n    requests_per_unit: 1000000000\n"

// leases is what ration also understands in it.
const leases = "    lease: 100\n"

// writeConfig writes text into a new folder, below which both find it.
func writeConfig(text string) (dir, file string, err error) {
	if dir, err = os.MkdirTemp("", "ration"); err != nil {
		return "", "", err
	}
	file = dir + "/ratelimit/config/bench.yaml"
	if err = os.MkdirAll(dir+"/ratelimit/config", 0o700); err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	return dir, file, err
}
