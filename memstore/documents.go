package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/ration-go/ration/driver"
)

// documents are those of all spaces.
type documents struct {
	mu     sync.Mutex
	spaces map[string]*documentSpace
}

// documentSpace is never removed: a space that was emptied goes on with its revisions.
type documentSpace struct {
	last   int64
	byName map[string]driver.Document
	tidy   driver.Micros // when what has expired is removed next
}

// tidyEvery is how often writes remove what has expired, in µs: to look at all is more work than to write one.
const tidyEvery driver.Micros = 60e6

// space is that of a name, made if it is new.
func (d *documents) space(name string) *documentSpace {
	s := d.spaces[name]
	if s == nil {
		if d.spaces == nil {
			d.spaces = map[string]*documentSpace{}
		}
		s = &documentSpace{byName: map[string]driver.Document{}}
		d.spaces[name] = s
	}
	return s
}

func (s *documentSpace) put(d driver.Document, now driver.Micros) int64 {
	if now >= s.tidy {
		for name, old := range s.byName {
			if old.Gone(now) {
				delete(s.byName, name)
			}
		}
		s.tidy = now + tidyEvery
	}
	s.last = driver.NextRevision(s.last, now)
	d.Revision = s.last
	s.byName[d.Name] = d
	return s.last
}

// PutDocument is of driver.Documents. Documents are outside of Options.MaxBytes.
func (s *Store) PutDocument(_ context.Context, space string, d driver.Document) (revision int64, err error) {
	if err := driver.CheckDocument(space, &d); err != nil {
		return 0, err
	}
	if s.closed.Load() {
		return 0, driver.ErrClosed
	}
	d.Value = bytes.Clone(d.Value)
	s.documents.mu.Lock()
	defer s.documents.mu.Unlock()
	return s.documents.space(space).put(d, s.clock.now()), nil
}

// DeleteDocument is of driver.Documents.
func (s *Store) DeleteDocument(_ context.Context, space, name string) (existed bool, err error) {
	d := driver.Document{Name: name}
	if err := driver.CheckDocument(space, &d); err != nil {
		return false, err
	}
	if s.closed.Load() {
		return false, driver.ErrClosed
	}
	s.documents.mu.Lock()
	defer s.documents.mu.Unlock()
	in, now := s.documents.space(space), s.clock.now()
	old, ok := in.byName[name]
	if !ok || len(old.Value) == 0 || old.Gone(now) {
		return false, nil
	}
	d.Expires = now + driver.Micros(driver.DocumentMark.Microseconds())
	in.put(d, now)
	return true, nil
}

// DocumentsSince is of driver.Documents.
func (s *Store) DocumentsSince(_ context.Context, space string, since int64, most int) (l driver.DocumentList, err error) {
	if s.closed.Load() {
		return l, driver.ErrClosed
	}
	s.documents.mu.Lock()
	defer s.documents.mu.Unlock()
	l.Now = s.clock.now()
	in := s.documents.spaces[space]
	if in == nil {
		return l, nil
	}
	if l.Last = in.last; since >= in.last {
		return l, nil
	}
	for _, d := range in.byName {
		if d.Revision > since && !d.Gone(l.Now) {
			l.Documents = append(l.Documents, d)
		}
	}
	slices.SortFunc(l.Documents, func(a, b driver.Document) int { return cmp.Compare(a.Revision, b.Revision) })
	most = max(1, min(most, driver.MaxDocuments))
	if l.More = len(l.Documents) > most; l.More {
		l.Documents = slices.Clip(l.Documents[:most])
	}
	for i := range l.Documents {
		l.Documents[i].Value = bytes.Clone(l.Documents[i].Value)
	}
	return l, nil
}
