package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// documentSpaces checks what a store that is driver.Documents keeps beside its counts.
func (s *suite) documentSpaces(t scope) {
	store := s.h.Open(t)
	docs := store.(driver.Documents)
	again := docs
	if s.h.Again != nil {
		if other, ok := s.h.Again(t, store).(driver.Documents); ok {
			again = other
		} else {
			t.Errorf("the store opened again is not driver.Documents")
		}
	}
	t.part("one by one", false, func(t scope) { documentsOneByOne(t, docs, again) })
	t.part("pages", false, func(t scope) { documentPages(t, docs) })
	t.part("expiry", false, func(t scope) { documentExpiry(t, docs, again) })
	t.part("side by side", false, func(t scope) { documentsSideBySide(t, docs, again) })
	t.part("bad ones", false, func(t scope) { s.badDocuments(t, docs) })
}

// shelf is one space of documents, with calls that do not fail.
type shelf struct {
	t     scope
	docs  driver.Documents
	space string
}

func newShelf(t scope, docs driver.Documents) shelf { return shelf{t, docs, runName() + "|documents"} }

func (s shelf) with(docs driver.Documents) shelf { s.docs = docs; return s }

func (s shelf) put(name, value string, expires driver.Micros) int64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	revision, err := s.docs.PutDocument(ctx, s.space, driver.Document{Name: name, Value: []byte(value), Expires: expires})
	if err != nil {
		s.t.Errorf("putting the document %s failed: %v", name, err)
	}
	return revision
}

func (s shelf) remove(name string, want bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	existed, err := s.docs.DeleteDocument(ctx, s.space, name)
	if err != nil || existed != want {
		s.t.Errorf("removing the document %s should answer %v, but answered %v, %v", name, want, existed, err)
	}
}

func (s shelf) since(revision int64, most int) driver.DocumentList {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	l, err := s.docs.DocumentsSince(ctx, s.space, revision, most)
	if err != nil {
		s.t.Errorf("asking for the documents since %d failed: %v", revision, err)
	}
	for i := range l.Documents {
		d := &l.Documents[i]
		if d.Revision <= revision || d.Revision > l.Last {
			s.t.Errorf("of the documents since %d, %s has revision %d; the last one is %d", revision, d.Name, d.Revision, l.Last)
		}
		if i > 0 && d.Revision <= l.Documents[i-1].Revision {
			s.t.Errorf("documents should come in the order of their revisions, but %d comes after %d", d.Revision, l.Documents[i-1].Revision)
		}
	}
	return l
}

