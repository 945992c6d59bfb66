// Package rpctest is what tests of gRPC services share.
package rpctest

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// Main runs the tests, and ends the program; with an error if goroutines outlive them.
func Main(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left over:\n\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked is the stacks of goroutines that are neither this one nor the runtime's, after a while in which they may end.
func leaked() string {
	deadline := time.Now().Add(10 * time.Second)
	for {
		buf := make([]byte, 1<<20)
		var left []string
		for i, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && !strings.Contains(stack, "os/signal.") && !strings.Contains(stack, "created by testing.") &&
				!strings.Contains(stack, "internal/fuzz.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}

// Serve serves what register adds, in memory, and connects to it. Both end with the test; then it calls each of closers.
func Serve(t testing.TB, register func(*grpc.Server), closers ...func() error) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer()
	register(server)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		for _, c := range closers {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return conn
}
