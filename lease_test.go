package ration_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-go/ration"
)

// crowd is processes on one store, each of its own lease.
func leaseCrowd(t *testing.T, s *distant, n int) (all []*ration.Limiter) {
	for range n {
		all = append(all, ration.New(plainClose{s}, nil))
	}
	t.Cleanup(func() {
		for _, l := range all {
			l.Close()
		}
	})
	return all
}

// Many processes admit exactly the limit: never more at any moment, and all of it once leases have come back.
func TestLeaseExact(t *testing.T) {
	t.Parallel()
	for _, limit := range []ration.Limit{
		ration.FixedWindow{Limit: 10_000, Window: time.Hour},
		ration.SlidingWindow{Limit: 10_000, Window: time.Hour},
		ration.Budget{Limit: 10_000, Period: ration.Month},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newDistant()
			rule := ration.Rule{Name: "hot", Limit: limit, Lease: 100}
			var mu sync.Mutex
			var work sync.WaitGroup
			admitted := int64(0)
			for _, l := range leaseCrowd(t, s, 4) {
				for range 8 {
					work.Go(func() {
						for refused := 0; refused < 5; {
							cost := 1 + rand.Int64N(3)
							if refused > 0 {
								cost = 1
							}
							d, err := l.Take(ctx, ration.KeyOf("k"), rule, cost)
							if err != nil {
								t.Error(err)
								return
							}
							if !d.Allowed {
								refused++
								time.Sleep(2 * time.Second) // leases come back
								continue
							}
							mu.Lock()
							if admitted += cost; admitted > 10_000 || d.Used < 0 || d.Used > 10_000 || d.Remaining != 10_000-d.Used {
								t.Errorf("%d admitted, %+v", admitted, d)
							}
							mu.Unlock()
							time.Sleep(time.Duration(rand.Int64N(int64(5 * time.Millisecond))))
						}
					})
				}
			}
			work.Wait()
			if admitted != 10_000 {
				t.Errorf("%v: admitted %d of 10000", limit, admitted)
			}
			if calls := s.calls.Load(); calls > 3000 {
				t.Errorf("%v: %d calls of the store", limit, calls)
			}
		})
	}
}

// Limits that give room again are kept at every moment: what is served was charged at an earlier one.
func TestLeaseInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit ration.Limit
		most  func(d time.Duration) int64 // in any span of this length
		span  time.Duration
	}{
		{ration.SlidingWindow{Limit: 300, Window: 2 * time.Second}, func(time.Duration) int64 { return 300 }, 2 * time.Second},
		{ration.TokenBucket{Burst: 1000, Refill: ration.PerSecond(700)}, func(d time.Duration) int64 { return 1000 + int64(700*d.Seconds()) }, 1500 * time.Millisecond},
		{ration.TokenBucket{Burst: 1000, Refill: ration.PerSecond(700)}, func(d time.Duration) int64 { return 1000 + int64(700*d.Seconds()) }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newDistant()
			rule := ration.Rule{Name: "hot", Limit: c.limit, Lease: 50}
			var mu sync.Mutex
			var work sync.WaitGroup
			var admitted []time.Time
			end := time.Now().Add(20 * time.Second)
			for _, l := range leaseCrowd(t, s, 3) {
				for range 3 {
					work.Go(func() {
						for time.Now().Before(end) {
							if d, err := l.Take(ctx, ration.KeyOf("k"), rule, 1); err != nil {
								t.Error(err)
								return
							} else if d.Allowed {
								mu.Lock()
								admitted = append(admitted, time.Now())
								mu.Unlock()
							}
							wait := 4 * time.Millisecond
							if rand.IntN(200) == 0 {
								wait = 3 * time.Second // and then all of it at once
							}
							time.Sleep(time.Duration(rand.Int64N(int64(wait))))
						}
					})
				}
			}
			work.Wait()
			slices.SortFunc(admitted, time.Time.Compare)
			first := 0
			for last := range admitted {
				for admitted[last].Sub(admitted[first]) >= c.span && c.span > 0 {
					first++
				}
				if n, most := int64(last-first+1), c.most(admitted[last].Sub(admitted[first])); n > most {
					t.Fatalf("%v: %d admitted in %v, at most %d", c.limit, n, admitted[last].Sub(admitted[first]), most)
				}
			}
			if len(admitted) < 2000 {
				t.Errorf("%v: only %d admitted in 20 s", c.limit, len(admitted))
			}
		})
	}
}

// A lease ends with the window that was charged.
func TestLeaseEndsWithWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		rule := ration.Rule{Name: "hot", Limit: ration.FixedWindow{Limit: 1000, Window: 300 * time.Millisecond}, Lease: 200}
		l := leaseCrowd(t, s, 1)[0]
		served, refused := map[time.Time]int{}, int64(0)
		for range 20_000 {
			d, err := l.Take(ctx, ration.KeyOf("k"), rule, 1)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				refused++
			} else {
				if served[d.ResetAt()]++; served[d.ResetAt()] > 1000 || !time.Now().Before(d.ResetAt()) {
					t.Fatalf("%d served of the window that ends at %v, at %v", served[d.ResetAt()], d.ResetAt(), time.Now())
				}
			}
			time.Sleep(time.Duration(rand.Int64N(int64(400 * time.Microsecond))))
		}
		if calls := s.calls.Load() - refused; calls > 3000 {
			t.Errorf("%d calls of the store for %d uses", calls, 20_000-refused)
		}
	})
}