// expect says what should be listed since a revision: "name=value", or "name" for the mark of one that was removed.
func (s shelf) expect(revision int64, want ...string) driver.DocumentList {
	s.t.Helper()
	l := s.since(revision, driver.MaxDocuments)
	var got []string
	for _, d := range l.Documents {
		text := d.Name
		if len(d.Value) > 0 {
			text += "=" + string(d.Value)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) || l.More {
		s.t.Errorf("since %d there should be the documents %q, but there are %q (more: %v)", revision, want, got, l.More)
	}
	return l
}

func documentsOneByOne(t scope, docs, again driver.Documents) {
	s := newShelf(t, docs)
	if l := s.expect(0); l.Now <= 0 {
		t.Errorf("the store's clock should be told, but it is %d", l.Now)
	}
	raw := string([]byte{0, 1, '%', ' ', '\n', '{', 0xFF, '"'})
	first := s.put("a", raw, 0)
	second := s.put("b:c|{d}%", "two", 0)
	if second <= first || first <= 0 {
		t.Errorf("revisions should grow, but %d comes after %d", second, first)
	}
	s.with(again).expect(0, "a="+raw, "b:c|{d}%=two")
	s.expect(first, "b:c|{d}%=two")
	s.expect(second)
	third := s.with(again).put("a", "three", 0)
	s.expect(0, "b:c|{d}%=two", "a=three")
	s.expect(second, "a=three")
	newShelf(t, docs).expect(0) // another space

	s.remove("none", false)
	s.expect(third)
	s.remove("a", true)
	s.with(again).remove("a", false)
	l := s.with(again).expect(third, "a")
	if l.Last <= third || len(l.Documents) == 1 && l.Documents[0].Expires <= l.Now {
		t.Errorf("a mark should have a revision of its own, and be told for a while: %+v", l)
	}
	s.put("a", "four", 0)
	s.expect(l.Last, "a=four")
	s.expect(0, "b:c|{d}%=two", "a=four")
	large := string(bytes.Repeat([]byte{'x'}, driver.MaxDocument))
	s.remove("b:c|{d}%", true)
	last := s.put("large", large, 0)
	s.expect(last-1, "large="+large)
}

func documentPages(t scope, docs driver.Documents) {
	const n, most = 53, 10
	s := newShelf(t, docs)
	for i := range n {
		s.put(fmt.Sprint("name", i%40), fmt.Sprint(i), 0) // 13 of them twice
	}
	seen := map[string]string{}
	for since, pages := int64(0), 1; ; pages++ {
		l := s.since(since, most)
		for _, d := range l.Documents {
			seen[d.Name], since = string(d.Value), d.Revision
		}
		if len(l.Documents) > most || pages > n {
			t.Errorf("page %d of at most %d documents has %d", pages, most, len(l.Documents))
			return
		}
		if !l.More {
			break
		}
	}
	if len(seen) != 40 || seen["name0"] != "40" || seen["name39"] != "39" {
		t.Errorf("all pages together should have 40 documents as they are now, but have %d: %v", len(seen), seen)
	}
}

func documentExpiry(t scope, docs, again driver.Documents) {
	s := newShelf(t, docs)
	now := s.since(0, 1).Now
	s.put("brief", "x", now+300_000)
	s.put("long", "y", now+3600_000_000)
	s.put("over", "z", max(now-1_000_000, 1))
	deadline := time.Now().Add(applyTime)
	for {
		l := s.with(again).since(0, driver.MaxDocuments)
		names := []string{}
		for _, d := range l.Documents {
			names = append(names, d.Name)
		}
		if gone := !slices.Contains(names, "brief"); gone && l.Now < now+300_000 || !gone && l.Now >= now+300_000 {
			t.Errorf("at %d, a document that expires at %d: among those listed: %v", l.Now, now+300_000, !gone)
		}
		if !slices.Contains(names, "long") || slices.Contains(names, "over") {
			t.Errorf("listed are %v; one expires in an hour, and one is over", names)
		}
		if l.Now >= now+300_000 || time.Now().After(deadline) || t.Failed() {
			break
		}
	}
	s.remove("brief", false)
	s.remove("over", false)
	s.put("brief", "again", 0)
	s.expect(0, "long=y", "brief=again")
	s.put("long", "for ever", 0)
	s.expect(0, "brief=again", "long=for ever")
}

// documentsSideBySide: who asks on from the last revision sees every change, in the end as it is.
func documentsSideBySide(t scope, docs, again driver.Documents) {
	const writers, each = 6, 20
	t = &few{scope: t}
	s := newShelf(t, docs)
	var mu sync.Mutex
	written := map[int64]string{}
	done := make(chan struct{})
	var reader sync.WaitGroup
	seen, since := map[string]string{}, int64(0)
	read := func() {
		l := s.with(again).since(since, 7)
		for _, d := range l.Documents {
			seen[d.Name], since = string(d.Value), d.Revision
		}
	}
	reader.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				read()
			}
		}
	})
	together(writers, func(i int) {
		for j := range each {
			name := fmt.Sprint("n", (i*each+j)%17)
			s, value := s, fmt.Sprint(i, ":", j)
			if i%2 == 0 {
				s = s.with(again)
			}
			revision := s.put(name, value, 0)
			mu.Lock()
			if other, twice := written[revision]; twice {
				t.Errorf("the changes %s and %s=%s have one revision, %d", other, name, value, revision)
			}
			written[revision] = name + "=" + value
			mu.Unlock()
		}
	})
	close(done)
	reader.Wait()
	for range writers * each {
		read()
	}
	for _, d := range s.since(0, driver.MaxDocuments).Documents {
		if seen[d.Name] != string(d.Value) {
			t.Errorf("the document %s is %q, but who followed the changes has %q", d.Name, d.Value, seen[d.Name])
		}
		if want := d.Name + "=" + string(d.Value); written[d.Revision] != want {
			t.Errorf("revision %d should be %q, but is %q", d.Revision, written[d.Revision], want)
		}
	}
	if len(seen) != 17 {
		t.Errorf("17 documents were written, and %d seen", len(seen))
	}
}

// badDocuments: what is out of bounds, and calls that are over before they begin, change nothing and say so.
func (s *suite) badDocuments(t scope, docs driver.Documents) {
	in := newShelf(t, docs)
	ctx := context.Background()
	long := string(bytes.Repeat([]byte{'x'}, 4*driver.MaxDocument))
	for what, d := range map[string]driver.Document{
		"no name":          {Value: []byte("x")},
		"a long name":      {Name: long[:driver.MaxDocumentName+1], Value: []byte("x")},
		"a space":          {Name: "a b", Value: []byte("x")},
		"a long value":     {Name: "a", Value: []byte(long[:driver.MaxDocument+1])},
		"a negative time":  {Name: "a", Value: []byte("x"), Expires: -1},
		"a time too large": {Name: "a", Value: []byte("x"), Expires: driver.MaxNow + 1},
	} {
		if _, err := docs.PutDocument(ctx, in.space, d); !errors.Is(err, driver.ErrNotApplied) {
			t.Errorf("a document with %s should be refused with driver.ErrNotApplied, but the answer is %v", what, err)
		}
	}
	if _, err := docs.DeleteDocument(ctx, "", "a"); !errors.Is(err, driver.ErrNotApplied) {
		t.Errorf("a space without a name should be refused with driver.ErrNotApplied, but the answer is %v", err)
	}
	in.expect(0)
	if s.info.Instant {
		return
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := docs.PutDocument(cancelled, in.space, driver.Document{Name: "a", Value: []byte("x")})
	_, err2 := docs.DeleteDocument(cancelled, in.space, "a")
	_, err3 := docs.DocumentsSince(cancelled, in.space, 0, 1)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("under a cancelled context the answer should be an error that wraps it, but is %v", err)
		}
	}
	in.expect(0)
}
