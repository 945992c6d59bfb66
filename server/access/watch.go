package access

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is the least time between two looks at a file.
const lookEvery = time.Second

// watched is a file that may change.
type watched struct {
	path   string
	looked atomic.Int64 // when, in nanoseconds since 1970

	mu   sync.Mutex
	last stamp
}

// stamp is what tells one state of a file from another.
type stamp struct {
	size     int64
	modified time.Time
	file     os.FileInfo // to tell another file that took the name
}

func (s *stamp) same(other *stamp) bool {
	if s.file == nil || other.file == nil {
		return s.file == other.file
	}
	return s.size == other.size && s.modified.Equal(other.modified) && os.SameFile(s.file, other.file)
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime(), info}
}

// stamp notes the state of the file.
func (w *watched) stamp() {
	now := stampOf(w.path)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = now
}

// changed reports whether the file is another than at the last stamp, and notes that. It looks at most once a second; of several
// callers at a time one does.
func (w *watched) changed(now time.Time) bool {
	last, at := w.looked.Load(), now.UnixNano()
	if at-last < int64(lookEvery) && at >= last || !w.looked.CompareAndSwap(last, at) {
		return false
	}
	found := stampOf(w.path)
	w.mu.Lock()
	defer w.mu.Unlock()
	if found.same(&w.last) {
		return false
	}
	w.last = found
	return true
}
