package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ration-go/ration/server/doctor"
)

// sources are the files in which findings are made.
var sources = []string{
	"*.go", "../doctor*.go", "../examine.go", "../postgres/examine.go", "../redis/examine.go", "../sqlite/*.go",
	"../../pgstore/check.go", "../../internal/redisscript/check.go",
}

var literal = regexp.MustCompile(`"((?:config|postgres|redis|reach|scope|secret|sqlite|store|race)\.[a-z_]+|race|clock|round_trip|redis)"`)

// settings look like codes.
var settings = []string{"redis.wait_replicas"}

// TestCatalogue: it has the codes that the program knows, and no others, in order.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, pattern := range sources {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || file == "catalogue.go" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
				used[m[1]] = true
			}
		}
	}
	var codes []string
	for _, e := range doctor.Catalogue {
		codes = append(codes, e.Code)
		if !used[e.Code] {
			t.Errorf("nobody finds %s", e.Code)
		}
		if len(e.Code) > doctor.WidestCode || e.Meaning == "" {
			t.Errorf("%+v", e)
		}
		delete(used, e.Code)
	}
	for code := range used {
		if !slices.Contains(settings, code) {
			t.Errorf("%s is not in the catalogue", code)
		}
	}
	if !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
		t.Errorf("not in order: %q", codes)
	}
}

// TestDocumentedFindings: docs/doctor.md has the catalogue as a table. RATION_REWRITE=1 writes it anew.
func TestDocumentedFindings(t *testing.T) {
	t.Parallel()
	const file, head = "../../docs/doctor.md", "| code | meaning | what to do |\n|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, got, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no table", file)
	}
	var want strings.Builder
	for _, e := range doctor.Catalogue {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", e.Code, e.Meaning, e.Remedy)
	}
	if got == want.String() {
		return
	}
	if os.Getenv("RATION_REWRITE") == "1" {
		if err := os.WriteFile(file, []byte(before+head+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table of %s is not the catalogue; RATION_REWRITE=1 writes it anew", file)
}
