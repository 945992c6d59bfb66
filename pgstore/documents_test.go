package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/pgstore"
)

// asVersion1 takes out of a schema what the first version had not.
func asVersion1(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	for _, sql := range []string{
		"DROP FUNCTION @.ration_documents_v2", "DROP FUNCTION @.ration_put_document_v2", "DROP TABLE @.ration_documents",
		"UPDATE @.ration_meta SET version = 1",
	} {
		if _, err := pool.Exec(context.Background(), strings.ReplaceAll(sql, "@", schema)); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestOlderSchema: a schema without documents keeps counts as before, says what is missing, and has documents once it is migrated,
// also for stores that are open.
func TestOlderSchema(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	admin := newPool(t, server(t, 15).URL, nil)
	schema, role := newSchema(), "role_"+newSchema()
	opts := &pgstore.Options{Schema: schema}
	if err := pgstore.Migrate(ctx, admin, opts); err != nil {
		t.Fatal(err)
	}
	asVersion1(t, admin, schema)
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN", "GRANT USAGE ON SCHEMA " + schema + " TO " + role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + schema + " TO " + role,
	} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	pool := newPool(t, server(t, 15).URL, func(cfg *pgxpool.Config) { cfg.ConnConfig.User = role })
	var open []*pgstore.Store
	for _, noMigrate := range []bool{true, false} {
		var log bytes.Buffer
		s, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: schema, NoMigrate: noMigrate, Logger: slog.New(slog.NewTextHandler(&log, nil)), SweepEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		open = append(open, s)
		if !strings.Contains(log.String(), "older version, without documents") {
			t.Errorf("nothing is said about the older schema: %q", log.String())
		}
		apply(t, s, take("k", 100, 1))
		if _, err := s.PutDocument(ctx, "s", driver.Document{Name: "n", Value: []byte("v")}); !errors.Is(err, driver.ErrNoDocuments) || !errors.Is(err, driver.ErrNotApplied) {
			t.Errorf("a document: %v", err)
		}
		if _, err := s.DocumentsSince(ctx, "s", 0, 1); !errors.Is(err, driver.ErrNoDocuments) {
			t.Errorf("documents: %v", err)
		}
	}

	if err := pgstore.Migrate(ctx, admin, opts); err != nil {
		t.Fatal(err)
	}
	if _, err := open[0].PutDocument(ctx, "s", driver.Document{Name: "n", Value: []byte("v")}); !errors.Is(err, driver.ErrNoDocuments) || !strings.Contains(err.Error(), "grant it") {
		t.Errorf("a document without rights on the new table: %v", err)
	}
	if _, err := admin.Exec(ctx, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+role); err != nil {
		t.Fatal(err)
	}
	if _, err := open[0].PutDocument(ctx, "s", driver.Document{Name: "n", Value: []byte("v")}); err != nil {
		t.Error(err)
	}
	if l, err := open[1].DocumentsSince(ctx, "s", 0, 10); err != nil || len(l.Documents) != 1 || string(l.Documents[0].Value) != "v" {
		t.Errorf("%+v, %v", l, err)
	}
	if n := used(t, open[1], "k"); n != 2 {
		t.Errorf("%d are used, not 2", n)
	}
}
