package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// One platform is released twice, and the bytes are the same.
func TestRelease(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the release is made on Linux") // CI is Linux
	}
	if !long {
		t.Skip("it compiles everything anew, for minutes: ./test --long")
	}
	const version = "v9.8.7-rc.1"
	platform := runtime.GOOS + "/" + runtime.GOARCH
	name := "ration-" + version + "-" + strings.Replace(platform, "/", "-", 1)
	var sums []string
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	for range 2 {
		dir := t.TempDir()
		cmd := exec.CommandContext(ctx, "../deploy/release", version, dir, platform)
		cmd.WaitDelay = time.Minute
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		sums = append(sums, string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, "SHA256SUMS")))))
		for line := range strings.Lines(sums[0]) {
			sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
			if got := sha256.Sum256(must[[]byte](t)(os.ReadFile(filepath.Join(dir, file)))); hex.EncodeToString(got[:]) != sum {
				t.Errorf("%s has another checksum", file)
			}
		}
		if len(sums) == 2 {
			continue
		}
		var bom struct {
			BOMFormat string `json:"bomFormat"`
			Metadata  struct {
				Component struct{ Name, Version string }
			}
			// Of all that the program is made of.
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(dir, name+".cdx.json"))), &bom); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range bom.Components {
			names = append(names, c.Name)
		}
		if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Version != version || !slices.Contains(names, "github.com/jackc/pgx/v5") || !slices.Contains(names, "std") {
			t.Errorf("%+v", bom)
		}
		if out, err := exec.Command("tar", "-C", dir, "-xzf", filepath.Join(dir, name+".tar.gz")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out := must[[]byte](t)(exec.Command(filepath.Join(dir, name, "ration"), "version").Output())
		if !strings.HasPrefix(string(out), "ration "+version+" (go1.") {
			t.Errorf("%s", out)
		}
		for _, file := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
			must[os.FileInfo](t)(os.Stat(filepath.Join(dir, name, file)))
		}
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 2 {
		t.Errorf("%s\n%s", sums[0], sums[1])
	}
	if out, err := exec.Command("../deploy/release", "1.2", t.TempDir()).CombinedOutput(); err == nil {
		t.Errorf("1.2 is released: %s", out)
	}
}
