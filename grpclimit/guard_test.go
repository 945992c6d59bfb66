package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/grpclimit"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

const emptyCall = "/grpc.testing.TestService/EmptyCall"

func TestRefusal(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	s := new(service)
	c := guarded(t, s, newGuard(t, l, nil,
		grpclimit.Policy{Limit: fixed("user", 2), Key: everybody}, grpclimit.Policy{Limit: fixed("all", 100), Key: everybody}))
	for range 2 {
		if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	var trailer metadata.MD
	_, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}, grpc.Trailer(&trailer))
	got := of(err)
	if got.code != codes.ResourceExhausted || got.violated != "user of 2;" || got.retry < 59*time.Minute || got.retry > time.Hour {
		t.Errorf("%+v", got)
	}
	if ms, err := strconv.Atoi(strings.Join(trailer["grpc-retry-pushback-ms"], ",")); err != nil || time.Duration(ms)*time.Millisecond < got.retry {
		t.Errorf("%v", trailer)
	}
	if s.calls.Load() != 2 {
		t.Errorf("%d calls got through", s.calls.Load())
	}
	// None of the others was charged for it.
	if d, err := l.Peek(t.Context(), ration.KeyOf("everybody"), fixed("all", 100), 1); err != nil || d.Used != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	// A stream likewise.
	stream, err := c.FullDuplexCall(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if got := of(err); got.code != codes.ResourceExhausted || got.violated != "user of 2;" || got.retry == 0 || len(stream.Trailer()["grpc-retry-pushback-ms"]) != 1 {
		t.Errorf("%+v, %v", got, stream.Trailer())
	}
}

func TestNever(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	c := guarded(t, new(service), newGuard(t, l, nil, grpclimit.Policy{
		Limit: fixed("user", 2), Key: everybody, Cost: grpclimit.Costs(map[string]int64{"/grpc.testing.TestService/*": 3}),
	}))
	var trailer metadata.MD
	_, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}, grpc.Trailer(&trailer))
	if got := of(err); got != (told{codes.ResourceExhausted, 0, "user of 2;"}) || trailer.Get("grpc-retry-pushback-ms")[0] != "-1" {
		t.Errorf("%+v, %v", got, trailer)
	}
}

// TestBuiltInRetry: a client of grpc-go with a retry policy comes back when it is told, and not before.
func TestBuiltInRetry(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	s := new(service)
	rule := ration.Rule{Name: "user", Limit: ration.TokenBucket{Burst: 1, Refill: ration.Every(300 * time.Millisecond)}}
	const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	c := guarded(t, s, newGuard(t, l, nil, grpclimit.Policy{Limit: rule, Key: everybody}), grpc.WithDefaultServiceConfig(retries))
	begin := time.Now()
	for range 3 {
		if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < 590*time.Millisecond {
		t.Errorf("three calls at one each 300 ms took %v", took)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	bySize := func(_ context.Context, c grpclimit.Call) int64 {
		if r, ok := c.Message.(*testgrpc.SimpleRequest); ok {
			return int64(len(r.Payload.GetBody()))
		}
		return 0
	}
	c := guarded(t, new(service), newGuard(t, l, nil,
		grpclimit.Policy{Limit: fixed("calls", 100), Key: everybody, Cost: grpclimit.Costs(map[string]int64{emptyCall: 5, "/grpc.testing.TestService/*": 2, "/x.Y/*": 9})},
		grpclimit.Policy{Limit: fixed("bytes", 100), Key: everybody, Cost: bySize},
		grpclimit.Policy{Limit: fixed("empty", 100), Key: everybody, Methods: []string{emptyCall}},
		grpclimit.Policy{Limit: fixed("other", 100), Key: everybody, Methods: []string{"/x.Y/*"}},
	))
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, 30)}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"calls": 7, "bytes": 30, "empty": 1, "other": 0} {
		if d, err := l.Peek(t.Context(), ration.KeyOf("everybody"), fixed(name, 100), 1); err != nil || d.Used != want {
			t.Errorf("%s: %d, %v", name, d.Used, err)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	s := new(service)
	c := guarded(t, s, newGuard(t, l, nil,
		grpclimit.Policy{Limit: fixed("streams", 1), Key: everybody}, grpclimit.Policy{Limit: fixed("messages", 3), Key: everybody, Messages: true}))
	stream, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := stream.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); (err != nil) != (i == 3) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if got := of(err); got.code != codes.ResourceExhausted || got.violated != "messages of 3;" || got.retry == 0 || len(stream.Trailer()["grpc-retry-pushback-ms"]) != 1 {
		t.Errorf("%+v, %v", got, stream.Trailer())
	}
	if s.messages.Load() != 3 {
		t.Errorf("%d messages got through", s.messages.Load())
	}
	// A unary call is one of both.
	_, err = c.EmptyCall(t.Context(), &testgrpc.Empty{})
	if got := of(err); got.violated != "streams of 1;messages of 3;" {
		t.Errorf("%+v", got)
	}
}

