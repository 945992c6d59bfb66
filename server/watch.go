package server

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settleTime is for how long files must not have changed before they are read: editors and kubelets write in steps.
const settleTime = 200 * time.Millisecond

// watch has the configuration read anew whenever its files have changed, until ctx is done. A system that cannot watch is
// worth a warning, and no reason to stop.
func (s *Server) watch(ctx context.Context, file string) error {
	defer func() { <-ctx.Done() }() // who returns ends the program
	if len(s.filesOf(file)) == 0 {
		return nil
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		s.log.Warn("changes of the configuration's files will not be noticed; send SIGHUP after one", "error", err)
		return nil
	}
	defer notify.Close()
	w := &watched{notify: notify, folders: map[string]bool{}}
	w.cover(s.filesOf(file))
	// Once at the start: there may have been a change since it was read. What is seen is noted before it is read, so a change in
	// between is one more turn.
	for quiet, seen := true, []byte(nil); ctx.Err() == nil; {
		now := contents(s.filesOf(file))
		if !bytes.Equal(now, seen) {
			_ = s.reload(ctx, quiet) // it logs
			quiet, seen = true, now
			w.cover(s.filesOf(file))
			continue
		}
		quiet = false
		w.next(ctx, settleTime)
	}
	return nil
}

// watched are folders. Files themselves are not watched: who replaces one takes the watch with it.
type watched struct {
	notify  *fsnotify.Watcher
	folders map[string]bool // full paths; true: whatever happens there matters
	names   map[string]bool // full paths of files and links that matter
}

// cover watches what leads to paths. It is called again after each change: a link may lead elsewhere.
func (w *watched) cover(paths []string) {
	w.names = map[string]bool{}
	folders := map[string]bool{}
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		for _, name := range steps(path) {
			w.names[name] = true
			folders[filepath.Dir(name)] = folders[filepath.Dir(name)]
			if info, err := os.Stat(name); err == nil && info.IsDir() && name == path {
				folders[name] = true
			}
		}
	}
	for folder := range w.folders {
		if _, still := folders[folder]; !still {
			_ = w.notify.Remove(folder) // it may be gone already
		}
	}
	for folder := range folders {
		_ = w.notify.Add(folder) // again, if it was replaced; one that is missing shows by its parent, or by SIGHUP
	}
	w.folders = folders
}

// steps are path, and the links on the way to what it means, each by its full path.
func steps(path string) (names []string) {
	const most = 40 // as many as the kernel follows
	names = append(names, path)
	rest := strings.Split(strings.TrimPrefix(path, string(filepath.Separator)), string(filepath.Separator))
	at := string(filepath.Separator)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > most {
			break
		}
		names = append(names, next)
		if !filepath.IsAbs(target) {
			target = filepath.Join(at, target)
		}
		rest = append(strings.Split(strings.TrimPrefix(filepath.Clean(target), string(filepath.Separator)), string(filepath.Separator)), rest...)
		at = string(filepath.Separator)
	}
	return append(names, at)
}

// matters reports whether e may have changed one of the files.
func (w *watched) matters(e fsnotify.Event) bool {
	return w.names[e.Name] || w.folders[filepath.Dir(e.Name)]
}

// next waits until something that matters has happened, and nothing more for a while, or until ctx is done.
func (w *watched) next(ctx context.Context, quiet time.Duration) {
	events := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		w.forward(ctx, events)
	}()
	settled(ctx, events, quiet)
}

// forward tells events of what matters. Lost events mean that anything may have happened.
func (w *watched) forward(ctx context.Context, events chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.notify.Events:
			if ok && !w.matters(e) {
				continue
			}
		case <-w.notify.Errors:
		}
		select {
		case <-ctx.Done():
			return
		case events <- struct{}{}:
		}
	}
}

// settled waits for an event after which none comes for so long. It is false when ctx is done.
func settled(ctx context.Context, events <-chan struct{}, quiet time.Duration) bool {
	var calm <-chan time.Time // nil until something happens
	for {
		select {
		case <-ctx.Done():
			return false
		case <-events:
			calm = time.After(quiet)
		case <-calm:
			return true
		}
	}
}
