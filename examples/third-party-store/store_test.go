package filestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/storetest"
)

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) driver.Store { return open(t, filepath.Join(t.TempDir(), "counts")) },
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counts")
	limit := ration.SlidingWindow{Limit: 3, Window: time.Hour}
	key := ration.KeyOf("ada")
	for range 3 { // one use each, and then a crash in the middle of a line
		limiter := ration.New(open(t, path), nil)
		d, err := limiter.Take(t.Context(), key, limit, 1)
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(`[{"Key":"half a li`); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	limiter := ration.New(open(t, path), nil)
	if d, err := limiter.Take(t.Context(), key, limit, 1); err != nil || d.Allowed || d.Used != 3 {
		t.Errorf("after three restarts: %+v %v", d, err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counts")
	s := open(t, path)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	limiter := ration.New(s, &ration.Options{Clock: func() time.Time { return now }})
	for _, user := range []string{"ada", "grace"} {
		if _, err := limiter.Take(t.Context(), ration.KeyOf(user), ration.FixedWindow{Limit: 1, Window: time.Minute}, 1); err != nil {
			t.Fatal(err)
		}
	}
	const spaces = 1 // the record of Run's own
	if n, err := s.Sweep(t.Context(), driver.MicrosOf(now.Add(time.Minute-1)), 10); n != 0 || err != nil {
		t.Errorf("too early: %d %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), driver.MicrosOf(now.Add(time.Hour)), 1); n != 1 || err != nil {
		t.Errorf("bounded: %d %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), driver.MicrosOf(now.Add(time.Hour)), 10); n != 1 || err != nil || len(s.rows) != spaces {
		t.Errorf("the rest: %d %v, %d rows", n, err, len(s.rows))
	}
	if again := open(t, path); len(again.rows) != spaces {
		t.Errorf("%d rows come back", len(again.rows))
	}
}

// A file that was not written by the store is refused, and left as it is.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counts")
	const text = "[1, 2, 3]\nkeep me\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil {
		t.Error("it was opened")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%q %v", got, err)
	}
}
