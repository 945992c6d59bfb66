package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"sync/atomic"
)

const (
	blockSize = 256 << 10 // the longest line, too
	blocks    = 3
)

// block is whole lines; or, if cut, the beginning of a line that is too long, whose rest is left out.
type block struct {
	data []byte
	cut  bool
}

// lines reads an input ahead, in a goroutine of its own, so that unpacking and deciding use two processors.
type lines struct {
	full chan block
	free chan []byte
	stop chan struct{}
	err  error        // why full was closed, if not at the end
	read atomic.Int64 // of the input, packed as it is
}

func newLines(in io.ReadCloser) *lines {
	l := &lines{full: make(chan block, blocks), free: make(chan []byte, blocks), stop: make(chan struct{})}
	for range blocks {
		l.free <- make([]byte, 0, blockSize)
	}
	go l.run(in)
	return l
}

// next answers the next block, and takes the last one back. It answers false at the end, or when ctx is done.
func (l *lines) next(ctx context.Context, last []byte) (block, bool) {
	if cap(last) > 0 {
		l.free <- last[:0]
	}
	select {
	case b, ok := <-l.full:
		return b, ok
	case <-ctx.Done():
		return block{}, false
	}
}

// close ends the reading, at the latest when a Read that is under way ends.
func (l *lines) close() { close(l.stop) }

func (l *lines) run(in io.ReadCloser) {
	defer close(l.full)
	defer in.Close()
	r, err := unpacked(&counted{in, &l.read})
	if err != nil {
		l.err = err
		return
	}
	var rest []byte // of the last block: the line that it ends in
	skipping := false
	for err == nil {
		var b []byte
		select {
		case b = <-l.free:
		case <-l.stop:
			return
		}
		b = append(b, rest...)
		from := len(b)
		var n int
		n, err = io.ReadFull(r, b[from:cap(b)])
		b = b[:from+n]
		if skipping {
			if i := bytes.IndexByte(b, '\n'); i >= 0 {
				b, skipping = b[:copy(b, b[i+1:])], false
			} else {
				b = b[:0]
			}
		}
		out := block{data: b}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 && err == nil {
			out.data, rest = b[:i+1], b[i+1:]
		} else if rest = nil; err == nil && len(b) == cap(b) {
			out.cut, skipping = true, true
		} else if err == nil {
			// What was skipped has left room: the line goes on.
			rest = b
			out.data = b[:0]
		}
		select {
		case l.full <- out:
		case <-l.stop:
			return
		}
	}
	if err != io.EOF && err != io.ErrUnexpectedEOF || l.truncated(r) {
		l.err = err
	}
}

// truncated reports whether what was read ends before it should: ReadFull says ErrUnexpectedEOF of a last block that is
// not full, and a packed file that was cut off says it too.
func (l *lines) truncated(r io.Reader) bool {
	_, err := r.Read(make([]byte, 1))
	return err != nil && err != io.EOF
}

// unpacked is r, unpacked if it is packed by gzip, which its first bytes say.
func unpacked(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}

type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}
