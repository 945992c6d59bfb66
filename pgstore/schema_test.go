package pgstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ration-go/ration/pgstore"
)

func TestSQL(t *testing.T) {
	t.Parallel()
	sql := pgstore.SQL(&pgstore.Options{Schema: `odd "name"`})
	if strings.Contains(sql, "@") || !strings.Contains(sql, `"odd ""name""".ration_states`) {
		t.Error("a placeholder was left, or a name was not quoted")
	}
	if path := os.Getenv("RATION_PRINT_SQL"); path != "" {
		if err := os.WriteFile(path, []byte(pgstore.SQL(nil)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
