package httplimit_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The Go code of docs/http.md is code of the examples, up to the spaces.
func TestDocument(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	code := squeeze(read("example_test.go"))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read("../docs/http.md"), -1)
	for _, block := range blocks {
		if !strings.Contains(code, squeeze(block[1])) {
			t.Errorf("code that no example has:\n%s", block[1])
		}
	}
	if len(blocks) < 6 {
		t.Errorf("only %d blocks of code were found", len(blocks))
	}
}
