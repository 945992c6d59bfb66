package sqlitestore

import (
	"database/sql"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/ration-go/ration/driver"
)

var (
	loadStates = &form{`SELECT key, state FROM ration_states WHERE key IN (`, `?`, `)`}
	saveStates = &form{
		`INSERT INTO ration_states (key, expires, lag, state) VALUES `, `(?, ?, ?, ?)`,
		` ON CONFLICT (key) DO UPDATE SET expires = excluded.expires, lag = excluded.lag, state = excluded.state`,
	}
	dropStates = &form{`DELETE FROM ration_states WHERE key IN (`, `?`, `)`}
	findSpace  = &form{before: `SELECT id FROM ration_spaces WHERE name = ?`}
	listSpaces = &form{before: `SELECT name, id FROM ration_spaces`}
	addSpace   = &form{before: `INSERT INTO ration_spaces (name) VALUES (?) RETURNING id`}
)

// injectedGrace is how much longer than its life a row written at an injected clock is kept: see doc.go.
const injectedGrace driver.Micros = 24 * 3600 * 1e6

// spaces remembers committed rows of ration_spaces, which never change.
type spaces struct {
	mu  sync.RWMutex
	ids map[string]int64
}

func (s *spaces) id(name string) (int64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	id, ok := s.ids[name]
	return id, ok
}

func (s *spaces) add(ids map[string]int64) {
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, id := range ids {
		s.ids[name] = id
	}
}

// state is a row of ration_states, or its absence, as a batch sees it.
type state struct {
	space   string // "" for a record of driver.Run itself
	rest    []byte // of the key
	stored  []byte // the key in the table; nil if the space has no id yet
	blob    []byte
	expires driver.Micros
	lag     driver.Micros
	found   bool // there is a row
	dirty   bool // blob, expires and lag are to be saved; a nil blob is to be deleted
}

// table is what driver.Run sees of the file: the rows of one batch, loaded before and saved after.
type table struct {
	c      *conn
	known  *spaces
	states map[string]*state // by the key as driver.Run has it
	order  []*state
	holds  map[string]*hold
	held   []*hold          // all of holds
	forget []driver.Key     // what the batch forgets; Space is what those that are meant begin with
	fresh  map[string]int64 // ids of spaces, seen or made in this transaction
	named  []string         // spaces of states made in this batch; a few names may be there twice
	now    driver.Micros    // the server's clock
	lag    driver.Micros    // of what is saved now
}

// newTable collects what batch needs, while batch is the store's: a job may outlive its caller.
func newTable(known *spaces, batch []*driver.Txn) *table {
	t := &table{known: known, states: make(map[string]*state, len(batch))}
	for _, txn := range batch {
		if txn.ID != "" {
			h := t.wantHold(txn.ID)
			h.ends = h.ends || txn.Verb > driver.Forget
		}
		for i := range txn.Ops {
			if key := txn.Ops[i].Key; txn.Verb == driver.Forget {
				t.forget = append(t.forget, key)
			} else {
				t.want(key.AppendTo(nil))
			}
		}
	}
	return t
}

func (t *table) want(key []byte) *state {
	if st := t.states[string(key)]; st != nil {
		return st
	}
	st := &state{rest: key}
	if n, size := binary.Uvarint(key); n > 0 && size > 0 && n <= uint64(len(key)-size) {
		st.space, st.rest = string(key[size:size+int(n)]), key[size+int(n):]
	} else {
		st.stored = key
	}
	t.states[string(key)] = st
	t.order = append(t.order, st)
	return st
}

// load fills in the states, inside a transaction.
func (t *table) load(c *conn) error {
	t.c = c
	if t.forget != nil {
		if err := t.wantForgotten(); err != nil {
			return err
		}
	}
	if err := t.fetchHolds(t.held); err != nil {
		return err
	}
	for _, h := range t.held {
		if h.ends {
			t.wantOps(h)
		}
	}
	return t.fetch(t.order)
}

func (t *table) wantForgotten() error {
	err := t.c.each(listSpaces, 0, nil, func(rows *sql.Rows) error {
		var name string
		var id int64
		err := rows.Scan(&name, &id)
		t.learn(name, id)
		return err
	})
	if err != nil {
		return err
	}
	for name := range t.fresh {
		for _, key := range t.forget {
			if strings.HasPrefix(name, key.Space) {
				key.Space = name
				t.want(key.AppendTo(nil))
			}
		}
	}
	return nil
}

func (t *table) learn(name string, id int64) {
	if t.fresh == nil {
		t.fresh = make(map[string]int64)
	}
	t.fresh[name] = id
}

