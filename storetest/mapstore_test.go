package storetest

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
)

// mapStore is a correct store, as simple as one can be: driver.Run over a map that is swept, with a cap and two handles.
// Its fields of functions break it in one way each; nil breaks nothing.
type mapStore struct {
	*mapData
	trips  int64
	closed bool
	fault  mutation
	claims driver.Caps // in place of what it has
}

type mapData struct {
	mu   sync.Mutex
	rows map[string]mapRow
	ids  map[string]mapHold
	most int // rows, if not 0
}

type mapHold struct {
	mapRow
	due driver.Micros
}

type mapRow struct {
	blob    []byte
	expires driver.Micros
}

func newMapStore(t testing.TB, fault mutation) *mapStore {
	s := &mapStore{mapData: &mapData{rows: map[string]mapRow{}, ids: map[string]mapHold{}}, fault: fault}
	t.Cleanup(func() { s.Close() })
	return s
}

// harness gives all that a store in one process can.
func harness(fault mutation) Harness {
	return Harness{
		Open: func(t testing.TB) driver.Store { return newMapStore(t, fault) },
		Again: func(t testing.TB, s driver.Store) driver.Store {
			return &mapStore{mapData: s.(*mapStore).mapData, fault: fault}
		},
		Full: func(t testing.TB, keys int) driver.Store {
			s := newMapStore(t, fault)
			s.most = keys
			return s
		},
		Trips: func(s driver.Store) int64 {
			m := s.(*mapStore)
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.trips
		},
		Durable: func(testing.TB, driver.Store) {},
	}
}

func (s *mapStore) Info() driver.Info {
	info := driver.Info{Kind: "map", Scope: driver.Process, Caps: driver.CapsRun | driver.CapsHolds, MaxBatch: 50, Instant: true}
	if s.claims != 0 {
		info.Caps = s.claims
	}
	return info
}

