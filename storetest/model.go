package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// model is what a correct store is compared with: driver.Run over a map. It never sweeps.
type model struct {
	mu     sync.Mutex
	rows   map[string]modelRow
	closed bool
}

type modelRow struct {
	blob    []byte
	expires driver.Micros
}

func newModel() *model { return &model{rows: map[string]modelRow{}} }

// Load is for driver.Run.
func (m *model) Load(key []byte) ([]byte, error) { return m.rows[string(key)].blob, nil }

// Save is for driver.Run.
func (m *model) Save(key, blob []byte, expires driver.Micros) error {
	if blob == nil {
		delete(m.rows, string(key))
		return nil
	}
	m.rows[string(key)] = modelRow{blob, expires}
	return nil
}

// Apply decides a batch.
func (m *model) Apply(_ context.Context, batch []*driver.Txn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return driver.ErrClosed
	}
	return driver.Run(m, driver.MicrosOf(time.Now()), batch)
}

// Info claims all that Run gives.
func (m *model) Info() driver.Info {
	return driver.Info{Kind: "model", Scope: driver.Process, Caps: driver.CapsRun, Instant: true}
}

// Close makes every later Apply fail.
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// endsWithin reports whether a state ends after from and not after to. If the clock goes back from to to from, such a
// state may be there again or not: both are right, so there is nothing to compare.
func (m *model) endsWithin(from, to driver.Micros) bool {
	for _, row := range m.rows {
		if from < row.expires && row.expires <= to {
			return true
		}
	}
	return false
}
