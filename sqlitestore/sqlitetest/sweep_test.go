package sqlitetest

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

// brief is a hit in a window of a millisecond on the server's clock.
func brief(id string) *driver.Txn {
	txn := hit(id, 1)
	txn.Ops[0].Span = 1000
	return txn
}

// until calls f each millisecond until it is true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !f(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

func TestSweepFollowsTheServersClock(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		s := open(t, engine, file(t), nil)
		const keys = 1300 // some steps
		var batch []*driver.Txn
		for i := range keys {
			batch = append(batch, brief(fmt.Sprint("k", i)))
		}
		apply(t, s, batch...)
		apply(t, s, hit("stays", 5))
		old, coming := hit("old", 5), hit("coming", 5)
		old.Now, coming.Now = 1e15, 4e15 // 2001 and 2096
		apply(t, s, old, coming)

		dropped := 0
		until(t, "all expired rows are swept", func() bool {
			n, err := s.Sweep(t.Context(), 0, 300)
			if err != nil || n > 300 {
				t.Fatalf("Sweep answered %d, %v", n, err)
			}
			dropped += n
			return dropped >= keys
		})
		// A day after the window of 2001 its row may go, but not by the server's clock alone.
		for _, c := range []struct {
			now  driver.Micros
			want int
		}{{0, 0}, {1e15 + hour - 1, 0}, {1e15 + hour, 1}, {4e15 + hour - 1, 0}, {4e15 + hour, 1}, {driver.MaxNow, 0}} {
			if n, err := s.Sweep(t.Context(), c.now, math.MaxInt); err != nil || n != c.want {
				t.Errorf("Sweep(%d) removed %d, not %d (%v)", c.now, n, c.want, err)
			}
		}
		if n := used(t, s, "stays"); n != 5 {
			t.Errorf("a window of an hour had 5 uses, and has %d after sweeps", n)
		}
	})
}

// TestBackgroundSweep: rows go without anybody's doing, but not those of an injected clock; two stores share the work.
func TestBackgroundSweep(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		opts := &sqlitestore.Options{SweepEvery: 10 * time.Millisecond}
		one := open(t, engine, path, opts)
		open(t, engine, path, opts)
		old := hit("old", 5)
		old.Now = 1e15
		apply(t, one, old, hit("stays", 5))
		for i := range 100 {
			apply(t, one, brief(fmt.Sprint("k", i)))
		}
		db := openDB(t, engine, path)
		until(t, "only what counts is left", func() bool {
			var n int
			if err := db.QueryRow(`SELECT count(*) FROM ration_states`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n == 2
		})
		again := hit("old", 1)
		again.Now = 1e15 + hour - 1
		apply(t, one, again)
		if n := again.Ops[0].Result.Used; n != 6 {
			t.Errorf("a count in an old log should have gone from 5 to 6, and went to %d", n)
		}
	})
}

// TestOnePassForAll: a store that finds that another process has just begun a pass leaves it the work.
func TestOnePassForAll(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		open(t, engine, path, nil)
		db := openDB(t, engine, path)
		for _, begun := range []time.Duration{time.Minute, 2 * time.Hour} {
			at := driver.MicrosOf(time.Now().Add(-begun))
			if _, err := db.Exec(`UPDATE ration_meta SET value = ? WHERE name = 'sweep'`, int64(at)); err != nil {
				t.Fatal(err)
			}
			looked := make(chan struct{}, 1)
			var claims atomic.Int64
			pool := openFaulty(t, engine, path, func(text string) error {
				switch {
				case strings.HasPrefix(text, "SELECT value <= "):
					looked <- struct{}{}
				case strings.HasPrefix(text, "UPDATE ration_meta"):
					claims.Add(1)
				}
				return nil
			})
			s, err := sqlitestore.New(t.Context(), pool, &sqlitestore.Options{SweepEvery: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			<-looked
			until(t, "the claim is made", func() bool { return begun < time.Hour || claims.Load() > 0 })
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if n := claims.Load(); begun < time.Hour && n > 0 {
				t.Errorf("a pass that began %v ago is enough for an hour, but another was claimed", begun)
			}
		}
	})
}

// TestForgetWithinABatch: what a batch made is forgotten by the same batch, under names that nobody has committed yet.
func TestForgetWithinABatch(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		s := open(t, engine, file(t), nil)
		forget := &driver.Txn{Verb: driver.Forget, Ops: []driver.Op{{Key: driver.Key{ID: "a"}}}}
		first, second := hit("a", 3), hit("a", 4)
		apply(t, s, first, take("a", 9, 9), hit("b", 5), forget, second)
		if n := second.Ops[0].Result.Used; n != 4 {
			t.Errorf("after a Forget 4 should be used, but %d are", n)
		}
		if a, b := used(t, s, "a"), used(t, s, "b"); a != 4 || b != 5 {
			t.Errorf("4 and 5 should be used, but %d and %d are", a, b)
		}
		if txn := take("a", 9, 9); true {
			if apply(t, s, txn); !txn.Allowed {
				t.Error("the other name's state should be forgotten too")
			}
		}
	})
}

// TestBigBatch: more keys than one statement takes, some of them several times.
func TestBigBatch(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		s := open(t, engine, file(t), nil)
		var batch []*driver.Txn
		for i := range 1000 {
			batch = append(batch, hit(fmt.Sprint("k", i%700), int64(i)))
		}
		apply(t, s, batch...)
		var read []*driver.Txn
		for i := range 700 {
			read = append(read, hit(fmt.Sprint("k", i), 0))
		}
		apply(t, s, read...)
		for i, txn := range read {
			want := int64(i)
			if i < 300 {
				want += int64(i) + 700
			}
			if n := txn.Ops[0].Result.Used; n != want {
				t.Errorf("key %d has %d, not %d", i, n, want)
			}
		}
	})
}
