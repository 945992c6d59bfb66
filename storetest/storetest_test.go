package storetest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/storetest"
)

// mapStore is a correct store, as simple as one can be: driver.Run over a map.
type mapStore struct {
	mu     sync.Mutex
	rows   map[string]mapRow
	cap    int
	trips  int64
	closed bool
}

type mapRow struct {
	blob    []byte
	expires driver.Micros
}

func TestMapStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: openMap})
}

func openMap(t testing.TB) driver.Store {
	s := &mapStore{rows: map[string]mapRow{}}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *mapStore) Load(key []byte) ([]byte, error) { return s.rows[string(key)].blob, nil }

func (s *mapStore) Save(key, blob []byte, expires driver.Micros) error {
	if blob == nil {
		delete(s.rows, string(key))
	} else {
		s.rows[string(key)] = mapRow{blob, expires}
	}
	return nil
}

func (s *mapStore) Apply(_ context.Context, batch []*driver.Txn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrClosed
	}
	return driver.Run(s, driver.MicrosOf(time.Now()), batch)
}

func (s *mapStore) Info() driver.Info {
	return driver.Info{Kind: "map", Scope: driver.Process, Caps: driver.CapsRun, Instant: true}
}

func (s *mapStore) Close() error { s.closed = true; return nil }
