package respapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// TestThrottle has the five integers of redis-cell, over time.
func TestThrottle(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	at := func(seconds float64) { now.Store(1_767_225_600_000_000 + int64(seconds*1e6)) }
	e := start(t, memstore.New(nil), nil, &ration.Options{Clock: func() time.Time { return time.UnixMicro(now.Load()) }}, nil)
	c := e.dial(t)
	for i, step := range []struct {
		at            float64
		command, want string
	}{
		{0, "CL.THROTTLE k 4 1 2 6", "[1 5 5 -1 0]"}, // more than can ever pass: waiting does not help
		{0, "CL.THROTTLE k 4 1 2", "[0 5 4 -1 2]"},
		{0, "CL.THROTTLE k 4 1 2 1", "[0 5 3 -1 4]"},
		{0, "cl.throttle k 4 1 2 2", "[0 5 1 -1 8]"},
		{0, "CL.THROTTLE k 4 1 2 2", "[1 5 1 2 8]"}, // nothing of it is taken
		{0, "CL.THROTTLE k 4 1 2 0", "[0 5 1 -1 8]"},
		{0, "CL.THROTTLE k 4 1 2 1", "[0 5 0 -1 10]"},
		{0, "CL.THROTTLE k 4 1 2 1", "[1 5 0 2 10]"},
		{0, "CL.THROTTLE k 4 1 2 5", "[1 5 0 10 10]"},
		{0, "CL.THROTTLE k 4 1 2 0", "[0 5 0 -1 10]"},
		{0.1, "CL.THROTTLE k 4 1 2 1", "[1 5 0 2 10]"}, // seconds are rounded up
		{1.999999, "CL.THROTTLE k 4 1 2 1", "[1 5 0 1 9]"},
		{2, "CL.THROTTLE k 4 1 2 1", "[0 5 0 -1 10]"}, // and who waits for them is admitted
		{9.5, "CL.THROTTLE k 4 1 2 1", "[0 5 2 -1 5]"},
		{9.5, "CL.THROTTLE k 9 1 2 0", "[0 10 2 -1 5]"}, // a larger burst is not granted
		{20, "CL.THROTTLE k 0 1 2", "[0 1 0 -1 2]"},
		{20, "CL.THROTTLE k 0 1 2", "[1 1 0 2 2]"},
		{20, "CL.THROTTLE other 0 1 2", "[0 1 0 -1 2]"},
		{20, "CL.THROTTLE k chat", "[0 2 1 -1 3600]"}, // named, and another kind: another count
		{20, "CL.THROTTLE k chat 1", "[0 2 0 -1 3600]"},
		{21, "CL.THROTTLE k chat 1", "[1 2 0 3599 3599]"},
		{21, "CL.THROTTLE k chat 3", "[1 2 0 -1 3599]"},
		{21, "CL.THROTTLE k chat 0", "[0 2 0 -1 3599]"},
	} {
		at(step.at)
		if got := c.do(step.command); got != step.want {
			t.Errorf("%d: %s: %s, want %s", i, step.command, got, step.want)
		}
	}
	c.send(sent("CL.THROTTLE", "k", "budget 5/day Europe/Berlin", "2"))
	if got := c.reply(); !strings.HasPrefix(got, "[0 5 3 -1 ") {
		t.Error(got)
	}
	// It is the count of the other APIs.
	d, err := e.limiter.Peek(t.Context(), ration.KeyOf("other"), ration.TokenBucket{Burst: 1, Refill: ration.Per(1, 2*time.Second)}, 1)
	if err != nil || d.Used != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestThrottleArguments(t *testing.T) {
	t.Parallel()
	store := &remote{Store: memstore.New(nil)}
	asked := false
	store.fail = func([]*driver.Txn) error { asked = true; return nil }
	c := start(t, store, nil, nil, nil).dial(t)
	for _, one := range []struct{ command, want string }{
		{"CL.THROTTLE", "wrong number"},
		{"CL.THROTTLE k", "wrong number"},
		{"CL.THROTTLE k 1 1 1 1 1", "wrong number"},
		{"CL.THROTTLE k -1 1 1", "max_burst is not"},
		{"CL.THROTTLE k 9007199254740991 1 1", "max_burst is not"},
		{"CL.THROTTLE k x 1 1", "max_burst is not"},
		{"CL.THROTTLE k 1 0 1", "count is not"},
		{"CL.THROTTLE k 1 -1 1", "count is not"},
		{"CL.THROTTLE k 1 1.5 1", "count is not"},
		{"CL.THROTTLE k 1 1 0", "period is not"},
		{"CL.THROTTLE k 1 1 -5", "period is not"},
		{"CL.THROTTLE k 1 1 315576001", "period is not"},
		{"CL.THROTTLE k 1 1 99999999999999999999", "period is not"},
		{"CL.THROTTLE k 1 1 1 -1", "quantity is not"},
		{"CL.THROTTLE k 1 1 1 +1", "quantity is not"},
		{"CL.THROTTLE k 1 1 1 1e3", "quantity is not"},
		{"CL.THROTTLE k 1 1 1 9007199254740992", "quantity is not"},
		{"CL.THROTTLE k 9007199254740990 999983 86399", "limit"}, // no exact refill of so many
		{"CL.THROTTLE k chats", "no limit of this name"},
		{"CL.THROTTLE k chat -1", "quantity is not"},
		{"CL.THROTTLE k slots", "Concurrency"},
		{"CL.THROTTLE " + strings.Repeat("k", 1025) + " 1 1 1", "key"},
	} {
		got := c.do(one.command)
		if !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, one.want) || strings.Contains(got, "kkk") {
			t.Errorf("%.60s: %s", one.command, got)
		}
	}
	c.send(sent("CL.THROTTLE", "", "1", "1", "1") + sent("CL.THROTTLE", "k", "1", "1", "1", ""))
	for range 2 {
		if got := c.reply(); !strings.HasPrefix(got, "-ERR ") {
			t.Error(got)
		}
	}
	if asked {
		t.Error("the store was asked")
	}
	// Keys are any bytes.
	for _, key := range []string{"\x00", "a\r\nb", "{}", "\xff\xfe", strings.Repeat("x", 1024)} {
		c.send(sent("CL.THROTTLE", key, "0", "1", "60"))
		if got := c.reply(); got != "[0 1 0 -1 60]" {
			t.Errorf("%.10q: %s", key, got)
		}
	}
}

