package ration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// A holder whose store hangs learns that its slot is lost no later than others can have it.
func TestKeepAliveWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, nil)
		one := ration.Concurrency{Limit: 1, Lease: time.Second}
		r, err := l.Reserve(ctx, nil, ration.Global.Charge(one, 1))
		if err != nil || !r.Allowed {
			t.Fatal(err)
		}
		start := time.Now()
		s.before = func(ctx context.Context, _ []*driver.Txn) error { <-ctx.Done(); return ctx.Err() }
		alive, stop := r.KeepAlive(ctx)
		<-alive.Done()
		if took := time.Since(start); took != time.Second || context.Cause(alive) == nil {
			t.Fatal(took, context.Cause(alive))
		}
		stop()
	})
}

// A call without a deadline ends after the timeout, also if it waits behind a patient one.
func TestTimeoutOfJoinedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRunStore()
		s.info.MaxBatch = 10
		l := ration.New(s, &ration.Options{Timeout: time.Second})
		defer l.Close()
		s.before = func(ctx context.Context, _ []*driver.Txn) error { <-ctx.Done(); return ctx.Err() }
		patient, cancel := context.WithTimeout(ctx, 12*time.Second)
		defer cancel()
		done := make(chan error, 3)
		go func() { _, err := l.Take(patient, ration.KeyOf("u"), chat, 1); done <- err }()
		synctest.Wait()
		start := time.Now()
		for range 2 {
			go func() { _, err := l.Take(ctx, ration.KeyOf("u"), chat, 1); done <- err }()
		}
		for range 2 {
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ration.ErrOutcomeUnknown) || time.Since(start) != time.Second {
				t.Fatal(err, time.Since(start))
			}
		}
		<-done
	})
}

// At its caps memstore does not forget a state that has refused a reservation.
func TestRefusedReservationIsRemembered(t *testing.T) {
	t.Parallel()
	l := ration.New(memstore.New(&memstore.Options{MaxKeys: 64}), nil)
	defer l.Close()
	limit, k := ration.FixedWindow{Limit: 10, Window: 50 * time.Second}, ration.KeyOf("u")
	if d, err := l.Take(ctx, k, limit, 4); err != nil || !d.Allowed {
		t.Fatal(err)
	}
	if r, err := l.Reserve(ctx, nil, k.Charge(limit, 7)); err != nil || r.Allowed {
		t.Fatal(r, err)
	}
	for i := range 3000 {
		l.Take(ctx, ration.KeyOf(fmt.Sprint("other", i)), limit, 1)
	}
	if r, err := l.Reserve(ctx, nil, k.Charge(limit, 7)); err != nil || r.Allowed {
		t.Fatal("forgotten:", r, err)
	}
}

// A reservation allowed by the outage policy may have made its hold; it can still be ended.
func TestDegradedReservation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLimiter(t, &ration.Options{OnError: ration.AllowOnError})
		lost := errors.New("reply lost")
		for name, fail := range map[string]*func(context.Context, []*driver.Txn) error{"after": &s.after, "before": &s.before} {
			*fail = func(context.Context, []*driver.Txn) error { return lost }
			r, err := l.Reserve(ctx, nil, ration.KeyOf(name).Charge(userDay, 5))
			if err != nil || !r.Allowed || !r.Degraded {
				t.Fatal(name, r, err)
			}
			*fail = nil
			if err := r.Settle(ctx, 3); err != nil {
				t.Fatal(name, err)
			}
			want := int64(3)
			if name == "before" {
				want = 0
			}
			used(t, l, ration.KeyOf(name), userDay, want)
		}
		expired, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		if d, err := l.Take(expired, ration.KeyOf("u"), userDay, 1); err == nil || d.Allowed {
			t.Fatal("a caller's own deadline is no outage:", d)
		}
	})
}

func TestReservationOfOneCountTwice(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, nil)
	k := ration.KeyOf("u")
	if _, err := l.Reserve(ctx, nil, k.Charge(userDay, 5), k.Charge(userDay, 5)); !errors.Is(err, ration.ErrInvalidLimit) {
		t.Fatal(err)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	secret := []byte("needle-needle-needle")
	for _, v := range []any{ration.KeyOf("needle").Charge(chat, 1), ration.Options{KeySecret: secret}, &ration.Options{KeySecret: secret}} {
		for _, verb := range []string{"%v", "%+v", "%s", "%#v"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "needle") {
				t.Errorf("%s: %s", verb, text)
			}
		}
	}
	l := ration.New(newRunStore(), &ration.Options{KeySecret: secret})
	l.Take(ctx, ration.KeyOf("u"), chat, 3)
	clear(secret) // the caller's to clear
	used(t, l, ration.KeyOf("u"), chat, 3)
}
