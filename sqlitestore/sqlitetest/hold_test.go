package sqlitetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/holdcontract"
	"github.com/ration-go/ration/storetest"
)

// TestHoldContract has two handles of one file, and loses what one of them answers.
func TestHoldContract(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		var calls, lose, lost atomic.Int64
		faulty := storetest.WithFaults(open(t, engine, path, nil), func(context.Context, []*driver.Txn) (f storetest.Fault) {
			calls.Add(1)
			if lose.Add(-1) >= 0 {
				lost.Add(1)
				f.LoseReply = errors.New("the reply was lost")
			}
			return f
		})
		holdcontract.Run(t, holdcontract.Subject{
			Limiter: ration.New(faulty, nil),
			Another: ration.New(open(t, engine, path, nil), nil),
			Trips:   calls.Load,
			Lose:    func(n int) { lose.Store(int64(n)) },
			Lost:    lost.Load,
		})
	})
}

// TestDamagedStateOfExpiredHold: a state that is not ours, to which an expired hold is to give back, is the trouble of those
// alone who need it.
func TestDamagedStateOfExpiredHold(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		const at driver.Micros = 1e15
		hold := reserve("a", 5, true, second)
		hold.Now = at
		apply(t, s, hold)
		if _, err := openDB(t, engine, path).Exec(`UPDATE ration_states SET state = x'00ff00'`); err != nil {
			t.Fatal(err)
		}
		end, other := settle("a", 1), take("other", 10, 4)
		end.Now, other.Now = at+second, at+second
		if err := s.Apply(t.Context(), []*driver.Txn{end, other}); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(end.Err, driver.ErrCorrupt) || other.Err != nil || !other.Allowed {
			t.Errorf("the settle answered %v, and a take beside it %v, %v", end.Err, other.Allowed, other.Err)
		}
		if _, err := s.Sweep(t.Context(), at+second, 10); err != nil {
			t.Error(err)
		}
		if left := openHolds(t, s); len(left) != 0 {
			t.Errorf("an expired hold that cannot be given back is not swept for ever, but is still there: %+v", left)
		}
	})
}
