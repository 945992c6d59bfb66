package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/ration-go/ration/driver"
)

var _ driver.Documents = (*Store)(nil)

var (
	lastDocument = &form{before: `SELECT coalesce(max(revision), 0) FROM ration_documents WHERE space = ?`}
	findDocument = &form{before: `SELECT count(*) FROM ration_documents WHERE space = ? AND name = ? AND length(value) > 0 AND (expires = 0 OR expires > ?)`}
	saveDocument = &form{
		before: `INSERT INTO ration_documents (space, name, revision, expires, value) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (space, name) DO UPDATE SET revision = excluded.revision, expires = excluded.expires, value = excluded.value`,
	}
	listDocuments = &form{
		before: `SELECT name, revision, expires, value FROM ration_documents
			WHERE space = ? AND revision > ? AND (expires = 0 OR expires > ?) ORDER BY revision LIMIT ?`,
	}
	lapsedDocument = &form{before: `SELECT EXISTS (SELECT 1 FROM ration_documents WHERE expires > 0 AND expires <= ?)`}
	// At most so many at a time: it is done beside a write.
	dropDocuments = &form{
		before: `DELETE FROM ration_documents WHERE (space, name) IN
			(SELECT space, name FROM ration_documents WHERE expires > 0 AND expires <= ? LIMIT 100)`,
	}
)

// PutDocument is of driver.Documents.
func (s *Store) PutDocument(ctx context.Context, space string, d driver.Document) (revision int64, err error) {
	if err := driver.CheckDocument(space, &d); err != nil {
		return 0, err
	}
	d.Value = append([]byte{}, d.Value...) // a job may outlive its caller; and NULL is no value
	_, revision, err = s.writeDocument(ctx, space, d, false)
	return revision, err
}

// DeleteDocument is of driver.Documents.
func (s *Store) DeleteDocument(ctx context.Context, space, name string) (existed bool, err error) {
	d := driver.Document{Name: name, Value: []byte{}}
	if err := driver.CheckDocument(space, &d); err != nil {
		return false, err
	}
	existed, _, err = s.writeDocument(ctx, space, d, true)
	return existed, err
}

// written is what became of a write. It is a value of its own: a job may outlive its caller.
type written struct {
	existed  bool
	revision int64
}

// writeDocument saves d, or marks it as removed if it is there.
func (s *Store) writeDocument(ctx context.Context, space string, d driver.Document, remove bool) (existed bool, revision int64, err error) {
	w := new(written)
	err = s.do(ctx, s.writes, func(c *conn, j *job) error {
		if err := c.begin(j); err != nil {
			return notApplied(err)
		}
		if err := w.write(c, space, d, remove); err != nil {
			c.undo()
			return notApplied(err)
		}
		if remove && !w.existed {
			c.undo()
			return nil
		}
		if !j.claim() {
			c.undo()
			return notApplied(context.Cause(j.ctx))
		}
		j.release(true)
		return c.commit()
	})
	if err != nil {
		return false, 0, err
	}
	return w.existed, w.revision, nil
}

func (w *written) write(c *conn, space string, d driver.Document, remove bool) error {
	at := now()
	if remove {
		count := func(rows *sql.Rows) error { return rows.Scan(&w.existed) }
		if err := c.each(findDocument, 0, []any{space, d.Name, int64(at)}, count); err != nil || !w.existed {
			return err
		}
		d.Expires = at + driver.Micros(driver.DocumentMark.Microseconds())
	}
	if _, err := c.run(dropDocuments, 0, int64(at)); err != nil {
		return err
	}
	if err := c.each(lastDocument, 0, []any{space}, func(rows *sql.Rows) error { return rows.Scan(&w.revision) }); err != nil {
		return err
	}
	w.revision = driver.NextRevision(w.revision, at)
	_, err := c.run(saveDocument, 0, space, d.Name, w.revision, int64(d.Expires), d.Value)
	return err
}

// DocumentsSince is of driver.Documents.
func (s *Store) DocumentsSince(ctx context.Context, space string, since int64, most int) (driver.DocumentList, error) {
	most = max(1, min(most, driver.MaxDocuments))
	found := new(driver.DocumentList)
	err := s.do(ctx, s.reads, func(c *conn, j *job) error {
		return retry(j.ctx, j.stop, func() error {
			*found = driver.DocumentList{Now: now()}
			if _, err := c.run(snapshot, 0); err != nil {
				return notApplied(err)
			}
			defer c.undo()
			return readDocuments(c, space, since, most, found)
		})
	})
	if err != nil {
		return driver.DocumentList{}, notApplied(err)
	}
	return *found, nil
}

func readDocuments(c *conn, space string, since int64, most int, found *driver.DocumentList) error {
	err := c.each(lastDocument, 0, []any{space}, func(rows *sql.Rows) error { return rows.Scan(&found.Last) })
	if err != nil || found.Last <= since {
		return err
	}
	err = c.each(listDocuments, 0, []any{space, since, int64(found.Now), most + 1}, func(rows *sql.Rows) error {
		var d driver.Document
		if err := rows.Scan(&d.Name, &d.Revision, (*int64)(&d.Expires), &d.Value); err != nil {
			return err
		}
		found.Documents = append(found.Documents, d)
		return nil
	})
	if found.More = len(found.Documents) > most; found.More {
		found.Documents = found.Documents[:most]
	}
	return err
}

// sweepDocuments removes documents that have expired, in steps.
func (s *Store) sweepDocuments(ctx context.Context, pause func(time.Duration) bool) error {
	for {
		removed, started, lapsed := int64(0), time.Now(), false
		err := s.do(ctx, s.reads, func(c *conn, _ *job) error {
			return c.each(lapsedDocument, 0, []any{int64(now())}, func(rows *sql.Rows) error { return rows.Scan(&lapsed) })
		})
		if err != nil || !lapsed {
			return notApplied(err)
		}
		err = s.do(ctx, s.writes, func(c *conn, j *job) error {
			if err := c.begin(j); err != nil {
				return notApplied(err)
			}
			n, err := c.run(dropDocuments, 0, int64(now()))
			if err != nil || n == 0 {
				c.undo()
				return notApplied(err)
			}
			if !j.claim() {
				c.undo()
				return notApplied(context.Cause(j.ctx))
			}
			removed = n
			j.release(true)
			return c.commit()
		})
		if err != nil || removed == 0 || !pause(time.Since(started)) {
			return err
		}
	}
}
