package cooldown_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/cooldown"
	"github.com/ration-go/ration/memstore"
)

var (
	ctx  = context.Background()
	once = ration.SlidingWindow{Limit: 1, Window: 5 * time.Second}
)

func inBubble(t *testing.T, f func(t *testing.T, l *ration.Limiter)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A sweep each second would be thousands of them in the hours that pass.
		l := ration.New(memstore.New(&memstore.Options{SweepEvery: time.Hour}), nil)
		defer l.Close()
		f(t, l)
	})
}

func call(user string) cooldown.Call {
	return cooldown.Call{Command: "award", User: user, Channel: "c", Server: "s"}
}

func ran(context.Context) error { return nil }

func refused(t *testing.T, err error) *cooldown.Refusal {
	t.Helper()
	no, ok := errors.AsType[*cooldown.Refusal](err)
	if !ok {
		t.Fatalf("%v, want a refusal", err)
	}
	return no
}

func TestCooldown(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		gate := cooldown.New(l, once, nil)
		if err := cooldown.Run(ctx, call("a"), ran, gate); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		no := refused(t, cooldown.Run(ctx, call("a"), ran, gate))
		if left := time.Until(no.RetryAt); left != 3500*time.Millisecond || no.Message != "Try again "+cooldown.Timestamp(no.RetryAt)+"." {
			t.Fatal(left, no.Message)
		}
		if err := cooldown.Run(ctx, call("b"), ran, gate); err != nil {
			t.Fatal(err)
		}
		other := call("a")
		other.Command = "mute"
		if err := cooldown.Run(ctx, other, ran, gate); err != nil {
			t.Fatal(err)
		}
		// Its settings are not part of what is counted.
		refused(t, cooldown.Run(ctx, call("a"), ran, cooldown.New(l, ration.SlidingWindow{Limit: 1, Window: time.Hour}, nil)))
		// A Rule's name is.
		daily := cooldown.New(l, ration.Rule{Name: "daily", Limit: ration.SlidingWindow{Limit: 1, Window: 24 * time.Hour}}, nil)
		time.Sleep(5 * time.Second)
		if err := cooldown.Run(ctx, call("a"), ran, gate, daily); err != nil {
			t.Fatal(err)
		}
		if err := cooldown.Run(ctx, cooldown.Call{User: "a"}, ran, gate); err == nil {
			t.Fatal("no command")
		}
	})
}

func TestRaceOfAHundred(t *testing.T) {
	t.Parallel()
	l := ration.New(memstore.New(nil), nil)
	defer l.Close()
	gate := cooldown.New(l, ration.SlidingWindow{Limit: 1, Window: time.Hour}, nil)
	var passed atomic.Int64
	done := make(chan error)
	for range 100 {
		go func() {
			done <- cooldown.Run(ctx, call("a"), func(context.Context) error { passed.Add(1); return nil }, gate)
		}()
	}
	for range 100 {
		<-done
	}
	if passed.Load() != 1 {
		t.Fatal(passed.Load())
	}
}

func TestFailedCommandGoesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		broken := errors.New("broken")
		fail := func(context.Context) error { return broken }
		gate := cooldown.New(l, once, nil)
		for range 3 {
			if err := cooldown.Run(ctx, call("a"), fail, gate); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic is lost")
				}
			}()
			cooldown.Run(ctx, call("a"), func(context.Context) error { panic("boom") }, gate)
		}()
		never := cooldown.New(l, ration.SlidingWindow{Limit: 0, Window: time.Second}, &cooldown.Options{Per: cooldown.PerServer})
		if no := refused(t, cooldown.Run(ctx, call("a"), ran, gate, never)); !no.RetryAt.IsZero() {
			t.Fatal(no.RetryAt)
		}
		dead, cancel := context.WithCancel(ctx)
		if err := cooldown.Run(dead, call("a"), func(context.Context) error { cancel(); return broken }, gate); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		keeps := cooldown.New(l, once, &cooldown.Options{KeepSpent: true})
		refused(t, cooldown.Run(ctx, call("a"), ran, keeps, never)) // a later refusal gives back all the same
		if err := cooldown.Run(ctx, call("a"), fail, keeps); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		refused(t, cooldown.Run(ctx, call("a"), ran, keeps))
	})
}

