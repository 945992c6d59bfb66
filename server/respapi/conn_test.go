package respapi

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration/memstore"
)

// TestCommands has what clients send to connect, in both protocols.
func TestCommands(t *testing.T) {
	t.Parallel()
	c := inMemory(t).dial(t)
	for i, step := range []struct{ command, want string }{
		{"PING", "PONG"},
		{"ping hello", "hello"},
		{"ECHO x", "x"},
		{"ECHO", "-ERR wrong number of arguments for ECHO"},
		{"HELLO", "[server ration version 7.2.0 mode standalone role master proto 2 id 1 modules []]"},
		{"CLIENT GETNAME", "nil"},
		{"HELLO 4", "-NOPROTO this server speaks protocols 2 and 3"},
		{"HELLO x", "-NOPROTO this server speaks protocols 2 and 3"},
		{"HELLO 3 SETNAME", "-ERR HELLO takes protocol [AUTH user token] [SETNAME name]"},
		{"HELLO 3 AUTH user secret SETNAME me", "-ERR this server has no passwords; connect without one"},
		{"COMMAND DOCS", "[]"}, // so the protocol is still 2
		{"HELLO 3 SETNAME me", "{server ration version 7.2.0 mode standalone role master proto 3 id 1 modules []}"},
		{"COMMAND DOCS", "{}"},
		{"CLIENT GETNAME", "me"},
		{"CLIENT SETNAME you", "OK"},
		{"CLIENT GETNAME", "you"},
		{"CLIENT ID", "1"},
		{"CLIENT SETINFO LIB-NAME x", "OK"},
		{"CLIENT TRACKING ON OPTIN", "OK"},
		{"CLIENT NO-EVICT ON", "OK"},
		{"CLIENT KILL x", "-ERR unknown subcommand of CLIENT, or wrong number of arguments"},
		{"CLIENT", "-ERR wrong number of arguments for CLIENT"},
		{"AUTH secret", "-ERR this server has no passwords; connect without one"},
		{"AUTH user secret", "-ERR this server has no passwords; connect without one"},
		{"SELECT 0", "OK"},
		{"SELECT 1", "-ERR there is database 0 only; applications are kept apart by the server's namespace"},
		{"COMMAND COUNT", "11"},
		{"COMMAND INFO cl.throttle PING get", "[[cl.throttle -3 [fast write] 1 1 1] [ping -1 [fast] 0 0 0] nil]"},
		{"COMMAND LIST", "-ERR unknown subcommand of COMMAND, or wrong number of arguments"},
		{"CLUSTER SLOTS", "-ERR this server has cluster support disabled: it is none"},
		{"GET secret", "-ERR unknown command 'GET'; this server is for CL.THROTTLE"},
		{"FLUSHALL", "-ERR unknown command 'FLUSHALL'; this server is for CL.THROTTLE"},
		{"s3cret!", "-ERR unknown command; this server is for CL.THROTTLE"},
		{"CL.THROTTLE k 9 1 60", "[0 10 9 -1 60]"},
		{"HELLO 2", "[server ration version 7.2.0 mode standalone role master proto 2 id 1 modules []]"},
		{"COMMAND INFO get", "[nil]"},
		{"QUIT", "OK"},
	} {
		if got := c.do(step.command); got != step.want {
			t.Errorf("%d: %s:\n%s, want\n%s", i, step.command, got, step.want)
		}
	}
	if !c.closed() {
		t.Error("QUIT left the connection open")
	}
	if got := inMemory(t).dial(t).do("COMMAND"); strings.Count(got, " [fast") != 11 {
		t.Error(got)
	}
	if got := inMemory(t).dial(t).do("INFO server"); !strings.Contains(got, "loading:0\r\n") {
		t.Error(got)
	}
}

// TestQuitEndsAPipeline: what comes after it is not decided.
func TestQuitEndsAPipeline(t *testing.T) {
	t.Parallel()
	e := inMemory(t)
	c := e.dial(t)
	take := sent("CL.THROTTLE", "k", "9", "1", "3600")
	c.send(take + sent("quit") + take + take)
	if a, b := c.reply(), c.reply(); a != "[0 10 9 -1 3600]" || b != "OK" || !c.closed() {
		t.Error(a, b)
	}
	if got := e.dial(t).do("CL.THROTTLE k 9 1 3600 0"); got != "[0 10 9 -1 3600]" {
		t.Error(got)
	}
}

