package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/grpclimit"
)

// each300 is a rule of one in 300 ms.
func each300(name string) ration.Rule {
	return ration.Rule{Name: name, Limit: ration.TokenBucket{Burst: 1, Refill: ration.Every(300 * time.Millisecond)}}
}

func TestPacerWaits(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]grpclimit.Policy{
		"one":   nil,
		"two":   {{Limit: fixed("all", 100), Key: everybody}},
		"count": {{Limit: fixed("ok", 100), Key: everybody, Count: func(c codes.Code) bool { return c == codes.OK }}},
	} {
		l, _ := newLimiter(t, nil)
		c := paced(t, new(service), newPacer(t, l, nil, append(more, grpclimit.Policy{Limit: each300("own"), Key: everybody})...))
		begin := time.Now()
		for range 3 {
			if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took < 590*time.Millisecond {
			t.Errorf("%s: three calls at one each 300 ms took %v", name, took)
		}
	}
}

// TestPacerIsNotLate: what would come too late is not sent, and is told at once.
func TestPacerIsNotLate(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{time.Minute, -1} {
		for name, more := range map[string][]grpclimit.Policy{
			"one":   nil,
			"two":   {{Limit: fixed("all", 100), Key: everybody}},
			"count": {{Limit: fixed("ok", 100), Key: everybody, Count: func(c codes.Code) bool { return c == codes.OK }}},
		} {
			l, _ := newLimiter(t, nil)
			s := new(service)
			c := paced(t, s, newPacer(t, l, &grpclimit.PacerOptions{MaxWait: wait}, append(more, grpclimit.Policy{Limit: fixed("own", 1), Key: everybody})...))
			if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
				t.Fatal(err)
			}
			_, err := c.EmptyCall(t.Context(), &testgrpc.Empty{})
			refused, ok := errors.AsType[*ration.RefusedError](err)
			if got := of(err); got.code != codes.ResourceExhausted || got.retry < 59*time.Minute || !ok || refused.Name != "own" || refused.Never {
				t.Errorf("%s, %v: %+v, %v", name, wait, got, err)
			}
			if s.calls.Load() != 1 {
				t.Errorf("%s: %d calls were sent", name, s.calls.Load())
			}
		}
	}
}

func TestPacerNever(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	c := paced(t, new(service), newPacer(t, l, nil, grpclimit.Policy{Limit: fixed("own", 1), Key: everybody, Cost: grpclimit.Costs(map[string]int64{emptyCall: 2})}))
	_, err := c.EmptyCall(t.Context(), &testgrpc.Empty{})
	if refused, ok := errors.AsType[*ration.RefusedError](err); !ok || !refused.Never || of(err).code != codes.ResourceExhausted {
		t.Error(err)
	}
}

func TestPacerTroubleOfTheStore(t *testing.T) {
	t.Parallel()
	l, store := newLimiter(t, nil)
	s := new(service)
	c := paced(t, s, newPacer(t, l, nil, grpclimit.Policy{Limit: fixed("own", 1), Key: everybody}))
	trouble := errors.New("down")
	store.err.Store(&trouble)
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); of(err).code != codes.Unavailable || !errors.Is(err, trouble) {
		t.Error(err)
	}
	if s.calls.Load() != 0 {
		t.Error("it was sent")
	}
}

func TestPacerCancelled(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	rule := ration.Rule{Name: "own", Limit: ration.FixedWindow{Limit: 1, Window: 30 * time.Second}}
	c := paced(t, new(service), newPacer(t, l, nil, grpclimit.Policy{Limit: rule, Key: everybody}))
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.EmptyCall(ctx, &testgrpc.Empty{}); of(err).code != codes.Canceled {
		t.Error(err)
	}
	cancel()
	if _, err := c.EmptyCall(ctx, &testgrpc.Empty{}); of(err).code != codes.Canceled {
		t.Error(err)
	}
}

