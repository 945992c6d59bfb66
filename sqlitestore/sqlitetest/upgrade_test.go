package sqlitetest

import (
	"testing"

	"github.com/ration-go/ration/driver"
)

// firstSchema made the files of version 1.
var firstSchema = []string{
	`PRAGMA journal_mode = WAL`,
	`CREATE TABLE ration_meta (
		name  TEXT PRIMARY KEY,
		value INTEGER NOT NULL
	) STRICT, WITHOUT ROWID`,
	`CREATE TABLE ration_spaces (
		id   INTEGER PRIMARY KEY,
		name TEXT NOT NULL UNIQUE
	) STRICT`,
	`CREATE TABLE ration_states (
		key     BLOB PRIMARY KEY,
		expires INTEGER NOT NULL,
		lag     INTEGER NOT NULL,
		state   BLOB NOT NULL
	) STRICT, WITHOUT ROWID`,
	`INSERT INTO ration_meta (name, value) VALUES ('schema', 1), ('sweep', 0)`,
}

// TestUpgrade: a file of version 1 keeps its counts, and holds work in it; several processes may open it at once.
func TestUpgrade(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		other := file(t)
		filled := open(t, engine, other, nil)
		apply(t, filled, hit("a", 5))
		path := file(t)
		db := openDB(t, engine, path)
		db.SetMaxOpenConns(1)
		for _, text := range append(firstSchema,
			`ATTACH '`+other+`' AS other`,
			`INSERT INTO ration_spaces SELECT * FROM other.ration_spaces`,
			`INSERT INTO ration_states SELECT * FROM other.ration_states`,
			`DETACH other`,
		) {
			if _, err := db.Exec(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		start := make(chan struct{})
		stores := make(chan driver.Store, 2)
		for range cap(stores) {
			go func() {
				<-start
				stores <- open(t, engine, path, nil)
			}()
		}
		close(start)
		s, same := <-stores, <-stores
		apply(t, s, reserve("x", 3, true, hour))
		apply(t, same, settle("x", 2))
		if a, n := used(t, s, "a"), held(t, s, 0); a != 5 || n != 2 {
			t.Errorf("5 and 2 should count, but %d and %d do", a, n)
		}
		var version int
		if err := db.QueryRow(`SELECT value FROM ration_meta WHERE name = 'schema'`).Scan(&version); err != nil || version != 3 {
			t.Errorf("the file is of version %d (%v)", version, err)
		}
	})
}
