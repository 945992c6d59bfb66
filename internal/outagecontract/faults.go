package outagecontract

import (
	"net"
	"sync"
	"testing"
	"time"
)

// line is a connection to a server that can be disturbed. It is for one server and any number of connections.
type line struct {
	Addr string

	server string
	mu     sync.Mutex
	moved  *sync.Cond // the fault is another one, or the test has ended
	fault  fault
	ended  bool
	conns  map[net.Conn]bool
	most   int // of them at a time
	work   sync.WaitGroup
}

type fault int

const (
	none   fault = iota
	hangs        // nothing gets through, in either direction, until it is over
	dead         // connections are refused, those that are open are reset
	resets       // what the server answers resets the connection
	slow         // what the server answers is a second late
)

func newLine(t testing.TB, server string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &line{Addr: l.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	p.moved = sync.NewCond(&p.mu)
	p.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.ended = true
		for c := range p.conns {
			c.Close()
		}
		p.moved.Broadcast()
		p.mu.Unlock()
		p.work.Wait()
	})
	return p
}

// set makes f the fault from now on.
func (p *line) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f == dead {
		for c := range p.conns {
			reset(c)
		}
	}
	p.moved.Broadcast()
}

// mostConns is how many connections there were at a time.
func (p *line) mostConns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

func (p *line) serve(client net.Conn) {
	p.mu.Lock()
	if p.ended || p.fault == dead {
		p.mu.Unlock()
		reset(client)
		return
	}
	p.conns[client] = true
	p.most = max(p.most, len(p.conns)/2+1)
	p.mu.Unlock()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		p.drop(client)
		return
	}
	p.mu.Lock()
	p.conns[server] = true
	if p.ended {
		server.Close()
	}
	p.mu.Unlock()
	p.work.Go(func() {
		p.copy(server, client, false)
		p.drop(server)
		p.drop(client)
	})
	p.copy(client, server, true)
	p.drop(server)
	p.drop(client)
}

func (p *line) drop(c net.Conn) {
	c.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

func (p *line) copy(to, from net.Conn, answers bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.pass(to, from, answers) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until something may pass, or answers that it never may.
func (p *line) pass(to, from net.Conn, answers bool) bool {
	p.mu.Lock()
	for p.fault == hangs && !p.ended {
		p.moved.Wait()
	}
	f := p.fault
	p.mu.Unlock()
	switch {
	case f == dead || f == resets && answers:
		reset(to)
		return false
	case f == slow && answers:
		// Not a sleep that the test waits for: the fault itself.
		timer := time.NewTimer(time.Second)
		<-timer.C
	}
	return true
}
