package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/envoyrls"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

const envoyConfig = `
domain: edge
descriptors:
- key: remote_address
  rate_limit: {unit: hour, requests_per_unit: 2}
`

var grpcAddress = regexp.MustCompile(`gRPC on (\S+);`)

// serveGRPC runs a server with Envoy's rate limit service, and connects to it.
func serveGRPC(t *testing.T, args ...string) (*process, *grpc.ClientConn) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "edge.yaml"), envoyConfig)
	p := serve(t, dir, append([]string{"--store", "memory:", "--grpc-listen", "127.0.0.1:0", "--envoy-configs", "edge.yaml"}, args...)...)
	address := grpcAddress.FindStringSubmatch(p.wait(p.stdout, "1 domain of Envoy's"))
	conn, err := grpc.NewClient(address[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return p, conn
}

func TestServeGRPC(t *testing.T) {
	t.Parallel()
	p, conn := serveGRPC(t)
	ctx := t.Context()

	take, err := rationv1.NewRationServiceClient(conn).Take(ctx, &rationv1.TakeRequest{Key: &rationv1.Key{Parts: []string{"alice"}}, Limit: "fixed 2/1h"})
	if err != nil || take.Decision.Remaining != 1 {
		t.Errorf("%v, %v", take, err)
	}
	// It is the count that HTTP sees.
	if _, answer := post(t, p.url+"/v1/take", `{"key": "alice", "limit": "fixed 2/1h"}`); fmt.Sprint(answer["remaining"]) != "0" {
		t.Errorf("%v", answer)
	}
	envoy := rlsv3.NewRateLimitServiceClient(conn)
	for i := range 3 {
		a, err := envoy.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}}},
		}})
		if want := map[bool]rlsv3.RateLimitResponse_Code{true: rlsv3.RateLimitResponse_OK, false: rlsv3.RateLimitResponse_OVER_LIMIT}[i < 2]; err != nil || a.OverallCode != want {
			t.Errorf("%d: %v, %v", i, a, err)
		}
	}
	for _, name := range []string{"", "ration.v1.RationService", "envoy.service.ratelimit.v3.RateLimitService"} {
		a, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || a.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, a, err)
		}
	}
	p.signal(syscall.SIGTERM)
	if code, by := p.end(); code != server.ExitOK || by != 0 {
		t.Errorf("ended with %d, by signal %v\n%s", code, by, p.stderr)
	}
}

// TestGRPCByReflection calls as grpcurl does: knowing only an address, a name and some JSON.
func TestGRPCByReflection(t *testing.T) {
	t.Parallel()
	_, conn := serveGRPC(t)
	ctx := t.Context()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		return must[*grpc_reflection_v1.ServerReflectionResponse](t)(stream.Recv())
	}
	var names []string
	for _, s := range ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().Service {
		names = append(names, s.Name)
	}
	for _, name := range []string{"ration.v1.RationService", "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
	const service = "ration.v1.RationService"
	files := &descriptorpb.FileDescriptorSet{}
	for _, data := range ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	}).GetFileDescriptorResponse().FileDescriptorProto {
		file := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(data, file); err != nil {
			t.Fatal(err)
		}
		files.File = append(files.File, file)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	found := must[protoreflect.Descriptor](t)(must[*protoregistry.Files](t)(protodesc.NewFiles(files)).FindDescriptorByName(service))
	method := found.(protoreflect.ServiceDescriptor).Methods().ByName("Take")
	request, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal([]byte(`{"key": {"parts": ["alice"]}, "limit": "bucket 10/1m burst 2"}`), request); err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(ctx, "/"+service+"/Take", request, answer); err != nil {
		t.Fatal(err)
	}
	if text := strings.ReplaceAll(protojson.Format(answer), " ", ""); !strings.Contains(text, `"remaining":"1"`) {
		t.Error(text)
	}
}

