// Package filestore is a store of counts in one file, for one process: each batch is a line that is appended. It shows how
// little a store needs when [driver.Run] holds the rules; see docs/stores.md.
package filestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// Store keeps counts in memory, and in a file that is replayed and written anew when it is opened. A crash of the process
// loses nothing; one of the machine may, for the file is not synced. Its methods are safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	file   *os.File
	rows   map[string]row
	broken error // a write failed: what the file holds is not known any more
}

type row struct {
	Key, Blob []byte // no Blob: deleted
	Expires   driver.Micros
}

// Open opens the file at path, or makes it. Only one process may have it open.
func Open(path string) (*Store, error) {
	s := &Store{rows: map[string]row{}}
	if err := s.load(path); err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	return s, nil
}

// load replays the file, and puts a new one in its place, without the history.
func (s *Store) load(path string) error {
	old, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer old.Close()
	for in := json.NewDecoder(old); err == nil; {
		var batch []row
		if err = in.Decode(&batch); err == nil {
			s.keep(batch)
		}
	}
	if err != io.EOF && err != io.ErrUnexpectedEOF { // half a line at the end was never acknowledged
		return err
	}
	if s.file, err = os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return err
	}
	if err := s.commit(slices.Collect(maps.Values(s.rows))); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (s *Store) keep(batch []row) {
	for _, r := range batch {
		if r.Blob == nil {
			delete(s.rows, string(r.Key))
		} else {
			s.rows[string(r.Key)] = r
		}
	}
}

// commit changes the file, then the memory.
func (s *Store) commit(batch []row) error {
	if len(batch) == 0 || s.broken != nil {
		return s.broken
	}
	if s.broken = json.NewEncoder(s.file).Encode(batch); s.broken == nil { // in one write
		s.keep(batch)
	}
	return s.broken // a plain error says: it may have been charged
}

// Info implements driver.Store.
func (s *Store) Info() driver.Info {
	return driver.Info{Kind: "file", Scope: driver.Process, Caps: driver.CapsRun, MaxBatch: 256}
}

// Apply implements driver.Store.
func (s *Store) Apply(ctx context.Context, batch []*driver.Txn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.broken); err != nil {
		return errors.Join(err, driver.ErrNotApplied)
	}
	tx := &tx{store: s}
	if err := driver.Run(tx, driver.MicrosOf(time.Now()), batch); err != nil {
		return errors.Join(err, driver.ErrNotApplied)
	}
	return s.commit(tx.changed)
}

type tx struct {
	store   *Store
	changed []row // by this batch, so far
}

func (tx *tx) Load(key []byte) ([]byte, error) {
	for _, r := range slices.Backward(tx.changed) {
		if bytes.Equal(r.Key, key) {
			return r.Blob, nil
		}
	}
	return tx.store.rows[string(key)].Blob, nil
}

func (tx *tx) Save(key, blob []byte, expires driver.Micros) error {
	tx.changed = append(tx.changed, row{key, blob, expires})
	return nil
}

// Sweep implements driver.Sweeper.
func (s *Store) Sweep(_ context.Context, now driver.Micros, limit int) (dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == 0 {
		now = driver.MicrosOf(time.Now())
	}
	var gone []row
	for _, r := range s.rows {
		if len(gone) < limit && r.Expires <= now {
			gone = append(gone, row{Key: r.Key})
		}
	}
	return len(gone), s.commit(gone)
}

// Close implements driver.Store.
func (s *Store) Close() error { return s.file.Close() }
