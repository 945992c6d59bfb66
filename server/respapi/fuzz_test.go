package respapi

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

// seeds are the beginnings of the fuzzers.
func seeds(f *testing.F) {
	for _, text := range []string{
		sent("PING"), sent("CL.THROTTLE", "k", "15", "30", "60", "1"), sent("CL.THROTTLE", "k", "chat"), sent("HELLO", "3", "SETNAME", "x"),
		sent("HELLO", "2") + sent("COMMAND") + sent("QUIT"), "*0\r\n", "\r\n", "\r", "*1\r\n$0\r\n\r\n", "*1\r\n$4\r\nPIN", "PING\r\n", "*65\r\n", "*1\r\n$99999\r\n",
		sent("CL.THROTTLE", "k", "9007199254740990", "1", "315576000", "9007199254740991"), "*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n", "*00000000001\r\n",
	} {
		f.Add([]byte(text))
	}
}

// FuzzParse: what is read is what was sent, whatever follows it and wherever it is cut.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		args, n, err := parse(b, nil)
		switch {
		case n < 0 || n > len(b) || n > maxCommand || len(args) > maxArgs:
			t.Fatalf("%d bytes, %d arguments", n, len(args))
		case err != nil || n == 0:
			if len(args) > 0 || n > 0 || err == nil && len(b) > maxCommand+maxHeader {
				t.Fatalf("%d bytes, %d arguments, %v", n, len(args), err)
			}
			return
		}
		texts := make([]string, len(args))
		for i, arg := range args {
			texts[i] = string(arg)
		}
		canonical := []byte(sent(texts...))
		again, m, err := parse(canonical, nil)
		if err != nil || m != len(canonical) || len(again) != len(args) {
			t.Fatalf("%q is read as %q", canonical, again)
		}
		for i := range again {
			if !bytes.Equal(again[i], args[i]) {
				t.Fatalf("%q is read as %q", canonical, again)
			}
		}
		for cut := range min(n, 200) {
			if _, m, err := parse(b[:cut], nil); m != 0 || err != nil {
				t.Fatalf("cut at %d of %d: %d, %v", cut, n, m, err)
			}
		}
	})
}

// sink is a connection to nowhere.
type sink struct {
	net.Conn
	bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error)      { return s.Buffer.Write(b) }
func (s *sink) Read(b []byte) (int, error)       { return s.Buffer.Read(b) }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// FuzzCommands: every command has one reply, and each reply can be read.
func FuzzCommands(f *testing.F) {
	seeds(f)
	store := memstore.New(nil)
	l := ration.New(store, nil)
	f.Cleanup(func() { l.Close() })
	s, err := New(l, store, &Options{Limits: limits, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out := new(sink)
		c := &conn{service: s, net: out, id: 1, replies: replies{proto: 2}}
		steps, _, _, err := c.readAll(b)
		n, last := c.handle(context.Background(), b)
		if n > len(b) || err != nil && !last {
			t.Fatalf("%d of %d, %v", n, len(b), err)
		}
		if err := c.flush(); err != nil {
			t.Fatal(err)
		}
		want := len(steps)
		if err != nil {
			want++
		}
		r := bufio.NewReader(&out.Buffer)
		for i := range want {
			if reply, err := readReply(r); err != nil {
				t.Fatalf("reply %d of %d: %q, %v", i, want, reply, err)
			}
		}
		if r.Buffered() > 0 || out.Len() > 0 {
			t.Fatalf("more than %d replies", want)
		}
	})
}
