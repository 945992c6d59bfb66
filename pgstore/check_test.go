package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ration-go/ration/pgstore"
)

// TestFindings: what no server of the tests can be made to say.
func TestFindings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *pgstore.Setup)
		want   []string
	}{
		"sound":              {func(*pgstore.Setup) {}, nil},
		"an old server":      {func(s *pgstore.Setup) { s.Number = 130004 }, []string{"error postgres.version"}},
		"an old transaction": {func(s *pgstore.Setup) { s.Oldest = 2 * time.Hour }, []string{"warning postgres.old_transaction"}},
		"lazy standbys":      {func(s *pgstore.Setup) { s.Followers = 2 }, []string{"note postgres.failover"}},
		"sure standbys": {func(s *pgstore.Setup) {
			s.Followers = 2
			s.Settings = map[string]string{"synchronous_standby_names": "*"}
		}, nil},
		"a pooler": {func(s *pgstore.Setup) { s.Pooler = "transaction" }, nil},
	} {
		s := &pgstore.Setup{Number: 150004, Version: 9, Wanted: 9}
		c.change(s)
		var got []string
		for _, f := range s.Findings(nil) {
			if f.Level != "ok" {
				got = append(got, f.Level+" "+f.Code)
			}
			if (f.Remedy == "") != (f.Level == "ok") || f.Text == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// TestCheck: a store says it of itself. The server of these tests does not wait for its disk.
func TestCheck(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, f := range open(t, newPool(t, server(t, 15).URL, nil), &pgstore.Options{Schema: newSchema()}).Check(t.Context()) {
		if f.Level == "error" {
			codes = append(codes, f.Code)
		}
	}
	if !slices.Equal(codes, []string{"postgres.fsync"}) {
		t.Errorf("%q", codes)
	}
}