// TestBytesThatAreNoCommand end the connection, after the commands before them.
func TestBytesThatAreNoCommand(t *testing.T) {
	t.Parallel()
	e := inMemory(t)
	for text, want := range map[string]error{
		"PING\r\n":                               errNoArray, // as telnet would send it
		"POST / HTTP/1.1\r\nHost: localhost\r\n": errNoArray, // and a browser
		"\n":                                     errNoArray,
		"\rPING\r\n":                             errNoArray,
		"\r\nPING\r\n":                           errNoArray,
		"+OK\r\n":                                errNoArray,
		"*\r\n":                                  errLength,
		"*1\n$4\nPING\n":                         errLength,
		"*-1\r\n":                                errLength,
		"*+1\r\n":                                errLength,
		"*1x\r\n":                                errLength,
		"*" + strings.Repeat("0", 20) + "1\r\n":  errLength,
		"*65\r\n":                                errTooMany,
		"*99999999999\r\n":                       errTooMany,
		"*1\r\n:4\r\n":                           errNoString,
		"*1\r\n*1\r\n$4\r\nPING\r\n":             errNoString,
		"*1\r\n$-1\r\n":                          errLength,
		"*1\r\n$\r\n":                            errLength,
		"*1\r\n$3\r\nPING\r\n":                   errEnd,
		"*1\r\n$16384\r\n":                       errTooLong,
		"*1\r\n$4294967295\r\n":                  errTooLong,
		"*2\r\n$4\r\nECHO\r\n$16361\r\n":         errTooLong,
		"*3\r\n$0\r\n\r\n$16300\r\n" + strings.Repeat("x", 16300) + "\r\n$99\r\n": errTooLong,
	} {
		c := e.dial(t)
		c.send(sent("CL.THROTTLE", "k", "0", "1", "1", "0") + text)
		if got := c.reply(); !strings.HasPrefix(got, "[") {
			t.Errorf("%.30q: %s", text, got)
		}
		if got := c.reply(); got != "-ERR "+want.Error() || !c.closed() {
			t.Errorf("%.30q: %s, want %v", text, got, want)
		}
	}
	c := e.dial(t)
	long := strings.Repeat("x", 16300)
	if got := c.do("ECHO " + long); got != long {
		t.Errorf("a long command: %d bytes", len(got))
	}
}

// TestCommandInPieces: however it is cut, it is the same command.
func TestCommandInPieces(t *testing.T) {
	t.Parallel()
	c := inMemory(t).dial(t)
	text := "*0\r\n\r\n" + sent("CL.THROTTLE", "k", "99", "1", "3600") + sent("ECHO", "a\r\nb")
	for i := 1; i < len(text); i++ {
		c.send(text[:i])
		c.send(text[i:])
		if got := c.reply(); !strings.HasPrefix(got, "[") {
			t.Errorf("cut at %d: %s", i, got)
		}
		if got := c.reply(); got != "a\r\nb" {
			t.Errorf("cut at %d: %s", i, got)
		}
	}
	for _, b := range []byte(text) {
		c.send(string(b))
	}
	if a, b := c.reply(), c.reply(); !strings.HasPrefix(a, "[") || b != "a\r\nb" {
		t.Error(a, b)
	}
}

// TestConnectionsEnd has the bounds in time.
func TestConnectionsEnd(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		do    func(c *client)
		after time.Duration
	}{
		"idle":    {func(c *client) { c.do("PING") }, idleTimeout},
		"partial": {func(c *client) { c.send("*1\r\n$4\r\nPI") }, readTimeout},
		"drip": {func(c *client) {
			// Each piece comes in time, the whole does not.
			for _, piece := range []string{"*", "1", "\r\n"} {
				c.send(piece)
				<-time.After(4 * time.Second)
			}
		}, readTimeout},
		"deaf": {func(c *client) { // it sends and does not read
			for {
				if _, err := c.Write([]byte(sent("PING"))); err != nil {
					return
				}
			}
		}, writeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				start(t, memstore.New(nil), l, nil, nil)
				c := l.dial(t)
				begin := time.Now()
				one.do(c)
				if !c.closed() {
					t.Error("it is open")
				}
				if took := time.Since(begin); took != one.after {
					t.Errorf("ended after %v, not %v", took, one.after)
				}
			})
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	e := start(t, memstore.New(nil), nil, nil, &Options{MaxConns: 2})
	a, b := e.dial(t), e.dial(t)
	for _, c := range []*client{a, b} {
		if got := c.do("PING"); got != "PONG" {
			t.Error(got)
		}
	}
	c := e.dial(t)
	if got := c.reply(); !strings.HasPrefix(got, "-ERR there are too many connections") || !c.closed() {
		t.Error(got)
	}
	a.do("QUIT")
	a.closed()
	for range 1000 { // the place is free a moment after the end
		c := e.dial(t)
		c.send(sent("PING"))
		if got, _ := readReply(c.r); got == "PONG" {
			return
		}
	}
	t.Error("no place became free")
}

// TestStop answers what has come, and waits for nobody who is silent.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		e := start(t, &remote{Store: memstore.New(nil), far: 3 * time.Second}, l, nil, nil)
		idle, half, busy := l.dial(t), l.dial(t), l.dial(t)
		idle.do("PING")
		half.send("*1\r\n$4\r\n")
		busy.send(sent("CL.THROTTLE", "k", "0", "1", "60"))
		synctest.Wait()
		begin := time.Now()
		e.stop()
		if !idle.closed() || !half.closed() || time.Since(begin) != 0 {
			t.Errorf("ended after %v", time.Since(begin))
		}
		if got := busy.reply(); got != "[0 1 0 -1 60]" || !busy.closed() {
			t.Error(got)
		}
		if err := <-e.ended; err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		e.ended <- nil // for the clean-up
	})
}

// TestStopCutsOff what takes too long, and says so.
func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		e := start(t, memstore.New(nil), l, nil, &Options{ShutdownTimeout: time.Second})
		deaf := l.dial(t)
		deaf.send(sent("PING"))
		synctest.Wait() // its answer is on the way
		e.stop()
		begin := time.Now()
		if err := <-e.ended; err == nil || !strings.Contains(err.Error(), "cut off") || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		e.ended <- nil
	})
}

// TestListenerFails ends the service with an error.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	l := newPipes()
	e := start(t, memstore.New(nil), l, nil, nil)
	l.Close()
	if err := <-e.ended; err == nil || !strings.Contains(err.Error(), net.ErrClosed.Error()) {
		t.Error(err)
	}
	e.ended <- nil
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "respapi: ") {
		t.Error(fmt.Sprint(err))
	}
}
