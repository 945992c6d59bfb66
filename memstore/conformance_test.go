package memstore_test

import (
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/storetest"
)

func opened(t testing.TB, opts *memstore.Options) driver.Store {
	s := memstore.New(opts)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		// They sweep all the while, so that what a sweep gets wrong shows.
		Open: func(t testing.TB) driver.Store { return opened(t, &memstore.Options{SweepEvery: time.Millisecond}) },
		Full: func(t testing.TB, keys int) driver.Store { return opened(t, &memstore.Options{MaxKeys: keys}) },
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, storetest.Harness{Open: func(t testing.TB) driver.Store { return opened(t, nil) }})
}
