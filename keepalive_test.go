package ration_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

// TestByIDAlone: who has only the id of a reservation does not know how long it lives, and keeps it alive all the same.
func TestByIDAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := ration.New(memstore.New(nil), nil)
		defer l.Close()
		k := ration.KeyOf("k")
		slots := ration.Concurrency{Limit: 1, Lease: 20 * time.Second}
		r, err := l.Reserve(ctx, &ration.ReserveOptions{TTL: 2 * time.Minute}, k.Charge(slots, 1))
		if err != nil || !r.Allowed {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		other := l.Reservation(r.ID())
		if !other.ExpiresAt().IsZero() {
			t.Error(other.ExpiresAt())
		}
		if err := other.Renew(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(other.ExpiresAt()); got != 20*time.Second {
			t.Errorf("renewed for an hour, with a lease of 20 s, it ends in %v", got)
		}
		time.Sleep(15 * time.Second)
		third := l.Reservation(r.ID())
		alive, stop := third.KeepAlive(ctx)
		time.Sleep(time.Hour)
		if alive.Err() != nil {
			t.Fatal(context.Cause(alive))
		}
		if got := time.Until(third.ExpiresAt()); got < 12*time.Second || got > 20*time.Second {
			t.Errorf("it ends in %v", got)
		}
		stop()
		if err := third.Cancel(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