// TestPipeline: commands that come together are decided together, and answered in order.
func TestPipeline(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]driver.Store{"instant": memstore.New(nil), "remote": &remote{Store: memstore.New(nil)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, store, nil, nil, nil).dial(t)
			const n, burst = 300, 100
			var text strings.Builder
			for i := range n {
				text.WriteString(sent("CL.THROTTLE", "hot", fmt.Sprint(burst-1), "1", "3600"))
				text.WriteString(sent("ECHO", fmt.Sprint(i)))
				text.WriteString(sent("CL.THROTTLE", fmt.Sprint("key", i), "9", "1", "3600", fmt.Sprint(i%12)))
				if i%50 == 49 {
					text.WriteString(sent("CL.THROTTLE", "hot", "x", "1", "1") + "*0\r\n")
				}
			}
			go c.send(text.String())
			for i := range n {
				want := fmt.Sprintf("[0 %d %d -1 ", burst, burst-1-i)
				if i >= burst {
					want = fmt.Sprintf("[1 %d 0 ", burst)
				}
				if got := c.reply(); !strings.HasPrefix(got, want) {
					t.Fatalf("%d: %s, want %s", i, got, want)
				}
				if got := c.reply(); got != fmt.Sprint(i) {
					t.Fatalf("%d: %s", i, got)
				}
				cost := i % 12
				want = fmt.Sprintf("[0 10 %d -1 %d]", 10-cost, cost*3600)
				if cost > 10 {
					want = "[1 10 10 -1 0]"
				}
				if got := c.reply(); got != want {
					t.Fatalf("%d: %s, want %s", i, got, want)
				}
				if i%50 == 49 {
					if got := c.reply(); !strings.HasPrefix(got, "-ERR max_burst") {
						t.Fatalf("%d: %s", i, got)
					}
				}
			}
		})
	}
}

