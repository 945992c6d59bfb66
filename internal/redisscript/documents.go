package redisscript

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ration-go/ration/driver"
)

var (
	putDocumentScript    = newScript("docput")
	documentsSinceScript = newScript("docsince")
)

// documentKeys are the names of a hash of documents and of two sorted sets of their names, by revision and by expiry. All
// spaces have one tag: what is there is small and seldom used.
func (n *names) documentKeys(space string) []string {
	space = string(escape(nil, space, ':'))
	return []string{n.own("documents:"+space, 0), n.own("documents:"+space+":revisions", 0), n.own("documents:"+space+":ends", 0)}
}

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

// putDocument keeps the value as text: over HTTP there are no other bytes.
func (s *Store) putDocument(ctx context.Context, space string, d *driver.Document, mark int64) (existed bool, revision int64, err error) {
	keys := s.names.documentKeys(space)
	args := append([]string{"EVALSHA", putDocumentScript.sha, strconv.Itoa(len(keys))}, keys...)
	args = append(args, d.Name, string(escape(nil, string(d.Value), 0)), strconv.FormatInt(int64(d.Expires), 10), strconv.FormatInt(mark, 10))
	r := s.ask(ctx, Cmd{Args: args, Key: keys[0], Keys: len(keys), Script: putDocumentScript.text, Sure: true, Aside: true})[0]
	if r.Err != nil {
		return false, 0, failure(r.Err)
	}
	if len(r.List) != 2 {
		return false, 0, errDocuments
	}
	revision, err = strconv.ParseInt(r.List[1], 10, 64)
	if err != nil {
		return false, 0, errDocuments
	}
	return r.List[0] == "1", revision, nil
}

var errDocuments = errors.New("the answer about documents cannot be read")

// DocumentsSince is of driver.Documents.
func (s *Store) DocumentsSince(ctx context.Context, space string, since int64, most int) (l driver.DocumentList, err error) {
	most = max(1, min(most, driver.MaxDocuments))
	keys := s.names.documentKeys(space)[:2]
	args := append([]string{"EVALSHA", documentsSinceScript.sha, strconv.Itoa(len(keys))}, keys...)
	args = append(args, strconv.FormatInt(since, 10), strconv.Itoa(most+1))
	r := s.ask(ctx, Cmd{Args: args, Key: keys[0], Keys: len(keys), Script: documentsSinceScript.text, Aside: true})[0]
	if r.Err != nil {
		return l, failure(r.Err)
	}
	if len(r.List) < 2 || len(r.List)%2 != 0 {
		return l, errDocuments
	}
	now, err1 := strconv.ParseInt(r.List[0], 10, 64)
	last, err2 := strconv.ParseInt(r.List[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return l, fmt.Errorf("%w: %w", errDocuments, err)
	}
	l.Now, l.Last = driver.Micros(now), last
	for i := 2; i < len(r.List); i += 2 {
		if (i-2)/2 == most {
			l.More = true
			break
		}
		d, err := parseDocument(r.List[i], r.List[i+1])
		if err != nil {
			return l, err
		}
		l.Documents = append(l.Documents, d)
	}
	return l, nil
}

func parseDocument(name, text string) (d driver.Document, err error) {
	revision, rest, _ := strings.Cut(text, " ")
	expires, value, ok := strings.Cut(rest, " ")
	d.Name = name
	if d.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil || !ok {
		return d, errDocuments
	}
	ends, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return d, errDocuments
	}
	d.Expires = driver.Micros(ends)
	plain, bad := unescape(value)
	if bad {
		return d, errDocuments
	}
	d.Value = []byte(plain)
	return d, nil
}
