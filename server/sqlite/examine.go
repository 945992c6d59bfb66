package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/doctor"
	"github.com/ration-go/ration/sqlitestore"
)

// Examine is a server.ExamineFunc. The file is opened only if it is as a server left it; else the doctor's race is run on a
// file of its own beside it, which is removed.
func Examine(url string, cfg *server.Config, opts *doctor.Options) *doctor.Subject {
	e := &examination{cfg: cfg, stage: opts.Stage}
	var err error
	e.path, err = pathOf(url)
	return &doctor.Subject{
		Checks: []doctor.Check{{Name: "file", Do: func(ctx context.Context, say func(doctor.Finding)) bool {
			if err != nil {
				say(doctor.Finding{Severity: doctor.Error, Code: "config.store", Where: "store", Text: err.Error(), Remedy: "correct the setting store"})
				return false
			}
			e.say = func(severity doctor.Severity, code, where, text, remedy string) {
				say(doctor.Finding{Severity: severity, Code: code, Where: where, Text: text, Remedy: remedy})
			}
			return e.place() && e.file(ctx)
		}}},
		Open:  e.open,
		Close: e.tidy,
	}
}

type examination struct {
	cfg   *server.Config
	stage string
	path  string
	ready bool   // the file is as a server left it
	own   string // of the doctor, in its place
	say   func(severity doctor.Severity, code, where, text, remedy string)
}

// mostChecked bounds the size of a file that is read whole, in bytes.
const mostChecked = 256 << 20

// place looks at the folder and its disk.
func (e *examination) place() bool {
	folder := filepath.Dir(e.path)
	if err := writableFolder(folder); err != nil {
		e.say(doctor.Error, "sqlite.folder", folder, err.Error(), "change its owner or mode, or name another path with --store")
		return false
	}
	if e.stage == "production" && !filepath.IsAbs(e.path) {
		e.say(doctor.Note, "sqlite.relative", e.path, "the path begins in the working folder, so a start from elsewhere finds other counts", "write a path that begins with /")
	}
	if d, ok := diskOf(folder); ok {
		for _, f := range d.findings(folder) {
			e.say(f.Severity, f.Code, f.Where, f.Text, f.Remedy)
		}
	}
	if e.cfg.SQLite.Synchronous == "normal" {
		e.say(doctor.Note, "sqlite.synchronous", "sqlite.synchronous", "a power cut can forget the charges of the last moments", "set it to full, if that matters")
	}
	return true
}

// file looks at the file itself.
func (e *examination) file(ctx context.Context) bool {
	info, err := os.Stat(e.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		e.say(doctor.Note, "sqlite.new", e.path, "there is no file yet", "nothing: a server makes it at its start")
		return true
	case err != nil, !info.Mode().IsRegular():
		e.say(doctor.Error, "sqlite.file", e.path, fmt.Sprintf("it is not a file that can be opened (%v)", err), "name another path with --store")
		return false
	}
	if info.Mode().Perm()&0o002 != 0 {
		e.say(doctor.Warning, "sqlite.mode", e.path, fmt.Sprintf("its mode is %v: everybody on this machine can change the counts", info.Mode().Perm()), "chmod o-w")
	}
	f, err := os.OpenFile(e.path, os.O_RDWR, 0)
	if err != nil {
		e.say(doctor.Error, "sqlite.file", e.path, fmt.Sprintf("it cannot be written (%v)", reason(err)), "change its owner or mode, or name another path with --store")
		return false
	}
	f.Close()
	if info.Size() == 0 {
		e.say(doctor.Note, "sqlite.new", e.path, "the file is empty", "nothing: a server fills it at its start")
		return true
	}
	return e.database(ctx, info.Size() <= mostChecked)
}

func (e *examination) database(ctx context.Context, damage bool) bool {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: e.path}).EscapedPath()+"?mode=rw")
	if err == nil {
		defer db.Close()
		var s *sqlitestore.Setup
		if s, err = sqlitestore.Inspect(ctx, db, damage); err == nil {
			return e.setup(s)
		}
	}
	e.say(doctor.Error, "sqlite.file", e.path, err.Error(), "name another path with --store, or put back a copy of the file")
	return false
}

func (e *examination) setup(s *sqlitestore.Setup) bool {
	switch {
	case s.Damage != "":
		e.say(doctor.Error, "sqlite.damage", e.path, "the file is damaged: "+s.Damage, "stop the servers, and put back a copy, or move it away: then all counts begin anew")
		return false
	case s.Version > s.Known:
		e.say(doctor.Error, "sqlite.schema", e.path, fmt.Sprintf("a later version of ration made it (schema %d, this one knows %d)", s.Version, s.Known), "use that version, or a later one")
		return false
	case s.Version == 0:
		e.say(doctor.Note, "sqlite.schema", e.path, "it is a database without ration's tables", "nothing, if it is the right file: a server makes them at its start")
	case s.Version < s.Known:
		e.say(doctor.Note, "sqlite.schema", e.path, fmt.Sprintf("its tables have version %d; a server brings them to %d at its start", s.Version, s.Known), "copy the file before, if you may want to go back")
	case s.Journal != "wal":
		e.say(doctor.Note, "sqlite.journal", e.path, fmt.Sprintf("its journal mode is %s; a server changes it to wal at its start", s.Journal), "see that no other program changes it back")
	default:
		e.ready = true
	}
	return true
}

// open opens the file, or one of the doctor's own.
func (e *examination) open(ctx context.Context) (driver.Store, error) {
	path := e.path
	if !e.ready {
		if e.own == "" {
			f, err := os.CreateTemp(filepath.Dir(e.path), ".ration-doctor-*")
			if err != nil {
				return nil, err
			}
			e.own = f.Name()
			f.Close()
		}
		path = e.own
	}
	return openPath(ctx, path, e.cfg, -1)
}

func (e *examination) tidy() {
	if e.own == "" {
		return
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		_ = os.Remove(e.own + suffix) // most are not there
	}
}