// TestPipelineSharesRoundTrips: what a connection sends at once is one or two round trips, on one key and on many.
func TestPipelineSharesRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, far = 40, 10 * time.Millisecond
		l := newPipes()
		start(t, &remote{Store: memstore.New(nil), far: far}, l, nil, nil)
		c := l.dial(t)
		for name, key := range map[string]func(int) string{
			"hot":  func(int) string { return "hot" },
			"many": func(i int) string { return fmt.Sprint("key", i) },
		} {
			var text strings.Builder
			for i := range n {
				text.WriteString(sent("CL.THROTTLE", key(i), "19", "1", "3600"))
			}
			begin := time.Now()
			c.send(text.String())
			for i := range n {
				want := "[0 20 19 "
				if name == "hot" && i < 20 {
					want = fmt.Sprintf("[0 20 %d ", 19-i)
				} else if name == "hot" {
					want = "[1 20 0 "
				}
				if got := c.reply(); !strings.HasPrefix(got, want) {
					t.Fatalf("%s, %d: %s, want %s", name, i, got, want)
				}
			}
			if took := time.Since(begin); took > 3*far {
				t.Errorf("%s: %v", name, took)
			}
		}
	})
}

// TestPipelineKeepsOrderOfAKey: different commands of one key are decided one after the other.
func TestPipelineKeepsOrderOfAKey(t *testing.T) {
	t.Parallel()
	c := start(t, &remote{Store: memstore.New(nil)}, nil, nil, nil).dial(t)
	for round := range 20 {
		key := fmt.Sprint("k", round)
		var text, want string
		left := 100
		for i := range 30 {
			cost := 1 + i*7%5
			text += sent("CL.THROTTLE", key, "99", "1", "36000", fmt.Sprint(cost))
			if cost <= left {
				left -= cost
				want += fmt.Sprintf("[0 100 %d ", left)
			} else {
				want += fmt.Sprintf("[1 100 %d ", left)
			}
		}
		c.send(text)
		got := ""
		for range 30 {
			reply := c.reply()
			got += strings.Join(strings.SplitAfterN(reply, " ", 4)[:3], "")
		}
		if got != want {
			t.Fatalf("%d:\n%s\n%s", round, got, want)
		}
	}
}

// TestStoreTrouble is an error of a kind of its own, and says if it may have been charged.
func TestStoreTrouble(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := &remote{Store: memstore.New(nil)}
	e := start(t, store, nil, &ration.Options{Outage: &ration.Outage{Failures: 1 << 20, Parts: 2}}, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := e.dial(t)
	for _, one := range []struct {
		err  error
		want string
	}{
		{errors.Join(errors.New("dial tcp 10.0.0.7:5432"), driver.ErrNotApplied), "-UNAVAILABLE the store could not decide; nothing was charged"},
		{errors.New("the line is dead"), "-UNAVAILABLE the store failed after it may have charged"},
		{context.DeadlineExceeded, "-UNAVAILABLE the store failed after it may have charged"},
		{driver.ErrFull, "-UNAVAILABLE "},
		{driver.ErrCorrupt, "-UNAVAILABLE "},
		{driver.ErrOverflow, "-ERR "},
		{errors.Join(ration.ErrUnsupported, driver.ErrNotApplied), "-ERR "},
	} {
		store.fail = func([]*driver.Txn) error { return one.err }
		if got := c.do("CL.THROTTLE xyzzy 1 1 60"); !strings.HasPrefix(got, one.want) || strings.Contains(got, "10.0.0.7") {
			t.Errorf("%v: %s", one.err, got)
		}
	}
	store.fail = func([]*driver.Txn) error { return errors.Join(errors.New("down"), driver.ErrNotApplied) }
	for i := range 4 {
		if got := c.do("CL.THROTTLE xyzzy open"); !strings.HasPrefix(got, "[0 4 ") {
			t.Errorf("%d: %s", i, got)
		}
		want := "[0 "
		if i >= 2 { // half of the limit
			want = "-UNAVAILABLE the limit is smaller"
		}
		if got := c.do("CL.THROTTLE xyzzy local"); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if text := log.String(); strings.Contains(text, "xyzzy") || !strings.Contains(text, "protocol=resp") {
		t.Error(text)
	}
}
