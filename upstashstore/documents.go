package upstashstore

import (
	"context"
	"fmt"

	"github.com/ration-go/ration/driver"
)

var _ driver.Documents = (*Store)(nil)

// PutDocument is of driver.Documents. The documents of a space are one hash, at one place of a Cluster.
func (s *Store) PutDocument(ctx context.Context, space string, d driver.Document) (revision int64, err error) {
	if revision, err = s.core.PutDocument(ctx, space, d); err != nil {
		err = fmt.Errorf("upstashstore: %w", err)
	}
	return revision, err
}

// DeleteDocument is of driver.Documents.
func (s *Store) DeleteDocument(ctx context.Context, space, name string) (existed bool, err error) {
	if existed, err = s.core.DeleteDocument(ctx, space, name); err != nil {
		err = fmt.Errorf("upstashstore: %w", err)
	}
	return existed, err
}

// DocumentsSince is of driver.Documents.
func (s *Store) DocumentsSince(ctx context.Context, space string, since int64, most int) (driver.DocumentList, error) {
	l, err := s.core.DocumentsSince(ctx, space, since, most)
	if err != nil {
		err = fmt.Errorf("upstashstore: %w", err)
	}
	return l, err
}