// What a process has ahead comes back when it is idle and when it closes, and not when it dies.
func TestLeaseComesBack(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"idle", "close", "kill"} {
		synctest.Test(t, func(t *testing.T) {
			s := newDistant()
			key, rule := ration.KeyOf("k"), ration.Rule{Name: "hot", Limit: ration.FixedWindow{Limit: 100_000, Window: time.Hour}, Lease: 1000}
			other := leaseCrowd(t, s, 1)[0]
			l := ration.New(plainClose{s}, nil)
			defer l.Close()
			taken := int64(0)
			for range 5000 {
				d, err := l.Take(ctx, key, rule, 1)
				if err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				// What is being fetched ahead may count already.
				if taken++; d.Used < taken || d.Used > taken+1000 || d.Remaining != 100_000-d.Used {
					t.Fatalf("%d taken: %+v", taken, d)
				}
			}
			synctest.Wait() // for what is being fetched
			if d, err := l.Peek(ctx, key, rule, 1); err != nil || d.Used != taken {
				t.Errorf("own peek after %d: %+v, %v", taken, d, err)
			}
			d, err := other.Peek(ctx, key, rule, 1)
			if err != nil || d.Used < taken || d.Used > taken+2000 {
				t.Errorf("another's peek after %d: %+v, %v", taken, d, err)
			}
			stranded := d.Used
			switch how {
			case "idle":
				time.Sleep(time.Second)
				synctest.Wait()
			case "close":
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			case "kill":
				s.cut(errDead) // nothing of it reaches the store any more
				l.Close()
				s.mend()
				time.Sleep(2 * time.Second)
			}
			want := taken
			if how == "kill" {
				want = stranded
			}
			if d, err := other.Peek(ctx, key, rule, 1); err != nil || d.Used != want {
				t.Errorf("%s: %+v, %v; want %d used", how, d, err, want)
			}
		})
	}
}

// Uses that were leased can be given back like others, and few uses are not leased at all.
func TestLeaseRefund(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		key, rule := ration.KeyOf("k"), ration.Rule{Name: "hot", Limit: ration.SlidingWindow{Limit: 100_000, Window: time.Hour}, Lease: 1000}
		l := leaseCrowd(t, s, 1)[0]
		for i := range 500 {
			d, err := l.Take(ctx, key, rule, 1)
			if err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			if i%5 != 0 {
				continue
			}
			if given, err := l.Refund(ctx, key, rule, 1, d.At); err != nil || given != 1 {
				t.Fatalf("use %d: given back %d, %v", i, given, err)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if d, err := l.Peek(ctx, key, rule, 1); err != nil || d.Used != 400 {
			t.Errorf("%+v, %v", d, err)
		}
		before := s.calls.Load()
		for i := range 100 {
			if _, err := l.Take(ctx, ration.KeyOf(fmt.Sprint(i)), rule, 1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := s.calls.Load() - before; n != 100 {
			t.Errorf("%d calls for 100 keys of one use", n)
		}
	})
}

func TestRememberRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		l := outageLimiter(t, s, ration.Options{RememberRefusals: time.Minute}) // a second at most
		key, limit := ration.KeyOf("k"), ration.SlidingWindow{Limit: 3, Window: 1500 * time.Millisecond}
		l.Take(ctx, key, limit, 3)
		first, err := l.Take(ctx, key, limit, 2)
		if err != nil || first.Allowed || first.RetryAfter != 1500*time.Millisecond {
			t.Fatalf("%+v, %v", first, err)
		}
		calls := s.calls.Load()
		for range 10 {
			time.Sleep(90 * time.Millisecond)
			d, err := l.Take(ctx, key, limit, 3)
			if err != nil || d.Allowed || !d.RetryAt().Equal(first.RetryAt()) || !d.At.Equal(time.Now().UTC()) || d.Used != 3 {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if n := s.calls.Load(); n != calls {
			t.Errorf("%d calls for what was known", n-calls)
		}
		for what, ask := range map[string]func(){
			"a smaller cost": func() { l.Take(ctx, key, limit, 1) },
			"a peek":         func() { l.Peek(ctx, key, limit, 3) },
			"another limit":  func() { l.Take(ctx, key, ration.SlidingWindow{Limit: 2, Window: 1500 * time.Millisecond}, 2) },
			"a cost of none": func() { l.Take(ctx, key, limit, 0) },
			"what never fits": func() {
				if d, err := l.Take(ctx, key, limit, 4); err != nil || !d.Never {
					t.Errorf("%+v, %v", d, err)
				}
			},
		} {
			before := s.calls.Load()
			if ask(); s.calls.Load() != before+1 {
				t.Errorf("%s was not asked", what)
			}
		}
		time.Sleep(first.RetryAt().Sub(time.Now()))
		if d, err := l.Take(ctx, key, limit, 2); err != nil || !d.Allowed {
			t.Errorf("at its time: %+v, %v", d, err)
		}
		if d, _ := l.Take(ctx, key, limit, 2); d.Allowed {
			t.Error("not refused")
		}
		if err := l.Reset(ctx, key, limit); err != nil {
			t.Error(err)
		}
		if d, err := l.Take(ctx, key, limit, 2); err != nil || !d.Allowed {
			t.Errorf("after a reset: %+v, %v", d, err)
		}
	})
}
