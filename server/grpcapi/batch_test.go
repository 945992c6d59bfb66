package grpcapi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/grpcapi"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

func batchOf(n int) *rationv1.TakeBatchRequest {
	r := new(rationv1.TakeBatchRequest)
	for i := range n {
		r.Takes = append(r.Takes, &rationv1.TakeRequest{Key: key(fmt.Sprint("user-", i)), Limit: "fixed 1/1h"})
	}
	return r
}

// TestTakeBatch: each take has its own answer, in its place.
func TestTakeBatch(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		e, ctx := newEnv(t, func(c *counted) { c.joined = joined }), t.Context()
		r := batchOf(100)
		r.Takes[3].Limit = "fixed one/1h"
		r.Takes[4].Cost = ptr[int64](2)
		r.Takes[5].Key = nil
		a, err := e.TakeBatch(ctx, r)
		if err != nil || len(a.Results) != 100 {
			t.Fatalf("%v, %v", a, err)
		}
		for i, one := range a.Results {
			d, bad := one.GetDecision(), one.GetError()
			switch {
			case i == 3 && bad.GetCode() == "invalid_limit" && bad.GetNotCharged():
			case i == 4 && d.GetNever():
			case i == 5 && bad.GetCode() == "missing_field" && bad.GetDetail() != "":
			case i != 3 && i != 4 && i != 5 && d.GetAllowed() && d.GetUsed() == 1:
			default:
				t.Errorf("joined %v, %d: %v", joined, i, one)
			}
		}
		broken := errors.New("broken")
		e.store.fail.Store(&broken)
		if a, err = e.TakeBatch(ctx, batchOf(2)); err != nil {
			t.Fatal(err)
		}
		for _, one := range a.Results {
			if bad := one.GetError(); bad.GetCode() != "outcome_unknown" || bad.GetNotCharged() {
				t.Errorf("%v", one)
			}
		}
	}
}

// slow is a store a millisecond away.
type slow struct{ *counted }

func (s slow) Apply(ctx context.Context, batch []*driver.Txn) error {
	time.Sleep(time.Millisecond) // of the bubble
	return s.counted.Apply(ctx, batch)
}

// TestBatchesTravelTogether: a batch is a few round trips, not one for each take.
func TestBatchesTravelTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := slow{&counted{Store: memstore.New(&memstore.Options{SweepEvery: -1}), joined: true}}
		l := ration.New(store, nil)
		defer l.Close()
		service, err := grpcapi.New(l, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := service.TakeBatch(t.Context(), batchOf(100)); err != nil || store.calls.Load() > 3 {
			t.Errorf("the store was asked %d times, %v", store.calls.Load(), err)
		}
	})
}

// TestOneKeyInABatch: so many as fit, whatever the order.
func TestOneKeyInABatch(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		e := newEnv(t, func(c *counted) { c.joined = joined })
		r := new(rationv1.TakeBatchRequest)
		for range 1000 {
			r.Takes = append(r.Takes, &rationv1.TakeRequest{Key: key("a"), Limit: "fixed 70/1h"})
		}
		a, err := e.TakeBatch(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for _, one := range a.Results {
			if one.GetDecision().GetAllowed() {
				allowed++
			}
		}
		if allowed != 70 {
			t.Errorf("joined %v: %d are allowed", joined, allowed)
		}
	}
}

func TestBatchBounds(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, r := range []*rationv1.TakeBatchRequest{batchOf(0), batchOf(1001), unknown(batchOf(1))} {
		_, err := e.TakeBatch(t.Context(), r)
		if got := failureOf(t, err); got.code != codes.InvalidArgument {
			t.Errorf("%d takes: %+v", len(r.Takes), got)
		}
	}
	if e.store.calls.Load() != 0 {
		t.Error("the store was asked")
	}
}
