package llm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func newService(t *testing.T) *Service {
	limiter := ration.New(memstore.New(nil), nil)
	t.Cleanup(func() { limiter.Close() })
	return &Service{Limiter: limiter}
}

func (s *Service) used(t *testing.T, user string) int64 {
	t.Helper()
	d, err := s.Limiter.Peek(t.Context(), ration.KeyOf("acme", user).In("acme"), userDay, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Used
}

// says is a model that answers n chunks of so many tokens.
func says(n int, tokens int64) Model {
	return func(_ context.Context, emit func(string, int64) bool) error {
		for range n {
			if !emit("word", tokens) {
				break
			}
		}
		return nil
	}
}

func quiet(string) {}

func TestChargesWhatWasUsed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, c := range []struct {
		n      int
		tokens int64
		total  int64
	}{{3, 100, 300}, {30, 100, 3300}, {0, 0, 3300}} { // less than the estimate, more, and nothing
		if err := s.Answer(t.Context(), "acme", "ada", 1000, says(c.n, c.tokens), quiet); err != nil {
			t.Fatal(err)
		}
		if got := s.used(t, "ada"); got != c.total {
			t.Errorf("%d used, want %d", got, c.total)
		}
	}
}

func TestReaderHangsUp(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ctx, hangUp := context.WithCancel(t.Context())
	sent := 0
	err := s.Answer(ctx, "acme", "ada", 50_000, says(100, 10), func(string) {
		if sent++; sent == 3 {
			hangUp()
		}
	})
	if err != nil || sent != 3 {
		t.Errorf("%d sent, %v", sent, err)
	}
	if got := s.used(t, "ada"); got != 30 {
		t.Errorf("%d used, want what was sent: 30", got)
	}
}

func TestParallelAnswers(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var running atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	start := make(chan struct{}) // when as many as fit hold their estimate
	for range 16 {
		wg.Go(func() {
			err := s.Answer(t.Context(), "acme", "ada", 12_000, func(context.Context, func(string, int64) bool) error {
				n := running.Add(1)
				defer running.Add(-1)
				if n > 8 {
					t.Errorf("%d hold 12 000 tokens of 100 000 at one time", n)
				}
				if n == 8 {
					once.Do(func() { close(start) })
				}
				<-start
				return nil
			}, quiet)
			if _, over := errors.AsType[*OverBudgetError](err); err != nil && !over {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := s.used(t, "ada"); got != 0 {
		t.Errorf("%d used by nobody", got)
	}
}

func TestOverBudget(t *testing.T) {
	t.Parallel()
	s := newService(t)
	err := s.Answer(t.Context(), "acme", "ada", 90_000, says(200, 1000), quiet)
	over, ok := errors.AsType[*OverBudgetError](err)
	if !ok || over.Rule != "user-day" || s.used(t, "ada") != 101_000 {
		t.Fatal(err, s.used(t, "ada"))
	}
	if err := s.Answer(t.Context(), "acme", "ada", 1, says(1, 1), quiet); err == nil {
		t.Error("the day is used up")
	}
	if err := s.Answer(t.Context(), "acme", "grace", 1, says(1, 1), quiet); err != nil {
		t.Error("another user:", err)
	}
}
