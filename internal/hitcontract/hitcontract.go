// Package hitcontract is what users of a bare counter rely on, as tests of ration.Limiter's Hit over any store: counts are
// exact and in 64 bits, keys are apart and opaque, windows are fixed when they open. It is for tests only.
package hitcontract

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration"
)

// Run tests a Limiter with an empty store. trips, if not nil, answers how many round trips it has made.
func Run(t *testing.T, l *ration.Limiter, trips func() int64) {
	t.Helper()
	c := contract{l}
	t.Run("adds within a window", func(t *testing.T) {
		c.hit(t, "a", time.Minute, 1, 1)
		c.hit(t, "a", time.Minute, 5, 6)
	})
	t.Run("reads with 0", func(t *testing.T) {
		c.hit(t, "b", time.Minute, 2, 2)
		c.hit(t, "b", time.Minute, 0, 2)
		c.hit(t, "b", time.Minute, 0, 2)
		c.hit(t, "nothing", time.Minute, 0, 0)
	})
	t.Run("keeps keys apart", func(t *testing.T) {
		c.hit(t, "c", time.Minute, 3, 3)
		c.hit(t, "d", time.Minute, 1, 1)
	})
	t.Run("reports the time left", func(t *testing.T) {
		if left := c.hit(t, "e", time.Minute, 1, 1); left <= 0 || left > time.Minute {
			t.Fatalf("%v left of a minute", left)
		}
		if left := c.hit(t, "e", time.Hour, 1, 2); left > time.Minute {
			t.Fatalf("%v left: a window keeps its end", left)
		}
	})
	t.Run("refunds", func(t *testing.T) {
		c.hit(t, "f", time.Minute, 3, 3)
		c.hit(t, "f", time.Minute, -1, 2)
		c.hit(t, "f", time.Minute, -5, -3) // not clamped
	})
	t.Run("restarts after the window", func(t *testing.T) {
		left := c.hit(t, "g", time.Second, 3, 3)
		<-time.After(left + 10*time.Millisecond)
		c.hit(t, "g", time.Second, 1, 1)
	})
	t.Run("never loses an update", func(t *testing.T) { c.parallel(t) })
	t.Run("counts in 64 bits", func(t *testing.T) {
		c.hit(t, "big", 30*24*time.Hour, 1<<40, 1<<40)
		c.hit(t, "big", 30*24*time.Hour, 1<<52, 1<<40+1<<52)
		if left := c.hit(t, "big", time.Minute, 1, 1<<40+1<<52+1); left <= 29*24*time.Hour {
			t.Fatalf("%v left of 30 days", left)
		}
	})
	t.Run("takes keys as they are", func(t *testing.T) {
		long := strings.Repeat("chat:203.0.113.7:{é}% \x00\n", 30)
		for i, key := range []string{long, long + "1", long + "2", "a:b", "a", ":", "{c}", "{d}"} {
			c.hit(t, key+"!", time.Minute, int64(i+1), int64(i+1))
		}
	})
	if trips != nil {
		t.Run("one round trip", func(t *testing.T) {
			for range 3 {
				c.hit(t, "trip", time.Minute, 0, 0)
			}
			before := trips()
			c.hit(t, "trip", time.Minute, 1, 1)
			c.hit(t, "trip", time.Minute, 0, 1)
			if n := trips() - before; n != 2 {
				t.Fatalf("2 hits made %d round trips", n)
			}
		})
	}
}

type contract struct{ l *ration.Limiter }

func (c contract) hit(t *testing.T, key string, window time.Duration, n, want int64) (left time.Duration) {
	t.Helper()
	count, left, err := c.l.Hit(context.Background(), ration.KeyOf(key), window, n)
	if err != nil || count != want {
		t.Fatalf("a hit of %d counts %d, %v; want %d", n, count, err, want)
	}
	return left
}

func (c contract) parallel(t *testing.T) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var counts []int64
	for range 50 {
		wg.Go(func() {
			n, _, err := c.l.Hit(context.Background(), ration.KeyOf("h"), time.Minute, 1)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			counts = append(counts, n)
		})
	}
	wg.Wait()
	slices.Sort(counts)
	for i, n := range counts {
		if n != int64(i+1) {
			t.Fatalf("50 hits at once answer %v", counts)
		}
	}
}
