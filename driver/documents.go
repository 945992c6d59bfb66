package driver

import (
	"context"
	"fmt"
	"time"
)

// Documents is an optional interface of a Store: small named values that the processes on one store share beside its counts, such
// as exceptions from limits. There are few writes; each process asks what is new about once a second, and decides by what it has
// in memory. A space is a set of them, apart from counts and from other spaces.
//
// Each change has a revision, which is greater than all others in its space that are to be seen. A store makes it of its clock:
// the time in microseconds, or one more than the last revision if that is greater. So a revision does not come again when a space
// was emptied, or when a fail-over lost its last changes.
//
// What has expired, by the store's clock, is not there, whether or not it has been removed. A store removes it without an
// operator: at later writes, or by its sweeps.
type Documents interface {
	// PutDocument keeps d, which passes CheckDocument, under its name in space, in place of what was there, and answers its
	// revision. Once it is answered, every call of DocumentsSince that begins then sees it, in every process.
	PutDocument(ctx context.Context, space string, d Document) (revision int64, err error)

	// DeleteDocument removes a document and reports whether there was one. What was removed leaves a mark, a Document without a
	// Value, that is listed for DocumentMark: so that others learn of it.
	DeleteDocument(ctx context.Context, space, name string) (existed bool, err error)

	// DocumentsSince answers the documents of space, and the marks of removed ones, whose revisions are greater than since: in
	// the order of revisions, the first most of them, most being 1 to MaxDocuments. Who got them asks on from the last one's
	// revision as long as there are more, and misses nothing that is changed meanwhile.
	//
	// Who finds Last less than since, or has not asked for DocumentMark, forgets what it has and begins at 0.
	DocumentsSince(ctx context.Context, space string, since int64, most int) (DocumentList, error)
}

// Document is a small value with a name.
type Document struct {
	Name     string // 1 to MaxDocumentName bytes of printable ASCII, without spaces
	Value    []byte // 1 to MaxDocument bytes; none: it was removed
	Expires  Micros // by the store's clock; 0: never
	Revision int64  // result
}

// DocumentList is an answer of DocumentsSince.
type DocumentList struct {
	Documents []Document
	More      bool   // there are more
	Last      int64  // the greatest revision in the space; 0: none
	Now       Micros // the store's clock
}

// Bounds of documents.
const (
	MaxDocument      = 4096 // bytes of a value
	MaxDocumentName  = 256  // bytes
	MaxDocumentSpace = 1024 // bytes of the name of a space: printable ASCII, without spaces
	MaxDocuments     = 1000 // in one answer
)

// DocumentMark is how long it is told that a document was removed.
const DocumentMark = time.Hour

// CheckDocument says what is wrong with d in space; of a document that is to be removed, it has no Value.
func CheckDocument(space string, d *Document) error {
	switch {
	case !printable(space, MaxDocumentSpace):
		return fmt.Errorf("%w: a space of documents is 1 to %d printable characters of ASCII, and no spaces", ErrNotApplied, MaxDocumentSpace)
	case !printable(d.Name, MaxDocumentName):
		return fmt.Errorf("%w: the name of a document is 1 to %d printable characters of ASCII, and no spaces", ErrNotApplied, MaxDocumentName)
	case len(d.Value) > MaxDocument:
		return fmt.Errorf("%w: a document of %d bytes is longer than %d", ErrNotApplied, len(d.Value), MaxDocument)
	case d.Expires < 0 || d.Expires > MaxNow:
		return fmt.Errorf("%w: a document expires after 1970 and before 2155, or never", ErrNotApplied)
	}
	return nil
}

func printable(s string, most int) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7F {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= most
}

// NextRevision is the revision of a change at now, of a space whose greatest one is last.
func NextRevision(last int64, now Micros) int64 { return max(last+1, int64(now)) }

// Gone reports whether d has expired by now.
func (d *Document) Gone(now Micros) bool { return d.Expires != 0 && d.Expires <= now }
