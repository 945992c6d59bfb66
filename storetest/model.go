package storetest

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// model is what a correct store is compared with: driver.Run over maps. A sweep only ends holds; it removes nothing.
type model struct {
	mu     sync.Mutex
	rows   map[string]modelRow
	holds  map[string]modelHold
	closed bool
}

type modelHold struct {
	blob         []byte
	expires, due driver.Micros
}

type modelRow struct {
	blob    []byte
	expires driver.Micros
}

func newModel() *model { return &model{rows: map[string]modelRow{}, holds: map[string]modelHold{}} }

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

// LoadHold is for driver.Run.
func (m *model) LoadHold(id string) ([]byte, error) { return m.holds[id].blob, nil }

// SaveHold is for driver.Run.
func (m *model) SaveHold(id string, blob []byte, expires, due driver.Micros) error {
	m.holds[id] = modelHold{blob, expires, due}
	return nil
}

// Sweep ends holds that have expired.
func (m *model) Sweep(_ context.Context, now driver.Micros, most int) (done int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now == 0 {
		now = driver.MicrosOf(time.Now())
	}
	for id, hold := range m.holds {
		if done < most && hold.due != 0 && hold.due <= now {
			if err := driver.Lapse(m, now, id); err != nil {
				return done, err
			}
			done++
		}
	}
	return done, nil
}

// Holds lists those that are open or were when they expired.
func (m *model) Holds(context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for id, hold := range m.holds {
			if h, isOpen, err := driver.DecodeHold(id, hold.blob, 0); isOpen && !yield(h, err) {
				return
			}
		}
	}
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

// Info claims all that driver.Run gives.
func (m *model) Info() driver.Info {
	return driver.Info{Kind: "model", Scope: driver.Process, Caps: driver.CapsRun | driver.CapsHolds, Instant: true}
}

// Close makes every later Apply fail.
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// awaitsSweep reports whether a hold has expired, and gives something back when a sweep comes. Until then a store that
// sweeps by itself may have done it or not, so there is nothing to compare.
func (m *model) awaitsSweep(now driver.Micros) bool {
	for id, hold := range m.holds {
		if hold.due != 0 && hold.due <= now {
			if h, _, err := driver.DecodeHold(id, hold.blob, now); err != nil || h.Return {
				return true
			}
		}
	}
	return false
}

// endsWithin reports whether a state, a hold or an id ends after from and not after to. If the clock goes back from to to from, such a
// state may be there again or not: both are right, so there is nothing to compare.
func (m *model) endsWithin(from, to driver.Micros) bool {
	for _, row := range m.rows {
		if from < row.expires && row.expires <= to {
			return true
		}
	}
	for _, hold := range m.holds {
		if from < hold.expires && hold.expires <= to || from < hold.due && hold.due <= to {
			return true
		}
	}
	return false
}
