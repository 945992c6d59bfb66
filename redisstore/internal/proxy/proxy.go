// Package proxy stands between a client and a Redis server in tests, counts the script calls that pass, and can lose replies.
package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is one that listens.
type Proxy struct {
	Addr     string
	Calls    atomic.Int64 // script calls that have passed
	Commands atomic.Int64 // commands that have passed, but for those about the connection itself
	Lose     atomic.Int64 // so many replies to script calls are lost, with their connection
	Lost     atomic.Int64 // how many were

	ln     net.Listener
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

// New listens in front of server until the test ends.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: ln.Addr().String(), ln: ln, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil || !p.keep(in, out) {
				in.Close()
				continue
			}
			p.wg.Go(func() { p.serve(in, out) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		p.closed = true
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			c.Close()
		}
		p.conns[c] = true
	}
	return !p.closed
}

func (p *Proxy) serve(in, out net.Conn) {
	var losing atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			n, err := out.Read(buf)
			if n > 0 && losing.Load() {
				break // what the server has answered is lost
			}
			if n > 0 {
				if _, err := in.Write(buf[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		in.Close()
		out.Close()
	}()
	r := bufio.NewReader(in)
	for {
		cmd, name, err := readCommand(r)
		if err != nil {
			break
		}
		switch {
		case strings.HasPrefix(name, "EVAL"):
			p.Calls.Add(1)
			p.Commands.Add(1)
			if p.Lose.Add(-1) >= 0 {
				p.Lost.Add(1)
				losing.Store(true)
			}
		case name != "PING" && name != "HELLO" && name != "CLIENT":
			p.Commands.Add(1)
		}
		if _, err := out.Write(cmd); err != nil {
			break
		}
	}
	if !losing.Load() {
		out.Close()
	}
	<-done
	in.Close()
	out.Close()
	p.mu.Lock()
	delete(p.conns, in)
	delete(p.conns, out)
	p.mu.Unlock()
}

// readCommand reads one command, as it is on the wire, and answers its name, too.
func readCommand(r *bufio.Reader) (raw []byte, name string, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, "", err
	}
	raw = append(raw, line...)
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil || line[0] != '*' {
		return nil, "", fmt.Errorf("no command: %q", line)
	}
	for i := range n {
		if line, err = r.ReadBytes('\n'); err != nil {
			return nil, "", err
		}
		size, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if err != nil {
			return nil, "", err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, "", err
		}
		raw = append(append(raw, line...), arg...)
		if i == 0 {
			name = strings.ToUpper(string(arg[:size]))
		}
	}
	return raw, name, nil
}