func (s *mapStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *mapStore) Apply(ctx context.Context, batch []*driver.Txn) error {
	if s.fault.racy {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.run(&mapTx{store: s, racy: true}, batch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && !s.fault.worksClosed {
		return driver.ErrClosed
	}
	s.trips++
	if s.fault.tripEach {
		s.trips += int64(len(batch)) - 1
	}
	for _, txn := range batch { // each by itself, so that one that finds no room is undone alone
		tx := newMapTx(s, txn)
		if err := s.run(tx, []*driver.Txn{txn}); err != nil {
			return err
		}
		if txn.Err == nil && !tx.fits() {
			txn.Allowed, txn.Err = false, driver.ErrFull
			continue
		}
		tx.commit()
	}
	return nil
}

func (s *mapStore) run(tx *mapTx, batch []*driver.Txn) error {
	now := driver.MicrosOf(time.Now())
	for _, txn := range batch {
		tx.txn = txn
		run := func() error { return driver.Run(tx, now, []*driver.Txn{txn}) }
		var err error
		if s.fault.around == nil {
			err = run()
		} else {
			err = s.fault.around(tx, run)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *mapStore) Sweep(ctx context.Context, now driver.Micros, most int) (dropped int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == 0 {
		now = driver.MicrosOf(time.Now())
	}
	if s.fault.sweepAll {
		most = 1 << 30
	}
	for id, hold := range s.ids {
		switch {
		case dropped == most:
			return dropped, nil
		case hold.due != 0 && hold.due <= now:
			tx := newMapTx(s, &driver.Txn{Now: now})
			if err := s.lapse(tx, id); err != nil {
				return dropped, err
			}
			tx.commit()
			dropped++
		case hold.expires <= now:
			delete(s.ids, id)
			dropped++
		}
	}
	for key, row := range s.rows {
		if dropped == most {
			break
		}
		if row.expires <= now+s.fault.sweepEarly {
			delete(s.rows, key)
			dropped++
		}
	}
	return dropped, nil
}

func (s *mapStore) lapse(tx *mapTx, id string) error {
	run := func() error { return driver.Lapse(tx, tx.txn.Now, id) }
	if s.fault.lapse != nil {
		return s.fault.lapse(tx, id, run)
	}
	return run()
}

func (s *mapStore) Holds(context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, hold := range s.ids {
			if h, isOpen, err := driver.DecodeHold(id, hold.blob, 0); (isOpen || s.fault.listsAll && len(h.Ops) > 0) && !yield(h, err) {
				return
			}
		}
	}
}

// mapTx is the rows of one transaction.
type mapTx struct {
	store   *mapStore
	txn     *driver.Txn
	changed map[string]mapRow
	ids     map[string]mapHold
	racy    bool
}

func newMapTx(s *mapStore, txn *driver.Txn) *mapTx {
	return &mapTx{store: s, txn: txn, changed: map[string]mapRow{}, ids: map[string]mapHold{}}
}

func (tx *mapTx) LoadHold(id string) ([]byte, error) {
	hold, ok := tx.ids[id]
	if !ok {
		hold = tx.store.ids[id]
	}
	tx.othersCome(tx.racy || tx.store.fault.racyHolds)
	if tx.store.fault.loadHold != nil && hold.blob != nil {
		return tx.store.fault.loadHold(tx.txn, id, hold.blob), nil
	}
	return hold.blob, nil
}

func (tx *mapTx) SaveHold(id string, blob []byte, expires, due driver.Micros) error {
	if tx.store.fault.keepsHold != nil && !tx.store.fault.keepsHold(tx.txn) {
		return nil
	}
	hold := mapHold{mapRow{blob, expires}, due}
	if tx.racy {
		tx.store.ids[id] = hold
	} else {
		tx.ids[id] = hold
	}
	return nil
}

// othersCome lets others in between.
func (tx *mapTx) othersCome(racy bool) {
	if racy {
		tx.store.mu.Unlock()
		for range 3 {
			yield()
		}
		tx.store.mu.Lock()
	}
}

func (tx *mapTx) Load(key []byte) ([]byte, error) {
	if row, ok := tx.changed[string(key)]; ok {
		return row.blob, nil
	}
	blob := tx.store.rows[string(key)].blob
	tx.othersCome(tx.racy)
	if tx.store.fault.load != nil && blob != nil && key[0] != 0 {
		blob = tx.store.fault.load(tx.txn, blob)
	}
	return blob, nil
}

func (tx *mapTx) Save(key, blob []byte, expires driver.Micros) error {
	if tx.store.fault.keeps != nil && !tx.store.fault.keeps(tx.txn) {
		return nil
	}
	if tx.store.fault.save != nil && blob != nil && key[0] != 0 {
		blob, expires = tx.store.fault.save(tx.txn, blob, expires)
	}
	if tx.racy {
		if blob == nil {
			delete(tx.store.rows, string(key))
		} else {
			tx.store.rows[string(key)] = mapRow{blob, expires}
		}
		return nil
	}
	tx.changed[string(key)] = mapRow{blob, expires}
	return nil
}

// fits makes room of what has ended, and reports whether all that was changed finds some.
func (tx *mapTx) fits() bool {
	if tx.store.most == 0 {
		return true
	}
	fresh := 0
	for key, row := range tx.changed {
		if _, known := tx.store.rows[key]; !known && row.blob != nil {
			fresh++
		}
	}
	if fresh == 0 || len(tx.store.rows)+fresh <= tx.store.most {
		return true
	}
	for key, row := range tx.store.rows {
		if row.expires <= tx.txn.At || tx.store.fault.evicts && key[0] != 0 {
			delete(tx.store.rows, key)
		}
	}
	return len(tx.store.rows)+fresh <= tx.store.most
}

func (tx *mapTx) commit() {
	for key, row := range tx.changed {
		if row.blob == nil {
			delete(tx.store.rows, key)
		} else {
			tx.store.rows[key] = row
		}
	}
	for id, hold := range tx.ids {
		tx.store.ids[id] = hold
	}
}
