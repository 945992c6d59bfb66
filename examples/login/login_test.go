package login

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func right(context.Context) (bool, error) { return true, nil }
func wrong(context.Context) (bool, error) { return false, nil }

func newGuard(t *testing.T, clock func() time.Time) *Guard {
	limiter := ration.New(memstore.New(nil), &ration.Options{Clock: clock})
	t.Cleanup(func() { limiter.Close() })
	return &Guard{Limiter: limiter}
}

func TestFailuresOnly(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g := newGuard(t, func() time.Time { return now })
	for range 20 {
		if err := g.Try(t.Context(), "ada", "192.0.2.1", right); err != nil {
			t.Fatal("who knows the password is never locked out:", err)
		}
	}
	for range 5 {
		if err := g.Try(t.Context(), "ada", "192.0.2.1", wrong); !errors.Is(err, ErrWrong) {
			t.Fatal(err)
		}
	}
	if err := g.Try(t.Context(), "ada", "192.0.2.1", right); !errors.Is(err, ErrLocked) {
		t.Error("after five failures:", err)
	}
	if err := g.Try(t.Context(), "grace", "192.0.2.1", right); err != nil {
		t.Error("another account:", err)
	}
	now = now.Add(15 * time.Minute)
	if err := g.Try(t.Context(), "ada", "192.0.2.1", right); err != nil {
		t.Error("a window later:", err)
	}
}

func TestParallelGuesses(t *testing.T) {
	t.Parallel()
	g := newGuard(t, nil)
	var looked atomic.Int64
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			g.Try(t.Context(), "ada", fmt.Sprint("address-", i), func(context.Context) (bool, error) {
				looked.Add(1)
				return false, nil
			})
		})
	}
	wg.Wait()
	if looked.Load() != 5 {
		t.Errorf("%d passwords were looked at, the limit is 5", looked.Load())
	}
}

func TestTroubleIsNoFailure(t *testing.T) {
	t.Parallel()
	g := newGuard(t, nil)
	down := errors.New("the database is down")
	for range 10 {
		err := g.Try(t.Context(), "ada", "192.0.2.1", func(context.Context) (bool, error) { return false, down })
		if !errors.Is(err, down) {
			t.Fatal(err)
		}
	}
	if err := g.Try(t.Context(), "ada", "192.0.2.1", right); err != nil {
		t.Error(err)
	}
}