func TestScopes(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		perServer := cooldown.New(l, once, &cooldown.Options{Per: cooldown.PerServer})
		perChannel := cooldown.New(l, once, &cooldown.Options{Per: cooldown.PerChannel})
		if err := cooldown.Run(ctx, call("a"), ran, perServer, perChannel); err != nil {
			t.Fatal(err)
		}
		refused(t, cooldown.Run(ctx, call("b"), ran, perServer))
		refused(t, cooldown.Run(ctx, call("b"), ran, perChannel))
		direct := cooldown.Call{Command: "award", User: "a"}
		if no := refused(t, cooldown.Run(ctx, direct, ran, perServer)); no.Message == "" {
			t.Fatal("no message")
		}
		if no := refused(t, cooldown.Run(ctx, direct, ran, cooldown.ServerOnly("servers only"))); no.Message != "servers only" {
			t.Fatal(no.Message)
		}
		shared := cooldown.New(l, once, &cooldown.Options{Per: cooldown.PerServer, Share: true})
		if err := cooldown.Run(ctx, direct, ran, shared); err != nil {
			t.Fatal(err)
		}
		refused(t, cooldown.Run(ctx, cooldown.Call{Command: "award", User: "b"}, ran, shared))
		byKey := cooldown.New(l, once, &cooldown.Options{
			Key: func(c cooldown.Call) (ration.Key, bool) {
				return ration.KeyOf("user", c.Command, c.User), c.User != "x"
			},
			Message: func(d ration.Decision) string { return "wait " + d.RetryAfter.String() },
			Notice:  func(d ration.Decision) any { return d.Limit },
		})
		if err := cooldown.Run(ctx, call("a"), ran, byKey); err != nil {
			t.Fatal(err)
		}
		if no := refused(t, cooldown.Run(ctx, call("a"), ran, byKey)); no.Message != "wait 5s" || no.Notice != int64(1) {
			t.Fatal(no)
		}
		refused(t, cooldown.Run(ctx, call("x"), ran, byKey))
	})
}

func TestOr(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		short := cooldown.New(l, ration.Rule{Name: "short", Limit: once}, nil)
		long := cooldown.New(l, ration.Rule{Name: "long", Limit: ration.SlidingWindow{Limit: 1, Window: time.Hour}}, nil)
		either := cooldown.Or(long, short)
		for range 2 {
			if err := cooldown.Run(ctx, call("a"), ran, either); err != nil {
				t.Fatal(err)
			}
		}
		if no := refused(t, cooldown.Run(ctx, call("a"), ran, either)); time.Until(no.RetryAt) != 5*time.Second {
			t.Fatal(no.RetryAt)
		}
		down := errors.New("down")
		broken := func(context.Context, cooldown.Call) (cooldown.End, error) { return nil, down }
		if err := cooldown.Run(ctx, call("b"), ran, cooldown.Or(broken, short)); !errors.Is(err, down) {
			t.Fatal("an error is no refusal:", err)
		}
		refused(t, cooldown.Run(ctx, call("b"), ran, cooldown.Or()))
	})
}

func TestStoreDown(t *testing.T) {
	t.Parallel()
	l := ration.New(memstore.New(nil), nil)
	l.Close()
	err := cooldown.Run(ctx, call("a"), ran, cooldown.New(l, once, nil))
	if _, refused := errors.AsType[*cooldown.Refusal](err); refused || !errors.Is(err, ration.ErrClosed) || !strings.HasPrefix(err.Error(), "cooldown:") {
		t.Fatal(err)
	}
}

func TestTimestamp(t *testing.T) {
	t.Parallel()
	for nanos, want := range map[int64]string{0: "<t:1700000000:R>", 1: "<t:1700000001:R>", 999_999_999: "<t:1700000001:R>"} {
		if got := cooldown.Timestamp(time.Unix(1_700_000_000, nanos)); got != want {
			t.Error(got, want)
		}
	}
}

func TestGateThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, l *ration.Limiter) {
		gate := cooldown.New(l, once, nil)
		broken := func(context.Context, cooldown.Call) (cooldown.End, error) { panic("boom") }
		func() {
			defer func() { recover() }()
			cooldown.Run(ctx, call("a"), ran, gate, broken)
		}()
		if err := cooldown.Run(ctx, call("a"), ran, gate); err != nil {
			t.Fatal(err)
		}
	})
}