// TestTroubleOfTheStore is UNAVAILABLE, never RESOURCE_EXHAUSTED.
func TestTroubleOfTheStore(t *testing.T) {
	t.Parallel()
	l, store := newLimiter(t, nil)
	log := new(strings.Builder)
	c := guarded(t, new(service), newGuard(t, l, &grpclimit.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, grpclimit.Policy{Limit: fixed("user", 2), Key: everybody}))
	for _, trouble := range []error{errors.New("secret host"), fmt.Errorf("secret host: %w", driver.ErrNotApplied), driver.ErrFull} {
		store.err.Store(&trouble)
		_, err := c.EmptyCall(t.Context(), &testgrpc.Empty{})
		if got := of(err); got != (told{codes.Unavailable, time.Second, ""}) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", got, err)
		}
		stream, err := c.FullDuplexCall(t.Context())
		if err == nil {
			_, err = stream.Recv()
		}
		if got := of(err); got.code != codes.Unavailable {
			t.Errorf("%+v", got)
		}
	}
	if strings.Count(log.String(), "\n") != 1 || strings.Contains(log.String(), "everybody") {
		t.Error(log)
	}
}

// TestOutagePolicies: what an outage refuses is UNAVAILABLE as well; what it admits is served.
func TestOutagePolicies(t *testing.T) {
	t.Parallel()
	l, store := newLimiter(t, nil)
	allow, local := fixed("allow", 20), fixed("local", 20)
	allow.OnError, local.OnError = ration.AllowOnError, ration.LocalOnError
	opts := &grpclimit.Options{Logger: slog.New(slog.DiscardHandler)}
	c := guarded(t, new(service), newGuard(t, l, opts, grpclimit.Policy{Limit: allow, Key: everybody, Methods: []string{emptyCall}},
		grpclimit.Policy{Limit: local, Key: everybody, Methods: []string{"/grpc.testing.TestService/UnaryCall"}}))
	trouble := fmt.Errorf("down: %w", driver.ErrNotApplied)
	store.err.Store(&trouble)
	for range 30 {
		if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
			t.Error(err)
		}
	}
	passed := 0
	for range 30 {
		_, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
		if err == nil {
			passed++
		} else if got := of(err); got.code != codes.Unavailable || got.retry == 0 {
			t.Errorf("%+v", got)
		}
	}
	if passed == 0 || passed > 10 {
		t.Errorf("%d of a part of 20 pass", passed)
	}
}

