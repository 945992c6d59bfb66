package storetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration/driver"
)

var errFault = errors.New("a fault")

// faultyTake takes 1 of 10 under a fault, and answers the transaction, the error, and what is used after it.
func faultyTake(t *testing.T, ctx context.Context, fault Fault) (*driver.Txn, error, int64) {
	t.Helper()
	store := newModel()
	p := (&suite{}).place()
	txn := p.txnAt(base, driver.Take, "fixed 10/1h", "k", 1)
	err := WithFaults(store, func(context.Context, []*driver.Txn) Fault { return fault }).Apply(ctx, []*driver.Txn{txn})
	look := p.txnAt(base, driver.Peek, "fixed 10/1h", "k", 1)
	if err := failure(store, look); err != nil {
		t.Fatal(err)
	}
	return txn, err, look.Ops[0].Result.Used
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		fault   Fault
		want    error
		used    int64
		allowed bool
	}{
		{"none", Fault{}, nil, 1, true},
		{"an error in place of the call", Fault{Err: errFault}, errFault, 0, false},
		{"a lost reply", Fault{LoseReply: errFault}, errFault, 1, false},
		{"both", Fault{Err: errFault, LoseReply: context.Canceled}, errFault, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			txn, err, used := faultyTake(t, t.Context(), c.fault)
			if !errors.Is(err, c.want) || used != c.used || txn.Allowed != c.allowed {
				t.Errorf("answered %v, %v with %d used; want %v, %v with %d", txn.Allowed, err, used, c.allowed, c.want, c.used)
			}
			if c.fault.LoseReply != nil && (txn.At != 0 || txn.Ops[0].Result != driver.Result{}) {
				t.Errorf("the reply should be lost, but says %+v", txn.Ops[0].Result)
			}
		})
	}
}

func TestFaultDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if _, err, used := faultyTake(t, t.Context(), Fault{Delay: time.Minute}); err != nil || used != 1 || time.Since(start) != time.Minute {
			t.Errorf("a delayed call answered %v with %d used after %v", err, used, time.Since(start))
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err, used := faultyTake(t, ctx, Fault{Delay: time.Minute})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotApplied) || used != 0 || time.Since(start) != time.Second {
			t.Errorf("a call that was given up answered %v with %d used after %v", err, used, time.Since(start))
		}
	})
}

func TestFaultyStoreIsWhatItWas(t *testing.T) {
	t.Parallel()
	none := func(context.Context, []*driver.Txn) Fault { return Fault{} }
	plain, sweeping := WithFaults(fewCaps{newModel(), driver.Info{}}, none), WithFaults(newMapStore(t, mutation{}), none)
	if _, ok := plain.(driver.Sweeper); ok {
		t.Error("a store that is no Sweeper became one")
	}
	if _, ok := sweeping.(driver.Sweeper); !ok {
		t.Error("a Sweeper is none any more")
	}
	if info := sweeping.Info(); info.Instant || info.Kind != "map" {
		t.Errorf("Info is %+v", info)
	}
	open := func(t testing.TB) driver.Store { return WithFaults(newMapStore(t, mutation{}), obey) }
	run(testScope{t}, Harness{Open: open}, brief)
}

// obey is no fault but that of a context that is done, as for a store that is not Instant.
func obey(ctx context.Context, _ []*driver.Txn) Fault {
	if err := ctx.Err(); err != nil {
		return Fault{Err: errors.Join(err, driver.ErrNotApplied)}
	}
	return Fault{}
}
