package guide

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func Example_first() {
	ctx := context.Background()
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()

	chat := ration.TokenBucket{Burst: 2, Refill: ration.PerMinute(10)}
	d, err := limiter.Take(ctx, ration.KeyOf("user-42"), chat, 1)
	switch {
	case err != nil:
		fmt.Println("could not tell:", err)
	case !d.Allowed:
		fmt.Println("refused, try again in", d.RetryAfter)
	default:
		fmt.Println("go ahead,", d.Remaining, "left")
	}
	// Output: go ahead, 1 left
}

func newLimiter(t *testing.T) *ration.Limiter {
	limiter := ration.New(memstore.New(nil), nil)
	t.Cleanup(func() { limiter.Close() })
	return limiter
}

func TestKeys(t *testing.T) {
	userID, serverID, orgID := "ada", "guild-1", "acme"
	user := ration.KeyOf(userID)
	member := ration.KeyOf(serverID, userID)        // not the key of any other list of parts
	everybody := ration.Global                      // one count for all
	tenant := ration.KeyOf(orgID, userID).In(orgID) // placed with the other keys of the group
	seen := map[ration.Key]bool{}
	for _, key := range []ration.Key{user, member, everybody, tenant, ration.KeyOf(serverID), ration.KeyOf(orgID, userID)} {
		if seen[key] {
			t.Errorf("%v is twice there", key)
		}
		seen[key] = true
	}
}

func TestLimits(t *testing.T) {
	for want, limit := range map[string]ration.Limit{
		"bucket 10/1m burst 20": ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)},
		"sliding 3/24h":         ration.SlidingWindow{Limit: 3, Window: 24 * time.Hour},
		"fixed 100/1m":          ration.FixedWindow{Limit: 100, Window: time.Minute},
		"budget 5000000/month Europe/Berlin from day 15 06:00": ration.Budget{
			Limit: 5_000_000, Period: ration.Month, Zone: "Europe/Berlin", Day: 15, Hour: 6,
		},
		"concurrent 5 lease 30s": ration.Concurrency{Limit: 5, Lease: 30 * time.Second},
	} {
		if err := limit.Validate(); err != nil || limit.String() != want {
			t.Errorf("%q: %v", limit, err)
		}
		back, err := ration.ParseLimit(want)
		if err != nil || back != limit {
			t.Errorf("%q: %v %v", want, back, err)
		}
	}
}

var (
	requests = ration.Rule{Name: "requests", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(60)}}
	tokens   = ration.Rule{Name: "tokens", Limit: ration.TokenBucket{Burst: 10_000, Refill: ration.PerMinute(50_000)}}
	userDay  = ration.Rule{Name: "user-day", Limit: ration.Budget{Limit: 100_000, Period: ration.Day, Zone: "Europe/Berlin"}}
	orgMonth = ration.Rule{Name: "org-month", Limit: ration.Budget{Limit: 5_000_000, Period: ration.Month}}
)

func TestList(t *testing.T) {
	limiter, ctx := newLimiter(t), t.Context()
	org, userID, n := "acme", "ada", int64(700)
	answer := func() error {
		user := ration.KeyOf(userID)
		o, err := limiter.TakeAll(ctx,
			user.Charge(requests, 1), user.Charge(tokens, n),
			user.Charge(userDay, n), ration.KeyOf(org).Charge(orgMonth, n))
		if err != nil {
			return err
		}
		if !o.Allowed {
			return fmt.Errorf("over the limit %s until %v", o.Name, o.RetryAt())
		}
		return nil
	}
	if err := answer(); err != nil {
		t.Error(err)
	}
	n = 9_900
	if err := answer(); err == nil {
		t.Error("it is over")
	}
}

// status is what a service answers.
func status(d ration.Decision, err error) int {
	switch {
	case errors.Is(err, ration.ErrInvalidKey):
		return http.StatusUnauthorized // an identity got lost
	case errors.Is(err, ration.ErrOutcomeUnknown):
		log.Print("it may have been charged: ", err)
		return http.StatusServiceUnavailable
	case err != nil:
		return http.StatusServiceUnavailable
	case d.Never:
		return http.StatusRequestEntityTooLarge // waiting would not help
	case !d.Allowed:
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

func TestStatus(t *testing.T) {
	limiter := newLimiter(t)
	limit := ration.SlidingWindow{Limit: 2, Window: time.Minute}
	for i, c := range []struct {
		id   string
		cost int64
		want int
	}{{"ada", 2, 200}, {"ada", 1, 429}, {"ada", 3, 413}, {"", 1, 401}, {"grace", -1, 503}} {
		if got := status(limiter.Take(t.Context(), ration.KeyOf(c.id), limit, c.cost)); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, ctx := newLimiter(t), t.Context()
		key, pace, urls := ration.KeyOf("crawler"), ration.TokenBucket{Burst: 1, Refill: ration.Every(time.Second)}, []string{"a", "b"}
		fetch := func(string) error { return nil }
		crawl := func() error {
			for _, url := range urls {
				if err := limiter.Wait(ctx, key, pace, 1); err != nil {
					return err // a *ration.RefusedError: it would not pass before ctx ends
				}
				if err := fetch(url); err != nil {
					return err
				}
			}
			return nil
		}
		if err := crawl(); err != nil {
			t.Error(err)
		}
	})
}

func TestRefund(t *testing.T) {
	limiter, ctx, key := newLimiter(t), t.Context(), ration.KeyOf("ada")
	award := ration.Rule{Name: "award", Limit: ration.SlidingWindow{Limit: 3, Window: 24 * time.Hour}}
	work := func() error { return errors.New("revoked") }
	try := func() error {
		d, err := limiter.Take(ctx, key, award, 1)
		if err != nil || !d.Allowed {
			return err
		}
		if err := work(); err != nil {
			_, back := limiter.Refund(ctx, key, award, 1, d.At)
			return errors.Join(err, back)
		}
		return nil
	}
	if err := try(); err == nil {
		t.Error("the work failed")
	}
	if d, err := limiter.Peek(ctx, key, award, 3); err != nil || !d.Allowed {
		t.Error(d, err)
	}
}

// With memstore in a bubble of synctest nothing is injected: minutes take no time.
func TestMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := ration.New(memstore.New(nil), nil)
		defer limiter.Close()
		slow := ration.SlidingWindow{Limit: 1, Window: time.Minute}
		start := time.Now()
		for range 3 {
			if err := limiter.Wait(t.Context(), ration.KeyOf("ada"), slow, 1); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(start); waited != 2*time.Minute {
			t.Errorf("waited %v", waited)
		}
	})
}