func TestNoIdentity(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	key := grpclimit.ByMetadata("x-user")
	c := guarded(t, new(service), newGuard(t, l, &grpclimit.Options{Logger: slog.New(slog.DiscardHandler)},
		grpclimit.Policy{Limit: fixed("skip", 1), Key: key, NoKey: grpclimit.SkipNoKey, Methods: []string{emptyCall}},
		grpclimit.Policy{Limit: fixed("refuse", 1), Key: key, Methods: []string{"/grpc.testing.TestService/UnaryCall"}},
		grpclimit.Policy{Limit: fixed("share", 1), Key: key, NoKey: grpclimit.ShareNoKey, Methods: []string{"/grpc.testing.TestService/FullDuplexCall"}}))
	ctx := t.Context()
	for range 3 {
		if _, err := c.EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{}); of(err).code != codes.Unavailable {
		t.Error(err)
	}
	open := func() error {
		stream, err := c.FullDuplexCall(ctx)
		if err == nil {
			err = stream.CloseSend()
		}
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := open(); err != io.EOF {
		t.Error(err)
	}
	if err := open(); of(err).code != codes.ResourceExhausted {
		t.Error(err)
	}
	for _, user := range []string{"a", "b"} {
		ctx := metadata.AppendToOutgoingContext(ctx, "x-user", user)
		if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{}); err != nil {
			t.Error(err)
		}
		if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{}); of(err).code != codes.ResourceExhausted {
			t.Error(err)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	c := guarded(t, new(service), newGuard(t, l, nil,
		grpclimit.Policy{Limit: fixed("address", 100), Key: grpclimit.HTTP(httplimit.ByIP(nil))},
		grpclimit.Policy{Limit: fixed("header", 100), Key: grpclimit.HTTP(httplimit.ByHeader("X-User"))},
		grpclimit.Policy{Limit: fixed("method", 100), Key: grpclimit.ByMethod()},
		grpclimit.Policy{Limit: fixed("long", 100), Key: func(context.Context, grpclimit.Call) string { return strings.Repeat("x", 5000) }},
	))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user", "alice", "x-forwarded-for", "192.0.2.1")
	if _, err := c.EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{"address": "127.0.0.1", "header": "alice", "method": emptyCall} {
		d, err := l.Peek(t.Context(), ration.KeyOf(key), fixed(name, 100), 1)
		if name == "address" && d.Used == 0 { // however httplimit writes an address
			d, err = l.Peek(t.Context(), ration.KeyOf("127.0.0.1/32"), fixed(name, 100), 1)
		}
		if err != nil || d.Used != 1 {
			t.Errorf("%s: %d, %v", name, d.Used, err)
		}
	}
}

// TestConcurrency: a slot is held until the handler returns.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	s := &service{came: make(chan struct{}, 2), block: make(chan struct{})}
	slots := ration.Rule{Name: "slots", Limit: ration.Concurrency{Limit: 2, Lease: time.Minute}}
	c := guarded(t, s, newGuard(t, l, nil, grpclimit.Policy{Limit: slots, Key: everybody}))
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.EmptyCall(t.Context(), &testgrpc.Empty{})
			ended <- err
		}()
	}
	<-s.came
	<-s.came
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); of(err).code != codes.ResourceExhausted {
		t.Error(err)
	}
	close(s.block)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if d, err := l.Peek(t.Context(), ration.KeyOf("everybody"), slots, 1); err != nil || d.Used != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestCount: only some outcomes are charged, of calls and of streams.
// A client that gives up does not get its slot free for the next call while the handler of the first still runs.
func TestSlotOfAHandlerThatRunsOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ration.New(memstore.New(nil), nil)
		defer l.Close()
		slots := ration.Rule{Name: "slots", Limit: ration.Concurrency{Limit: 1, Lease: 10 * time.Second}}
		g := newGuard(t, l, nil, grpclimit.Policy{Limit: slots, Key: everybody})
		ctx, hangUp := context.WithCancel(t.Context())
		used := func() int64 {
			d, err := l.Peek(t.Context(), ration.KeyOf("everybody"), slots, 1)
			if err != nil {
				t.Error(err)
			}
			return d.Used
		}
		_, err := g.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: emptyCall}, func(ctx context.Context, _ any) (any, error) {
			hangUp()
			<-ctx.Done()
			for range 10 {
				time.Sleep(10 * time.Second)
				if used() != 1 {
					t.Error("the slot is free while the handler runs")
				}
			}
			return nil, nil
		})
		if err != nil || used() != 0 {
			t.Errorf("%v, %d used", err, used())
		}
	})
}

// Hanging up is not free, whatever Count says of the code that comes of it.
func TestCountOfCallsGivenUp(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	answered := fixed("answered", 10)
	g := newGuard(t, l, nil, grpclimit.Policy{Limit: answered, Key: everybody, Count: func(code codes.Code) bool { return code == codes.OK }})
	for i, one := range []struct {
		givesUp bool
		err     error
		used    int64
	}{{false, nil, 1}, {false, status.Error(codes.NotFound, ""), 1}, {true, status.Error(codes.Canceled, ""), 2}, {true, nil, 3}} {
		for _, stream := range []bool{false, true} {
			ctx, hangUp := context.WithCancel(t.Context())
			end := func() error {
				if one.givesUp {
					hangUp()
				}
				return one.err
			}
			var err error
			if stream {
				err = g.Stream()(nil, opened{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: emptyCall}, func(any, grpc.ServerStream) error { return end() })
			} else {
				_, err = g.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: emptyCall}, func(context.Context, any) (any, error) { return nil, end() })
			}
			hangUp()
			if err != one.err {
				t.Errorf("%d: %v", i, err)
			}
		}
		if d, err := l.Peek(t.Context(), ration.KeyOf("everybody"), answered, 1); err != nil || d.Used != 2*one.used {
			t.Errorf("%d: %d used, %v", i, d.Used, err)
		}
	}
}

// opened is a stream on which nothing comes.
type opened struct {
	grpc.ServerStream
	ctx context.Context
}

func (o opened) Context() context.Context { return o.ctx }

