//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// load calls a method of gRPC from many callers over one connection, as a proxy in C++ does: for far less than a client of
// grpc-go takes, which on one machine would be most of what is measured. It is what wrk is for HTTP, and no more than that: no
// flow control (few small calls are under way), no deadlines, and an error ends it.
type load struct {
	conn   net.Conn
	header []byte // block of each request but the first: all of it is in the server's table
	first  []byte // block of the first

	mu      sync.Mutex
	out     []byte // frames to be sent
	wake    chan struct{}
	nextID  uint32
	callers map[uint32]*caller
	err     error

	sending, receiving sync.WaitGroup
}

// caller has one call at a time.
type caller struct {
	answer []byte // message, with its prefix
	err    error
	done   chan struct{} // gets one value
}

func newCaller() *caller { return &caller{done: make(chan struct{}, 1)} }

// prefix is how many bytes stand before a message: whether it is compressed, and its length.
const prefix = 5

const endStream, endHeaders, ack = 0x1, 0x4, 0x1

func dialLoad(address, method string) (*load, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &load{conn: conn, wake: make(chan struct{}, 1), nextID: 1, callers: map[uint32]*caller{}}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, to := range []*[]byte{&l.first, &l.header} {
		block.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", address},
			{"content-type", "application/grpc"}, {"te", "trailers"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				return nil, err
			}
		}
		*to = bytes.Clone(block.Bytes())
	}
	// Windows so wide that none is ever used up.
	l.out = append(l.out, http2.ClientPreface...)
	l.out = frame(l.out, http2.FrameSettings, 0, 0, binary.BigEndian.AppendUint32([]byte{0, byte(http2.SettingInitialWindowSize)}, 1<<30))
	l.out = frame(l.out, http2.FrameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, 1<<31-1-65535))
	l.sending.Go(l.send)
	l.receiving.Go(func() { l.fail(l.receive()) })
	l.wake <- struct{}{}
	return l, nil
}

// frame appends one to b.
func frame(b []byte, kind http2.FrameType, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(kind), flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

// call sends a message, which begins with its prefix of five bytes. The answer is valid until the caller's next call.
func (l *load) call(c *caller, message []byte) ([]byte, error) {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return nil, l.err
	}
	header := l.header
	if l.nextID == 1 {
		header = l.first
	}
	c.answer, c.err = c.answer[:0], nil
	l.callers[l.nextID] = c
	l.out = frame(l.out, http2.FrameHeaders, endHeaders, l.nextID, header)
	l.out = frame(l.out, http2.FrameData, endStream, l.nextID, message)
	l.nextID += 2
	l.mu.Unlock()
	l.toSend()
	<-c.done
	if c.err != nil {
		return nil, c.err
	}
	return c.answer[prefix:], nil
}

func (l *load) toSend() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

func (l *load) send() {
	var buf []byte
	for range l.wake {
		runtime.Gosched() // who is ready to run may have something to send as well
		l.mu.Lock()
		buf, l.out = l.out, buf[:0]
		l.mu.Unlock()
		if len(buf) == 0 {
			continue
		}
		if _, err := l.conn.Write(buf); err != nil {
			l.fail(err)
			return
		}
	}
}

func (l *load) receive() error {
	r := bufio.NewReaderSize(l.conn, 64<<10)
	status := ""
	decoder := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			status = f.Value
		}
	})
	var head [9]byte
	var payload []byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		kind, flags, stream := http2.FrameType(head[3]), head[4], binary.BigEndian.Uint32(head[5:])
		if cap(payload) < n {
			payload = make([]byte, n)
		}
		payload = payload[:n]
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		switch kind {
		case http2.FrameData:
			l.mu.Lock()
			c := l.callers[stream]
			l.mu.Unlock()
			if c == nil {
				return fmt.Errorf("an answer to nobody, on stream %d", stream)
			}
			c.answer = append(c.answer, payload...)
		case http2.FrameHeaders:
			if flags&endHeaders == 0 {
				return errors.New("headers in several frames")
			}
			status = ""
			if _, err := decoder.Write(payload); err != nil {
				return err
			}
			if flags&endStream == 0 {
				continue
			}
			l.mu.Lock()
			c := l.callers[stream]
			delete(l.callers, stream)
			l.mu.Unlock()
			switch {
			case c == nil:
				return fmt.Errorf("an end for nobody, of stream %d", stream)
			case status != "0":
				c.err = fmt.Errorf("grpc-status %q", status)
			case len(c.answer) < prefix:
				c.err = errors.New("no answer")
			}
			c.done <- struct{}{}
		case http2.FrameSettings, http2.FramePing:
			if flags&ack == 0 {
				if kind == http2.FrameSettings {
					payload = payload[:0]
				}
				l.mu.Lock()
				l.out = frame(l.out, kind, ack, 0, payload)
				l.mu.Unlock()
				l.toSend()
			}
		case http2.FrameGoAway, http2.FrameRSTStream:
			return fmt.Errorf("the server sent %v", kind)
		}
	}
}

// fail ends the calls that wait.
func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	for id, c := range l.callers {
		delete(l.callers, id)
		c.err = err
		c.done <- struct{}{}
	}
}

func (l *load) close() {
	l.fail(net.ErrClosed)
	l.conn.Close()
	l.receiving.Wait() // it wakes the other
	close(l.wake)
	l.sending.Wait()
}
