package sqlitestore

import (
	"database/sql"

	"github.com/ration-go/ration/driver"
)

var (
	loadHolds = &form{`SELECT id, record FROM ration_holds WHERE id IN (`, `?`, `)`}
	saveHolds = &form{
		`INSERT INTO ration_holds (id, expires, due, lag, next, record) VALUES `, `(?, ?, ?, ?, ?, ?)`,
		` ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, due = excluded.due, lag = excluded.lag, next = excluded.next,
			record = excluded.record`,
	}
	dropHolds = &form{`DELETE FROM ration_holds WHERE id IN (`, `?`, `)`}
)

// hold is a row of ration_holds, or its absence, as a batch sees it.
type hold struct {
	id           string
	blob         []byte
	expires, due driver.Micros // of a row that is to be saved, or was found by a sweep
	lag          driver.Micros
	ends         bool // the batch ends the hold or has it go on, so the states of its ops are needed
	dirty        bool // to be saved; without a blob, to be deleted
}

// next is when there is something to do, on the server's clock.
func (h *hold) next() driver.Micros {
	if h.due != 0 {
		return h.due + h.lag
	}
	return h.expires + h.lag
}

func (t *table) wantHold(id string) *hold {
	if h := t.holds[id]; h != nil {
		return h
	}
	h := &hold{id: id}
	t.addHold(h)
	return h
}

func (t *table) addHold(h *hold) {
	if t.holds == nil {
		t.holds = make(map[string]*hold)
	}
	t.holds[h.id] = h
	t.held = append(t.held, h)
}

func (t *table) fetchHolds(holds []*hold) error {
	args := make([]any, len(holds))
	for i, h := range holds {
		args[i] = []byte(h.id)
	}
	var id sql.RawBytes
	return chunks(len(args), func(from, to int) error {
		return t.c.each(loadHolds, to-from, args[from:to], func(rows *sql.Rows) error {
			var blob []byte
			if err := rows.Scan(&id, &blob); err != nil {
				return err
			}
			t.holds[string(id)].blob = blob
			return nil
		})
	})
}

// wantOps has the states of the ops of h loaded with all others. It is no matter if they cannot be told: Run will say so.
func (t *table) wantOps(h *hold) {
	if h.blob == nil {
		return
	}
	if decoded, _, err := driver.DecodeHold(h.id, h.blob, 0); err == nil {
		for i := range decoded.Ops {
			t.want(decoded.Ops[i].Key.AppendTo(nil))
		}
	}
}

// LoadHold is of driver.HoldRows.
func (t *table) LoadHold(id string) ([]byte, error) {
	h := t.holds[id]
	if h == nil {
		h = t.wantHold(id)
		if err := t.fetchHolds([]*hold{h}); err != nil {
			return nil, err
		}
	}
	return h.blob, nil
}

// SaveHold is of driver.HoldRows.
func (t *table) SaveHold(id string, blob []byte, expires, due driver.Micros) error {
	h := t.wantHold(id)
	h.blob, h.expires, h.due, h.lag, h.dirty = blob, expires, due, t.lag, true
	return nil
}

// saveHeld writes what changed in ration_holds.
func (t *table) saveHeld() error {
	const columns = 6
	var args, gone []any
	for _, h := range t.held {
		switch {
		case !h.dirty:
		case h.blob == nil:
			gone = append(gone, []byte(h.id))
		default:
			args = append(args, []byte(h.id), int64(h.expires), int64(h.due), int64(h.lag), int64(h.next()), h.blob)
		}
	}
	err := chunks(len(args)/columns, func(from, to int) error {
		_, err := t.c.run(saveHolds, to-from, args[columns*from:columns*to]...)
		return err
	})
	if err != nil {
		return err
	}
	return chunks(len(gone), func(from, to int) error {
		_, err := t.c.run(dropHolds, to-from, gone[from:to]...)
		return err
	})
}
