package server_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ration-go/ration/server"
)

// Commands and their answers stand in docs/server.md and in testdata/*.md, in blocks marked console: a line that begins
// with "$ " is run by a shell, and what follows is what it prints, with "[exit 1]" for an exit code. They are run in order,
// against a server with the file's block marked yaml as its configuration. RATION_REWRITE=1 writes the answers anew.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test runs the documented commands, so it needs curl: apt-get install curl")
	}
	files := append(must[[]string](t)(filepath.Glob("testdata/*.md")), "../docs/server.md", "../docs/doctor.md", "../docs/simulate.md")
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			runDocument(t, name)
		})
	}
}

func runDocument(t *testing.T, name string) {
	text := string(must[[]byte](t)(os.ReadFile(name)))
	dir := t.TempDir()
	args := []string{}
	if config := block(text, "yaml"); config != "" {
		write(t, filepath.Join(dir, "ration.yaml"), config)
		args = append(args, "--config", "ration.yaml")
	}
	p := serve(t, dir, args...)
	sh := &shell{t: t, dir: dir, url: p.url}

	var out strings.Builder
	lines := slices.Collect(strings.Lines(text))
	inside, ran := false, 0
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
		case inside && strings.HasPrefix(line, "$ "):
			from := i + 1
			for i+1 < len(lines) && !strings.HasPrefix(lines[i+1], "$ ") && !strings.HasPrefix(lines[i+1], "```") {
				i++
			}
			want := strings.Join(lines[from:i+1], "")
			got := sh.run(strings.TrimPrefix(line, "$ "))
			ran++
			if masked(got) == masked(want) {
				got = want
			} else if !rewrite {
				t.Errorf("%s%s\nprints\n%s\nnot\n%s", name, ": "+line, got, want)
			}
			out.WriteString(line + got)
			continue
		}
		out.WriteString(line)
	}
	if ran == 0 {
		t.Errorf("%s has no commands", name)
	}
	if rewrite {
		write(t, name, out.String())
	}
}

// The configuration in the documentation names every setting, with its default.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	text := string(must[[]byte](t)(os.ReadFile("../docs/server.md")))
	config := block(text, "yaml")
	got := must[*server.Config](t)(server.Load(write(t, filepath.Join(t.TempDir(), "c"), config), nil))
	if len(got.Limits) != 3 || len(got.Checks) != 1 {
		t.Errorf("%d limits, %d checks", len(got.Limits), len(got.Checks))
	}
	got.Limits, got.Checks = nil, nil
	equal(t, got, server.Defaults())
	stdout, _, _ := run(t, t.TempDir(), nil, "config", "check")
	for line := range strings.Lines(stdout) {
		name, _, _ := strings.Cut(line, " ")
		for key := range strings.SplitSeq(strings.TrimSuffix(name, ";"), ".") {
			if key != "valid" && !strings.Contains(config, key+":") {
				t.Errorf("the configuration in the documentation lacks %s", name)
			}
		}
	}
}

// block is the first block of a kind.
func block(text, kind string) string {
	_, rest, _ := strings.Cut(text, "\n```"+kind+"\n")
	body, _, _ := strings.Cut(rest, "\n```\n")
	if body != "" {
		body += "\n"
	}
	return body
}

// shell runs commands that speak of the default address, at the address of a test.
type shell struct {
	t        *testing.T
	dir, url string
}

func (s *shell) run(command string) string {
	s.t.Helper()
	const address = "http://" + server.DefaultListen
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, address, s.url))
	cmd.Dir = s.dir
	cmd.Env = append(environ(), "RATION_SERVER="+s.url, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "http_proxy=", "HTTP_PROXY=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	text := out.String()
	// curl shows its progress to people only; -s would make the documented lines longer.
	text = progress.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, s.url, address)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err != nil {
		text += "[" + strings.Replace(err.Error(), "exit status", "exit", 1) + "]\n"
	}
	return text
}

var progress = regexp.MustCompile(`(?m)^  % Total.*\n.*\n(.*\r.*\n)?`)

// masked is text without what depends on the moment and the machine.
func masked(text string) string {
	for _, m := range masks {
		text = m.form.ReplaceAllString(text, m.by)
	}
	return text
}

var masks = []struct {
	form *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`"(at_us|expires_at_us|left_ms|retry_after_ms|reset_after_ms)":[1-9]\d*`), `"$1":N`},
	{regexp.MustCompile(`\(at [0-9-]+ [0-9:]+Z\)`), "(at T)"},
	{regexp.MustCompile(`until [0-9-]+ [0-9:]+Z`), "until T"},
	{regexp.MustCompile(`(try again in|for another) [0-9hms.]+`), "$1 D"},
	{regexp.MustCompile(`\(go1\S+ \w+/\w+\)`), "(GO)"},
	{regexp.MustCompile(`"(go|os|arch)":"[^"]*"`), `"$1":"X"`},
	{regexp.MustCompile(`ration v?[0-9a-z.+-]+ \(GO\)`), "ration V (GO)"},
	{regexp.MustCompile(`"version":"[^"]*"`), `"version":"V"`},
	{regexp.MustCompile(`\((\d+ checks?), [0-9.]+m?s\)`), "($1, T)"},
}
