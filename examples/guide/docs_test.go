package guide

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fence = regexp.MustCompile("(?s)```go\n(.*?)```")

// The Go code of the documents is code of the examples, up to the spaces.
func TestDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		code.WriteString(read(t, file))
	}
	blocks := 0
	for _, document := range []string{"../../README.md", "../../docs/guide.md", "../../docs/stores.md"} {
		for _, block := range fence.FindAllStringSubmatch(read(t, document), -1) {
			blocks++
			if !strings.Contains(squeeze(code.String()), squeeze(block[1])) {
				t.Errorf("%s has code that no example has:\n%s", document, block[1])
			}
		}
	}
	if blocks < 10 {
		t.Errorf("only %d blocks of code were found", blocks)
	}
}

func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
