package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		exit(asWorker())
	}
	os.Exit(m.Run())
}

// TestProgram runs it all, with a worker that is killed.
func TestProgram(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), 200, 3, filepath.Join(t.TempDir(), "budgets.db"), &out); err != nil {
		t.Error(err)
	}
	t.Log("\n" + out.String())
	for _, want := range []string{"one of 4 workers killed: true", "of $8.000000", "holds    0 left"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

func newService(t *testing.T) *Service {
	limiter := ration.New(memstore.New(nil), nil)
	t.Cleanup(func() { limiter.Close() })
	return &Service{Limiter: limiter, Price: 100, Hold: time.Minute}
}

func (s *Service) used(t *testing.T, user string) int64 {
	t.Helper()
	d, err := s.Limiter.Peek(t.Context(), userKey("acme", user), userMonth, 0)
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
		n             int
		tokens, total int64
	}{{3, 100, 300}, {0, 0, 300}, {30, 300, 1200}, {30, 500, 2200}} { // less than was reserved, nothing, and cut off
		before := s.used(t, "ada")
		spent, err := s.Answer(t.Context(), "acme", "ada", 1000, says(c.n, c.tokens), quiet)
		if err != nil || spent != s.used(t, "ada")-before {
			t.Fatal(spent, err)
		}
		if got := s.used(t, "ada"); got != c.total*s.Price {
			t.Errorf("%d used, want %d", got, c.total*s.Price)
		}
	}
}

func TestReaderHangsUp(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ctx, hangUp := context.WithCancel(t.Context())
	sent := 0
	_, err := s.Answer(ctx, "acme", "ada", 5000, says(100, 10), func(string) {
		if sent++; sent == 3 {
			hangUp()
		}
	})
	if err != nil || sent != 3 {
		t.Errorf("%d sent, %v", sent, err)
	}
	if got := s.used(t, "ada"); got != 30*s.Price {
		t.Errorf("%d used, want what was sent: 30 tokens", got)
	}
}

// TestModelFails: what was said before is paid for; when it panics, what was reported.
func TestModelFails(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.Hold = time.Second
	broken := errors.New("the model is down")
	_, err := s.Answer(t.Context(), "acme", "ada", 1000, func(_ context.Context, emit func(string, int64) bool) error {
		emit("word", 7)
		return broken
	}, quiet)
	if got := s.used(t, "ada"); !errors.Is(err, broken) || got != 7*s.Price {
		t.Error(got, err)
	}
	func() {
		defer func() { recover() }()
		s.Answer(t.Context(), "acme", "bob", 1000, func(context.Context, func(string, int64) bool) error { panic("boom") }, quiet)
	}()
	if got := s.used(t, "bob"); got != 0 {
		t.Error(got)
	}
}

func TestParallelAnswers(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var running atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	start := make(chan struct{}) // when as many as fit hold what they may use
	for range 16 {
		wg.Go(func() {
			_, err := s.Answer(t.Context(), "acme", "ada", 1200, func(context.Context, func(string, int64) bool) error {
				n := running.Add(1)
				defer running.Add(-1)
				if n > 8 {
					t.Errorf("%d hold 12 cents of a dollar at one time", n)
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
	over := func(team, user string, tokens int64, want string) {
		t.Helper()
		_, err := s.Answer(t.Context(), team, user, tokens, says(1<<20, 1), quiet)
		no, ok := errors.AsType[*OverBudgetError](err)
		if want != "" && (!ok || no.Rule != want || no.Until.Before(time.Now())) || want == "" && err != nil {
			t.Errorf("%s of %s: %v, want %q", user, team, err, want)
		}
	}
	over("acme", "ada", 10_001, "user-month")
	for i := range 4 {
		over("acme", fmt.Sprint("user", i), 10_000, "")
	}
	over("acme", "ada", 1, "team-month")
	for i := range 4 {
		over("other", fmt.Sprint("user", i), 10_000, "")
	}
	over("third", "ada", 1, "all-month")
}
