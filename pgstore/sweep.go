package pgstore

import (
	"context"
	"iter"
	"time"

	"github.com/ration-go/ration/driver"
)

// Sweep is of driver.Sweeper.
func (s *Store) Sweep(ctx context.Context, now driver.Micros, most int) (dropped int, err error) {
	return 0, nil
}

func (s *Store) sweepAlways(ctx context.Context, every time.Duration) { <-ctx.Done() }

// Holds is of driver.HoldLister.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {}
}
