package ration_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The root module imports the standard library only, its tests too.
func TestStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "-test", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	for _, p := range packages {
		if !strings.HasPrefix(p, "github.com/ration-go/ration") && !strings.HasPrefix(p, "[github.com/ration-go/ration") {
			t.Errorf("%s is not of the standard library", p)
		}
	}
	if len(packages) < 5 {
		t.Fatalf("only %d packages seen", len(packages))
	}
}

// No package that a program links imports testing.
func TestNoTestCodeInPrograms(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", ".", "./driver", "./memstore")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	for _, p := range strings.Fields(string(out)) {
		if p == "testing" || strings.HasPrefix(p, "testing/") || strings.HasSuffix(p, "storetest") {
			t.Errorf("%s is linked into programs", p)
		}
	}
}
