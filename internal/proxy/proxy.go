// Package proxy stands between a client and a server in tests, whatever the two speak, as long as the client asks and the
// server answers: it counts the round trips, and can lose answers. It is for tests only.
package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is one that listens. A round trip begins when a client sends something on a connection on which it had been answered
// last, or had sent nothing yet.
type Proxy struct {
	Addr  string
	Trips atomic.Int64 // round trips begun
	Lost  atomic.Int64 // answers that were lost

	server string
	lose   atomic.Int64
	ln     net.Listener
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// New listens in front of server, a "host:port", until the test ends.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: ln.Addr().String(), server: server, ln: ln, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Lose loses the answers of the next n round trips: the server gets what was sent, and when it answers the connection is
// cut.
func (p *Proxy) Lose(n int) { p.lose.Store(int64(n)) }

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		if p.keep(client) && p.keep(server) {
			p.wg.Go(func() { p.serve(client, server) })
		}
	}
}

func (p *Proxy) close() {
	p.ln.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// keep notes a connection that has to be closed at the end; false if that was.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
	}
	p.conns[c] = true
	return !p.closed
}

func (p *Proxy) serve(client, server net.Conn) {
	var answered, losing atomic.Bool
	answered.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass(client, server, func() bool {
			answered.Store(true)
			if losing.Load() {
				p.Lost.Add(1)
			}
			return !losing.Load()
		})
		client.Close()
	}()
	pass(server, client, func() bool {
		if answered.Swap(false) {
			p.Trips.Add(1)
			if p.lose.Add(-1) >= 0 {
				losing.Store(true)
			}
		}
		return true
	})
	if !losing.Load() { // else the server is to answer first
		server.Close()
	}
	<-done
	server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// pass copies until either end is closed, or seen answers false.
func pass(to, from net.Conn, seen func() bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !seen() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