// TestPacerHeedsServers: after a refusal with a time, calls of that scope wait, and others do not.
func TestPacerHeedsServers(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	s := new(service)
	g := newGuard(t, l, nil, grpclimit.Policy{Limit: each300("theirs"), Key: everybody, Methods: []string{emptyCall}})
	c := paced(t, s, newPacer(t, nil, &grpclimit.PacerOptions{Replays: 1}), grpc.UnaryInterceptor(g.Unary()))
	begin := time.Now()
	for range 3 { // each after the first is refused once, and sent again
		if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < 590*time.Millisecond {
		t.Errorf("three calls at one each 300 ms took %v", took)
	}

	hour := newGuard(t, l, nil, grpclimit.Policy{Limit: fixed("hour", 1), Key: everybody, Methods: []string{emptyCall}})
	s = new(service)
	c = paced(t, s, newPacer(t, nil, nil), grpc.UnaryInterceptor(hour.Unary()))
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first is refused by the server, the second by what it said
		if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); of(err).code != codes.ResourceExhausted {
			t.Error(err)
		}
	}
	_, err := c.EmptyCall(t.Context(), &testgrpc.Empty{})
	if _, ok := errors.AsType[*ration.RefusedError](err); !ok || !strings.Contains(err.Error(), "the server") {
		t.Errorf("it was sent: %v", err)
	}
	if _, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := c.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), "authorization", "other"), &testgrpc.Empty{}); err == nil || strings.Contains(err.Error(), "the server") {
		t.Errorf("other credentials: %v", err)
	}
}

// TestServersThatSayNo: without a time, or with the word that trying again is of no use, nothing waits and nothing is sent again.
func TestServersThatSayNo(t *testing.T) {
	t.Parallel()
	for _, trailer := range []metadata.MD{nil, metadata.Pairs("grpc-retry-pushback-ms", "-1"), metadata.Pairs("grpc-retry-pushback-ms", "soon")} {
		s := &service{trailer: trailer}
		s.code.Store(uint32(codes.ResourceExhausted))
		c := paced(t, s, newPacer(t, nil, &grpclimit.PacerOptions{Replays: 3}))
		for range 2 {
			if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); of(err).code != codes.ResourceExhausted {
				t.Error(err)
			}
		}
		if s.calls.Load() != 2 {
			t.Errorf("%v: %d calls were sent", trailer, s.calls.Load())
		}
	}
}

func TestPacedStreams(t *testing.T) {
	t.Parallel()
	settled := make(chan struct{}, 10)
	l, _ := newLimiter(t, &ration.Options{Observer: &ration.Observer{Decided: func(_ context.Context, e ration.Event) {
		if e.Verb == "settle" {
			settled <- struct{}{}
		}
	}}})
	slots := ration.Rule{Name: "slots", Limit: ration.Concurrency{Limit: 1, Lease: time.Minute}}
	c := paced(t, new(service), newPacer(t, l, &grpclimit.PacerOptions{MaxWait: -1}, grpclimit.Policy{Limit: slots, Key: everybody},
		grpclimit.Policy{Limit: fixed("messages", 3), Key: everybody, Messages: true}))
	free := func() bool {
		d, err := l.Peek(t.Context(), ration.KeyOf("everybody"), slots, 1)
		return err == nil && d.Used == 0
	}

	// Both ways, to the end.
	stream, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.FullDuplexCall(t.Context()); of(err).code != codes.ResourceExhausted {
		t.Error(err)
	}
	for i := range 4 {
		if err = stream.Send(&testgrpc.StreamingOutputCallRequest{}); (err != nil) != (i == 3) {
			t.Fatalf("message %d: %v", i, err)
		}
		if err == nil {
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused, ok := errors.AsType[*ration.RefusedError](err); !ok || refused.Name != "messages" {
		t.Error(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); err != io.EOF || !free() {
		t.Errorf("%v, free: %v", err, free())
	}

	// One answer.
	if err := l.Reset(t.Context(), ration.KeyOf("everybody"), fixed("messages", 3)); err != nil {
		t.Fatal(err)
	}
	input, err := c.StreamingInputCall(t.Context())
	if err == nil {
		err = input.Send(&testgrpc.StreamingInputCallRequest{})
	}
	if err == nil {
		_, err = input.CloseAndRecv()
	}
	if err != nil || !free() {
		t.Errorf("%v, free: %v", err, free())
	}

	// Given up: a goroutine of its own lets go of the slot.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.FullDuplexCall(ctx); err != nil {
		t.Fatal(err)
	}
	for len(settled) > 0 {
		<-settled
	}
	cancel()
	select {
	case <-settled:
	case <-time.After(time.Minute):
	}
	if !free() {
		t.Error("a stream that was given up holds its slot")
	}
}
