// Package sqlite opens the SQLite store for a server, with the driver that the program ration links
// (docs/decisions/0003-sqlite-driver.md). It is apart from package server so that a program without it does not link the
// driver.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // sqlite3

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/sqlitestore"
)

// Open is a server.OpenFunc for sqlite:PATH. The file is made if it is not there; its folder must be there and writable,
// as SQLite keeps two more files beside it. A path is relative to the working folder; sqlite:///PATH works too.
func Open(ctx context.Context, url string, cfg *server.Config) (driver.Store, error) {
	path, err := pathOf(url)
	if err != nil {
		return nil, err
	}
	if err := writable(path); err != nil {
		return nil, err
	}
	return openPath(ctx, path, cfg, 0)
}

func openPath(ctx context.Context, path string, cfg *server.Config, sweepEvery time.Duration) (driver.Store, error) {
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		return nil, err
	}
	opts := &sqlitestore.Options{SweepEvery: sweepEvery}
	if cfg.SQLite.Synchronous == "normal" {
		opts.Synchronous = sqlitestore.Normal
	}
	s, err := sqlitestore.New(ctx, db, opts)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{s, db}, nil
}

// store closes the file too.
type store struct {
	*sqlitestore.Store
	db *sql.DB
}

func (s *store) Close() error { return errors.Join(s.Store.Close(), s.db.Close()) }

func pathOf(url string) (string, error) {
	path := strings.TrimPrefix(url, "sqlite:")
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(rest, "/") {
			return "", errors.New("a file has no host; write sqlite:PATH or sqlite:///PATH")
		}
		path = rest
	}
	switch {
	case path == "":
		return "", errors.New("no path; name a file, as in " + server.DefaultStore)
	case path == ":memory:":
		return "", errors.New("a database in memory cannot be shared by connections; use memory:")
	case strings.Contains(path, "?"):
		return "", errors.New("a path has no options behind a question mark; the setting is sqlite.synchronous")
	}
	// The driver takes file: and :memory: for something else than a path.
	if !filepath.IsAbs(path) {
		path = "." + string(filepath.Separator) + path
	}
	return path, nil
}

// writable says in plain words what SQLite would say as "unable to open database file".
func writable(path string) error {
	if err := writableFolder(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("the file %s cannot be written (%w); change its owner or mode, or name another path with --store", path, reason(err))
	}
	return f.Close()
}

func writableFolder(folder string) error {
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the folder %s is not there; make it, or name another path with --store", folder)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; name another path with --store", folder)
	}
	probe, err := os.CreateTemp(folder, ".ration-*")
	if err != nil {
		return fmt.Errorf("the folder %s is not writable (%w), and SQLite keeps its files there; change its owner or mode, or name another path with --store", folder, reason(err))
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// reason is err without the path, which stands beside it.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
