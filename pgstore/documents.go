package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ration-go/ration/driver"
)

var _ driver.Documents = (*Store)(nil)

// documentCalls are the statements about documents.
type documentCalls struct{ put, since string }

func documentCallsOf(schema string) documentCalls {
	return documentCalls{
		put:   "SELECT reply, names FROM " + schema + ".ration_put_document_v2($1::bytea, $2::bytea, $3::bytea, $4::bigint, $5::bigint)",
		since: "SELECT reply, names FROM " + schema + ".ration_documents_v2($1::bytea, $2::bigint, $3::bigint)",
	}
}

// ErrNoDocuments says that the schema is of a version that has no documents. Run [Migrate], or what [SQL] prints, as a role that
// may create tables. Counts work without.
var ErrNoDocuments = fmt.Errorf("pgstore: the schema has no documents yet; migrate it: %w", driver.ErrNoDocuments)

// PutDocument is of driver.Documents.
func (s *Store) PutDocument(ctx context.Context, space string, d driver.Document) (revision int64, err error) {
	if err := driver.CheckDocument(space, &d); err != nil {
		return 0, err
	}
	_, revision, err = s.putDocument(ctx, space, &d, 0)
	return revision, err
}

// DeleteDocument is of driver.Documents.
func (s *Store) DeleteDocument(ctx context.Context, space, name string) (existed bool, err error) {
	d := driver.Document{Name: name}
	if err := driver.CheckDocument(space, &d); err != nil {
		return false, err
	}
	existed, _, err = s.putDocument(ctx, space, &d, driver.DocumentMark.Microseconds())
	return existed, err
}

func (s *Store) putDocument(ctx context.Context, space string, d *driver.Document, mark int64) (existed bool, revision int64, err error) {
	value := bytes.Clone(d.Value)
	if value == nil {
		value = []byte{} // nil would be NULL
	}
	p, err := s.call(ctx, s.documents.put, []byte(space), []byte(d.Name), value, int64(d.Expires), mark)
	if err != nil {
		return false, 0, documentError(err)
	}
	nums := p.take(3)
	if nums == nil {
		return false, 0, errReply
	}
	return nums[1] != 0, nums[2], nil
}

// DocumentsSince is of driver.Documents.
func (s *Store) DocumentsSince(ctx context.Context, space string, since int64, most int) (l driver.DocumentList, err error) {
	most = max(1, min(most, driver.MaxDocuments))
	p, err := s.call(ctx, s.documents.since, []byte(space), since, int64(most)+1)
	if err != nil {
		return l, documentError(err)
	}
	head := p.take(2)
	if head == nil || len(p.nums) != len(p.names) || len(p.nums)%2 != 0 {
		return l, errReply
	}
	l.Now, l.Last = driver.Micros(head[0]), head[1]
	for i := 0; i < len(p.names); i += 2 {
		l.Documents = append(l.Documents, driver.Document{
			Name: string(p.names[i]), Value: p.names[i+1], Revision: p.nums[i], Expires: driver.Micros(p.nums[i+1]),
		})
	}
	if l.More = len(l.Documents) > most; l.More {
		l.Documents = l.Documents[:most]
	}
	return l, nil
}

// documentError is err, or that there are no documents because their table or functions are missing.
func documentError(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		switch pgErr.Code {
		case "42883", "42P01", "3F000": // no such function, table, schema
			return fmt.Errorf("%w (%w)", ErrNoDocuments, err)
		case "42501": // a migration adds the table, and no rights
			return fmt.Errorf("pgstore: the role may not use the table of documents; grant it SELECT, INSERT, UPDATE and DELETE on ration_documents: %w (%w)",
				driver.ErrNoDocuments, err)
		}
	}
	return fmt.Errorf("pgstore: %w", err)
}

// mayNotCreate reports whether err is of a role that has no right to.
func mayNotCreate(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "42501"
}