// TestGRPCStopsInGoodOrder: it does not wait for those who watch its health, nor for callers who keep their connection.
func TestGRPCStopsInGoodOrder(t *testing.T) {
	t.Parallel()
	p, conn := serveGRPC(t, "--shutdown-timeout", "1m")
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := watch.Recv(); err != nil || a.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", a, err)
	}
	p.signal(syscall.SIGTERM)
	if a, err := watch.Recv(); err != nil || a.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", a, err)
	}
	if code, by := p.end(); code != server.ExitOK || by != 0 {
		t.Errorf("ended with %d, by signal %v\n%s", code, by, p.stderr)
	}
}

// sent is a request as it is to be sent, whatever it is.
type sent struct{ encoding.CodecV2 }

func (sent) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// TestEnvoyHeadersThatAreNotUTF8: a byte in a header is no way around a limit.
func TestEnvoyHeadersThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	_, conn := serveGRPC(t)
	data := must[[]byte](t)(proto.Marshal(&rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
		{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "name"}}},
	}}))
	data = bytes.Replace(data, []byte("name"), []byte("na\xffe"), 1)
	for i, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT} {
		a := new(rlsv3.RateLimitResponse)
		err := conn.Invoke(t.Context(), rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, data, a, grpc.ForceCodecV2(sent{envoyrls.Codec()}))
		if err != nil || a.OverallCode != want {
			t.Errorf("%d: %v, %v", i, a, err)
		}
	}
}

func TestGRPCIsBounded(t *testing.T) {
	t.Parallel()
	_, conn := serveGRPC(t)
	long := &rationv1.TakeRequest{Key: &rationv1.Key{Parts: []string{strings.Repeat("x", 5<<20)}}, Limit: "fixed 2/1h"}
	if _, err := rationv1.NewRationServiceClient(conn).Take(t.Context(), long); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

// TestGRPCIsOff unless it was asked for.
func TestGRPCIsOff(t *testing.T) {
	t.Parallel()
	cfg := server.Defaults()
	cfg.Store = "memory:"
	s := must[*server.Server](t)(server.New(t.Context(), cfg, &server.Options{Stores: map[string]server.OpenFunc{"memory": server.OpenMemory}}))
	defer s.Close()
	if l, err := s.ListenGRPC(t.Context()); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	l := must[net.Listener](t)(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	if err := s.ServeGRPC(context.Background(), l); err == nil {
		t.Error("it serves")
	}
}

func TestEnvoyFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.yaml"), "domain: a\ndescriptors:\n- key: x\n  rate_limt: {}\n- value: y\n")
	for _, one := range []struct{ args, want string }{
		{"--envoy-configs bad.yaml --grpc-listen 127.0.0.1:0", "bad.yaml:4: descriptors[0].rate_limt: unknown key; known are key, value"},
		{"--envoy-configs bad.yaml --grpc-listen 127.0.0.1:0", "bad.yaml:5: descriptors[1].key: a descriptor needs a key"},
		{"--envoy-configs none.yaml --grpc-listen 127.0.0.1:0", "none.yaml: no such file"},
		{"--grpc-listen 7532", `--grpc-listen: "7532" is not HOST:PORT`},
		{"--envoy-merge=perhaps", `--envoy-merge: "perhaps" is not true or false`},
	} {
		for _, command := range []string{"serve", "config check"} {
			_, stderr, code := run(t, dir, nil, append(strings.Fields(command), strings.Fields(one.args)...)...)
			if code != server.ExitError || !strings.Contains(stderr, one.want) {
				t.Errorf("%s %s: %d\n%s", command, one.args, code, stderr)
			}
		}
	}
	write(t, filepath.Join(dir, "good.yaml"), envoyConfig)
	if _, stderr, code := run(t, dir, nil, "serve", "--store", "memory:", "--envoy-configs", "good.yaml"); code != server.ExitError || !strings.Contains(stderr, "set grpc.listen too") {
		t.Errorf("%d\n%s", code, stderr)
	}
}
