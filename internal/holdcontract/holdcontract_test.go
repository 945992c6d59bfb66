package holdcontract_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/holdcontract"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/storetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	var trips, lose, lost atomic.Int64
	store := storetest.WithFaults(memstore.New(nil), func(context.Context, []*driver.Txn) (f storetest.Fault) {
		trips.Add(1)
		if lose.Add(-1) >= 0 {
			lost.Add(1)
			f.LoseReply = errors.New("lost")
		}
		return f
	})
	l := ration.New(store, nil)
	defer l.Close()
	holdcontract.Run(t, holdcontract.Subject{Limiter: l, Trips: trips.Load, Lose: func(n int) { lose.Store(int64(n)) }, Lost: lost.Load})
}
