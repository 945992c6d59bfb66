package grpclimit_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/grpclimit"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

// A server answers two calls of an address, and tells the third when to come back.
func Example() {
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()

	perAddress := ration.Rule{Name: "per-address", Limit: ration.TokenBucket{Burst: 2, Refill: ration.PerMinute(1)}}
	guard, err := grpclimit.NewGuard(limiter, []grpclimit.Policy{
		{Limit: perAddress, Key: grpclimit.HTTP(httplimit.ByIP(nil))},
	}, nil)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Unary()), grpc.ChainStreamInterceptor(guard.Stream()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	for range 3 {
		_, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(status.Code(err), status.Code(err) == codes.ResourceExhausted)
	}
	// Output:
	// OK false
	// OK false
	// ResourceExhausted true
}
