package sqlitetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

// refused is the error of New on a file that it cannot use.
func refused(t *testing.T, engine, path string) error {
	t.Helper()
	s, err := sqlitestore.New(t.Context(), openDB(t, engine, path), nil)
	if err == nil {
		_ = s.Close()
		t.Fatalf("New should refuse %s", path)
	}
	if !strings.HasPrefix(err.Error(), "sqlitestore: ") {
		t.Errorf("the error does not say where it comes from: %v", err)
	}
	t.Log(err)
	return err
}

func TestRefusedFiles(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		text := filepath.Join(dir, "text.db")
		if err := os.WriteFile(text, []byte(strings.Repeat("this is not a database\n", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, engine, text)
		refused(t, engine, dir)
		refused(t, engine, filepath.Join(dir, "missing", "limits.db"))
		for _, path := range []string{":memory:", "file::memory:?cache=shared", ""} {
			if err := refused(t, engine, path); !errors.Is(err, sqlitestore.ErrNotShared) {
				t.Errorf("%q: %v is not ErrNotShared", path, err)
			}
		}
	})
}

func TestReadOnlyFile(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		apply(t, open(t, engine, path, nil), hit("a", 1))
		refused(t, engine, "file:"+path+"?mode=ro")

		empty := filepath.Join(t.TempDir(), "empty.db")
		if err := os.WriteFile(empty, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, engine, "file:"+empty+"?mode=ro")
	})
}

func TestLaterSchema(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		apply(t, s, hit("a", 1))
		db := openDB(t, engine, path)
		if _, err := db.Exec(`UPDATE ration_meta SET value = value + 1 WHERE name = 'schema'`); err != nil {
			t.Fatal(err)
		}
		if err := refused(t, engine, path); !errors.Is(err, sqlitestore.ErrSchema) {
			t.Errorf("%v is not ErrSchema", err)
		}
		var n int
		if err := db.QueryRow(`SELECT count(*) FROM ration_states`).Scan(&n); err != nil || n != 1 {
			t.Errorf("a refused file should be as it was, but has %d states (%v)", n, err)
		}
	})
}

// TestSharedFile: the tables of an application and of the store live in one file.
func TestSharedFile(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		db := openDB(t, engine, path)
		for _, text := range []string{`CREATE TABLE people (name TEXT)`, `PRAGMA user_version = 7`, `INSERT INTO people VALUES ('Ada')`} {
			if _, err := db.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		s, err := sqlitestore.New(t.Context(), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, hit("a", 3))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var name string
		var version int
		err = errors.Join(db.QueryRow(`SELECT name FROM people`).Scan(&name), db.QueryRow(`PRAGMA user_version`).Scan(&version))
		if err != nil || name != "Ada" || version != 7 {
			t.Errorf("the application's own data became %q, %d (%v)", name, version, err)
		}
		if _, err := db.Exec(`INSERT INTO people VALUES ('Grace')`); err != nil {
			t.Errorf("the pool came back unfit for use: %v", err)
		}
		if n := used(t, open(t, engine, path, nil), "a"); n != 3 {
			t.Errorf("3 were counted, and %d are", n)
		}
	})
}

// TestFullFile: a file that may not grow refuses new keys, charges nothing for them, and still decides on old ones.
func TestFullFile(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		apply(t, open(t, engine, path, nil), hit("old", 1))
		s := open(t, engine, "file:"+path+"?_pragma=max_page_count(12)", nil)
		var counted []string
		var err error
		for i := 0; err == nil; i++ {
			if i > 10_000 {
				t.Fatal("the file never became full")
			}
			id := fmt.Sprintf("key %d of a length that fills pages: %s", i, strings.Repeat("x", 500))
			txn := hit(id, 1)
			if err = s.Apply(t.Context(), []*driver.Txn{hit("old", 1), txn}); err == nil {
				counted = append(counted, id)
			}
		}
		t.Log(err)
		if !errors.Is(err, driver.ErrNotApplied) {
			t.Errorf("nothing was charged, and the error should say so: %v", err)
		}
		if n := used(t, s, "old"); n != int64(len(counted)+1) {
			t.Errorf("%d batches and a hit were counted, and %d are", len(counted), n)
		}
		apply(t, s, hit("old", 1))
		for _, id := range counted {
			if n := used(t, s, id); n != 1 {
				t.Errorf("a key that was counted once has %d", n)
			}
		}
	})
}

// TestSmallPool: a pool of one connection is enough.
func TestSmallPool(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		db := openDB(t, engine, file(t))
		db.SetMaxOpenConns(1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		s, err := sqlitestore.New(ctx, db, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		apply(t, s, hit("a", 2))
		if n := used(t, s, "a"); n != 2 {
			t.Errorf("2 were counted, and %d are", n)
		}
		if _, err := s.Sweep(ctx, 0, 10); err != nil {
			t.Error(err)
		}
	})
}