func TestCount(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	s := new(service)
	failures := func(code codes.Code) bool { return code != codes.OK }
	c := guarded(t, s, newGuard(t, l, nil, grpclimit.Policy{Limit: fixed("failures", 10), Key: everybody, Count: failures},
		grpclimit.Policy{Limit: fixed("all", 10), Key: everybody, Cost: grpclimit.Costs(map[string]int64{emptyCall: 2})}))
	for _, code := range []codes.Code{codes.OK, codes.PermissionDenied} {
		s.code.Store(uint32(code))
		if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); of(err).code != code {
			t.Error(err)
		}
		stream, err := c.FullDuplexCall(t.Context())
		if err == nil {
			err = stream.CloseSend()
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != io.EOF && of(err).code != code {
			t.Error(err)
		}
	}
	for name, want := range map[string]int64{"failures": 2, "all": 6} {
		if d, err := l.Peek(t.Context(), ration.KeyOf("everybody"), fixed(name, 10), 1); err != nil || d.Used != want {
			t.Errorf("%s: %d, %v", name, d.Used, err)
		}
	}
}

func TestSkipGroupRefusedAndPlans(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, &ration.Options{OneGroup: true})
	plan := func(ctx context.Context, c grpclimit.Call) (ration.Limit, error) {
		switch md, _ := metadata.FromIncomingContext(ctx); strings.Join(md.Get("plan"), "") {
		case "small":
			return fixed("plan", 1), nil
		case "broken":
			return nil, errors.New("no database")
		case "nameless":
			return ration.FixedWindow{Limit: 1, Window: time.Hour}, nil
		}
		return nil, nil
	}
	c := guarded(t, new(service), newGuard(t, l, &grpclimit.Options{
		Skip:    func(_ context.Context, c grpclimit.Call) bool { return c.Method != emptyCall },
		Group:   func(context.Context, grpclimit.Call) string { return "tenant" },
		Refused: func(context.Context, grpclimit.Call, ration.Outcome) error { return errors.New("mine") },
		Logger:  slog.New(slog.DiscardHandler),
	}, grpclimit.Policy{For: plan, Key: everybody}, grpclimit.Policy{Limit: fixed("method", 100), Key: grpclimit.ByMethod()}))
	call := func(plan string) error {
		_, err := c.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), "plan", plan), &testgrpc.Empty{})
		return err
	}
	if err := errors.Join(call("small"), call("none"), call("none")); err != nil {
		t.Error(err)
	}
	if err := call("small"); err == nil || !strings.Contains(err.Error(), "mine") {
		t.Error(err)
	}
	for _, plan := range []string{"broken", "nameless"} {
		if err := call(plan); of(err).code != codes.Unavailable {
			t.Errorf("%s: %v", plan, err)
		}
	}
	for range 3 {
		if _, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); err != nil {
			t.Error(err)
		}
	}
}

func TestNewGuardFails(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	good := grpclimit.Policy{Limit: fixed("a", 1), Key: everybody}
	with := func(change func(*grpclimit.Policy)) []grpclimit.Policy {
		p := good
		change(&p)
		return []grpclimit.Policy{p}
	}
	for name, ps := range map[string][]grpclimit.Policy{
		"no key":        with(func(p *grpclimit.Policy) { p.Key = nil }),
		"no limit":      with(func(p *grpclimit.Policy) { p.Limit = nil }),
		"no name":       with(func(p *grpclimit.Policy) { p.Limit = ration.FixedWindow{Limit: 1, Window: time.Hour} }),
		"bad limit":     with(func(p *grpclimit.Policy) { p.Limit = ration.Rule{Name: "a", Limit: ration.FixedWindow{}} }),
		"two names":     {good, good},
		"bad method":    with(func(p *grpclimit.Policy) { p.Methods = []string{"EmptyCall"} }),
		"count message": with(func(p *grpclimit.Policy) { p.Messages, p.Count = true, func(codes.Code) bool { return true } }),
		"message slots": with(func(p *grpclimit.Policy) {
			p.Messages, p.Limit = true, ration.Rule{Name: "s", Limit: ration.Concurrency{Limit: 1, Lease: time.Minute}}
		}),
		"two limits": with(func(p *grpclimit.Policy) {
			p.For = func(context.Context, grpclimit.Call) (ration.Limit, error) { return nil, nil }
		}),
		"NoKey": with(func(p *grpclimit.Policy) { p.NoKey = 9 }),
		"many":  make([]grpclimit.Policy, 65),
	} {
		if _, err := grpclimit.NewGuard(l, ps, nil); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := grpclimit.NewGuard(nil, []grpclimit.Policy{good}, nil); err == nil {
		t.Error("no Limiter")
	}
}
