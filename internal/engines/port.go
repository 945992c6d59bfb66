//go:build linux

package engines

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

var ports = struct {
	mu    sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

// freePort answers a port of 127.0.0.1 that is free, and that no other call has answered. It lies below those that the
// kernel gives to outgoing connections, so that it is still free when a server comes back to it.
func freePort() (int, error) {
	const lowest = 10_000
	above, below := 32_768, 0
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		fmt.Sscan(string(text), &above, &below)
	}
	if above < lowest+1000 {
		above = 65_536
	}
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for range 1000 {
		port := lowest + rand.IntN(above-lowest)
		if ports.given[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		listener.Close()
		ports.given[port] = true
		return port, nil
	}
	return 0, errors.New("engines: no free port")
}
