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