// With any other store the clock is injected.
func TestMidnight(t *testing.T) {
	now := time.Date(2026, time.March, 28, 23, 59, 0, 0, time.UTC)
	limiter := ration.New(memstore.New(nil), &ration.Options{Clock: func() time.Time { return now }})
	defer limiter.Close()
	daily := ration.Budget{Limit: 1, Period: ration.Day, Zone: "Europe/Berlin"}
	for range 2 {
		if d, err := limiter.Take(t.Context(), ration.KeyOf("ada"), daily, 1); err != nil || !d.Allowed {
			t.Error(d, err)
		}
		now = now.Add(23 * time.Hour) // the clocks go forward that night: this day has 23 hours
	}
}

func TestNamespace(t *testing.T) {
	store, secret := memstore.New(nil), []byte("at least sixteen bytes")
	limiter := ration.New(store, &ration.Options{
		Namespace: "shop", // another application's keys are not ours
		KeySecret: secret, // the store sees HMAC-SHA-256 of our keys
	})
	defer limiter.Close()
	if _, err := limiter.Take(t.Context(), ration.KeyOf("ada"), requests, 1); err != nil {
		t.Error(err)
	}
}

func TestObserver(t *testing.T) {
	store, count := memstore.New(nil), map[string]int{}
	limiter := ration.New(store, &ration.Options{Observer: &ration.Observer{
		Decided: func(_ context.Context, e ration.Event) {
			count[fmt.Sprint(e.Verb, " ", e.Decision.Name, " ", e.Decision.Allowed)]++ // never the key
		},
	}})
	defer limiter.Close()
	if _, err := limiter.Take(t.Context(), ration.KeyOf("ada"), requests, 1); err != nil || count["take requests true"] != 1 {
		t.Error(count, err)
	}
}

// stream charges an estimate, follows the answer as it comes, and settles what it really used.
func stream(ctx context.Context, limiter *ration.Limiter, org, user string, estimate int64, chunks <-chan int64) error {
	r, err := limiter.Reserve(ctx, &ration.ReserveOptions{TTL: 2 * time.Minute},
		ration.KeyOf(org, user).In(org).Charge(userDay, estimate),
		ration.KeyOf(org).In(org).Charge(orgMonth, estimate))
	if err != nil {
		return err
	}
	if !r.Allowed {
		return fmt.Errorf("over the budget %s until %v", r.Name, r.RetryAt())
	}
	defer r.Cancel(ctx) // gives back what Progress has not reported; after Settle it does nothing
	used := int64(0)
	for n := range chunks {
		used += n
		if ok, err := r.Progress(ctx, used); err != nil || !ok {
			break
		}
	}
	return r.Settle(ctx, used)
}

func TestStream(t *testing.T) {
	limiter, chunks := newLimiter(t), make(chan int64, 3)
	for range cap(chunks) {
		chunks <- 100
	}
	close(chunks)
	if err := stream(t.Context(), limiter, "acme", "ada", 1000, chunks); err != nil {
		t.Fatal(err)
	}
	d, err := limiter.Peek(t.Context(), ration.KeyOf("acme").In("acme"), orgMonth, 0)
	if err != nil || d.Used != 300 {
		t.Error(d.Used, err)
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	limiter := ration.New(store, &ration.Options{
		Timeout: 200 * time.Millisecond, // of each store call
		OnError: ration.LocalOnError,
		Outage:  &ration.Outage{Parts: 4}, // four processes: together at most one limit more
	})
	defer limiter.Close()
	if d, err := limiter.Take(t.Context(), ration.KeyOf("ada"), ration.FixedWindow{Limit: 1, Window: time.Hour}, 1); err != nil || !d.Allowed {
		t.Error(d, err)
	}
}
