package proxy_test

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration/internal/proxy"
)

// echo is a server that answers each line with the same line.
func echo(t *testing.T) (addr string, heard chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard = make(chan string, 10)
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					heard <- line
					if _, err := c.Write([]byte(line)); err != nil {
						return
					}
				}
			})
		}
	})
	return ln.Addr().String(), heard
}

func TestProxy(t *testing.T) {
	t.Parallel()
	addr, heard := echo(t)
	p := proxy.New(t, addr)
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	ask := func(c net.Conn, r *bufio.Reader) error {
		if _, err := c.Write([]byte("hello\n")); err != nil {
			return err
		}
		_, err := r.ReadString('\n')
		return err
	}
	c, r := dial()
	for range 3 {
		if err := ask(c, r); err != nil {
			t.Fatal(err)
		}
		<-heard
	}
	if n := p.Trips.Load(); n != 3 || p.Lost.Load() != 0 {
		t.Errorf("%d round trips, not 3; %d lost", n, p.Lost.Load())
	}
	p.Lose(1)
	if err := ask(c, r); err == nil {
		t.Error("the answer was not lost")
	}
	if line := <-heard; line != "hello\n" || p.Lost.Load() != 1 {
		t.Errorf("the server heard %q; %d lost", line, p.Lost.Load())
	}
	if c, r = dial(); ask(c, r) != nil || p.Trips.Load() != 5 || p.Lost.Load() != 1 {
		t.Errorf("%d round trips, not 5; %d lost", p.Trips.Load(), p.Lost.Load())
	}
	<-heard
}