// resolve sets st.stored if its space has an id.
func (t *table) resolve(st *state) error {
	if st.stored != nil {
		return nil
	}
	id, ok := t.known.id(st.space)
	if !ok {
		id, ok = t.fresh[st.space]
	}
	if !ok {
		err := t.c.each(findSpace, 0, []any{st.space}, func(rows *sql.Rows) error {
			ok = true
			return rows.Scan(&id)
		})
		if err != nil || !ok {
			return err
		}
		t.learn(st.space, id)
	}
	st.setID(id)
	return nil
}

func (st *state) setID(id int64) {
	st.stored = append(binary.AppendUvarint(make([]byte, 0, len(st.rest)+3), uint64(id)), st.rest...)
}

func (t *table) fetch(states []*state) error {
	args := make([]any, 0, len(states))
	index := make(map[string]*state, len(states))
	for _, st := range states {
		if err := t.resolve(st); err != nil {
			return err
		}
		if st.stored != nil {
			args = append(args, st.stored)
			index[string(st.stored)] = st
		}
	}
	var key sql.RawBytes
	return chunks(len(args), func(from, to int) error {
		return t.c.each(loadStates, to-from, args[from:to], func(rows *sql.Rows) error {
			var blob []byte
			if err := rows.Scan(&key, &blob); err != nil {
				return err
			}
			st := index[string(key)]
			st.blob, st.found = blob, true
			return nil
		})
	})
}

// decide runs batch at now.
func (t *table) decide(now driver.Micros, batch []*driver.Txn) error {
	t.now = now
	for i, txn := range batch {
		t.lag = 0
		if txn.Now != 0 {
			t.lag = lagOf(now, txn.Now)
		}
		if err := driver.Run(t, now, batch[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// lagOf is by how much later on the server's clock a row is due that an injected clock writes.
func lagOf(server, injected driver.Micros) driver.Micros {
	if lag := server - injected + injectedGrace; lag != 0 {
		return lag
	}
	return 1 // 0 is for rows on the server's clock
}

// Load is of driver.Rows.
func (t *table) Load(key []byte) ([]byte, error) {
	st := t.states[string(key)]
	if st == nil {
		st = t.want(slices.Clone(key))
		if err := t.fetch([]*state{st}); err != nil {
			return nil, err
		}
	}
	return st.blob, nil
}

// Save is of driver.Rows.
func (t *table) Save(key, blob []byte, expires driver.Micros) error {
	st := t.states[string(key)]
	if st == nil {
		if _, err := t.Load(key); err != nil {
			return err
		}
		st = t.states[string(key)]
	}
	st.blob, st.expires, st.lag, st.dirty = blob, expires, t.lag, true
	return nil
}

// AddSpace is of driver.SpaceRows. The id comes when the state is saved.
func (t *table) AddSpace(space string) error {
	if t.forget != nil {
		t.named = append(t.named, space)
	}
	return nil
}

// Spaces is of driver.SpaceRows.
func (t *table) Spaces() ([]string, error) {
	all := slices.Clone(t.named)
	for name := range t.fresh {
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// changed reports whether there is something to save.
func (t *table) changed() bool {
	return slices.ContainsFunc(t.order, func(st *state) bool { return st.dirty && (st.blob != nil || st.found) }) ||
		slices.ContainsFunc(t.held, func(h *hold) bool { return h.dirty })
}

// save writes what changed.
func (t *table) save() error {
	var args, gone []any
	for _, st := range t.order {
		switch {
		case !st.dirty:
		case st.blob != nil:
			if err := t.intern(st); err != nil {
				return err
			}
			args = append(args, st.stored, int64(st.expires), int64(st.lag), st.blob)
		case st.found:
			gone = append(gone, st.stored)
		}
	}
	err := chunks(len(args)/4, func(from, to int) error {
		_, err := t.c.run(saveStates, to-from, args[4*from:4*to]...)
		return err
	})
	if err != nil {
		return err
	}
	err = chunks(len(gone), func(from, to int) error {
		_, err := t.c.run(dropStates, to-from, gone[from:to]...)
		return err
	})
	if err != nil {
		return err
	}
	return t.saveHeld()
}

// intern gives the space of st an id, if it has none.
func (t *table) intern(st *state) error {
	if st.stored != nil {
		return nil
	}
	id, ok := t.fresh[st.space]
	if !ok {
		err := t.c.each(addSpace, 0, []any{st.space}, func(rows *sql.Rows) error { return rows.Scan(&id) })
		if err != nil {
			return err
		}
		t.learn(st.space, id)
	}
	st.setID(id)
	return nil
}
