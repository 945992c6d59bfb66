package storetest

import (
	"embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// A case file is prose, with commands indented by four spaces and what they answer behind "->". A line "# Title" begins a
// case: an empty store, and a new clock. The answers of a list stand below it, one a line.
//
//	# A bucket starts full
//	An unknown key can take the whole burst at once.
//
//	    limit chat = bucket 10/1m burst 20
//	    take alice chat 20   -> yes used 20 left 0 reset 2m

//go:embed testdata/*.txt
var embedded embed.FS

type caseFile struct {
	name  string
	lines []string
	cases []testCase
}

type testCase struct {
	title string
	steps []step
}

const answerMark = "->"

// parseCases reads a case file. Lines are counted from 1.
func parseCases(name, text string) (*caseFile, error) {
	f := &caseFile{name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	r := caseReader{file: f}
	for i, line := range f.lines {
		if err := r.line(i+1, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	if err := r.endCase(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

type caseReader struct {
	file   *caseFile
	script *script
	prose  []string
	talk   bool // the last line was prose
	last   *part
}

func (r *caseReader) line(n int, line string) error {
	command, indented := strings.CutPrefix(line, "    ")
	switch {
	case strings.HasPrefix(line, "# "):
		if err := r.endCase(); err != nil {
			return err
		}
		r.file.cases = append(r.file.cases, testCase{title: line[2:]})
		r.script, r.prose, r.talk, r.last = newScript(), nil, false, nil
		return nil
	case strings.TrimSpace(line) == "":
		return nil
	case !indented:
		if !r.talk {
			r.prose = nil
		}
		r.talk = true
		r.prose = append(r.prose, strings.TrimSpace(line))
		return nil
	case r.script == nil:
		return fmt.Errorf("a command before the first title")
	}
	r.talk = false
	command, answer, answered := strings.Cut(command, answerMark)
	command, answer = strings.TrimSpace(command), strings.TrimSpace(answer)
	if command == "" {
		if r.last == nil {
			return fmt.Errorf("an answer to nothing")
		}
		r.last.want = append(r.last.want, answer)
		return nil
	}
	return r.command(n, command, answer, answered)
}

func (r *caseReader) command(n int, text, answer string, answered bool) error {
	st, err := r.script.command(text)
	if err != nil {
		return err
	}
	var p *part
	switch {
	case st != nil && text != "send":
		r.addStep(*st)
		steps := r.current().steps
		p = &steps[len(steps)-1].parts[0]
	case st == nil && r.script.inBatch && len(r.script.batch) > 0 && r.script.batch[len(r.script.batch)-1].line == 0:
		p = &r.script.batch[len(r.script.batch)-1]
	case st != nil:
		r.addStep(*st)
	}
	if p == nil || p.txn == nil && !(st != nil && st.answers()) {
		if answered {
			return fmt.Errorf("%q has no answer", text)
		}
		r.last = nil
	}
	if p != nil {
		p.line, p.prose = n, strings.Join(r.prose, " ")
		if answered {
			p.want = []string{answer}
		}
		if r.last = p; p.txn == nil && !st.answers() {
			r.last = nil
		}
	}
	return nil
}

func (r *caseReader) current() *testCase { return &r.file.cases[len(r.file.cases)-1] }

func (r *caseReader) addStep(st step) { r.current().steps = append(r.current().steps, st) }

func (r *caseReader) endCase() error {
	if r.script != nil && r.script.inBatch {
		return fmt.Errorf("a batch that is not sent")
	}
	return nil
}

// rewrite answers the text of f with the model's answers.
func (f *caseFile) rewrite() (string, error) {
	answers := map[int][]string{}
	for _, c := range f.cases {
		e := onModel(newModel())
		for i := range c.steps {
			st := &c.steps[i]
			got, err := e.do(st)
			if err != nil {
				return "", err
			}
			if !st.answers() {
				continue
			}
			for j := range st.parts {
				answers[st.parts[j].line] = st.parts[j].labelled(got[j])
			}
		}
	}
	var out strings.Builder
	for i := 0; i < len(f.lines); {
		end := i + 1
		if strings.HasPrefix(f.lines[i], "    ") {
			for end < len(f.lines) && strings.HasPrefix(f.lines[end], "    ") {
				end++
			}
			writeBlock(&out, f.lines[i:end], i+1, answers)
		} else {
			out.WriteString(strings.TrimRight(f.lines[i], " ") + "\n")
		}
		i = end
	}
	return out.String(), nil
}

// writeBlock writes commands that stand together, with their answers in one column.
func writeBlock(out *strings.Builder, lines []string, first int, answers map[int][]string) {
	const most = 44
	commands, column := make([]string, len(lines)), 0
	for i, line := range lines {
		command, _, _ := strings.Cut(line, answerMark)
		commands[i] = strings.TrimSpace(command)
		if n := utf8.RuneCountInString(commands[i]); len(answers[first+i]) > 0 && n <= most {
			column = max(column, n)
		}
	}
	for i, command := range commands {
		if command == "" {
			continue // the answers of a list are written anew
		}
		out.WriteString("    " + command)
		for j, answer := range answers[first+i] {
			if j == 0 {
				pad := max(0, column-utf8.RuneCountInString(command))
				out.WriteString(strings.Repeat(" ", pad) + "  " + answerMark + " " + answer)
			} else {
				out.WriteString("\n      " + answerMark + " " + answer)
			}
		}
		out.WriteByte('\n')
	}
}

var rewriteOnce = sync.OnceValue(rewriteAll)

// rewriteAll rewrites the case files where this source stands, which is of use only in a clone.
func rewriteAll() error {
	_, source, _, ok := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(source), "testdata")
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if !ok || err != nil || len(paths) == 0 {
		return fmt.Errorf("the case files can be rewritten only in a clone of the module, built without -trimpath")
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parseCases(filepath.Base(path), string(text))
		if err != nil {
			return err
		}
		out, err := f.rewrite()
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if out == string(text) {
			continue
		}
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// loadCases reads the case files that belong to this package: rewritten ones from where they were written.
func loadCases() (files []*caseFile, err error) {
	read := func(name string) ([]byte, error) { return embedded.ReadFile("testdata/" + name) }
	if os.Getenv("RATION_REWRITE") == "1" {
		if err := rewriteOnce(); err != nil {
			return nil, err
		}
		_, source, _, _ := runtime.Caller(0)
		read = func(name string) ([]byte, error) {
			return os.ReadFile(filepath.Join(filepath.Dir(source), "testdata", name))
		}
	}
	entries, err := embedded.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := read(entry.Name())
		if err != nil {
			return nil, err
		}
		f, err := parseCases(entry.Name(), string(text))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// caseFiles runs every case file on a store of its own, and each case in it under a namespace of its own.
func (s *suite) caseFiles(t scope) {
	files, err := loadCases()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		name := strings.TrimSuffix(f.name, ".txt")
		if names = append(names, name); len(s.h.Only) == 0 || slices.Contains(s.h.Only, name) {
			t.part(name, false, func(t scope) { s.caseFile(t, f) })
		}
	}
	for _, name := range s.h.Only {
		if !slices.Contains(names, name) {
			t.Errorf("Harness.Only: there is no case file %q", name)
		}
	}
}

func (s *suite) caseFile(t scope, f *caseFile) {
	store := s.h.Open(t)
	left := map[string]int{}
	for _, c := range f.cases {
		if why := needsOf(c.steps).missing(s); why != "" {
			left[why]++
			continue
		}
		e := s.executor(t, store)
		if d := e.firstDifference(c.steps); d != nil {
			why := ""
			if d.part.prose != "" {
				why = " The file says there: " + d.part.prose
			}
			t.Errorf("%s:%d: in %q, %s.%s", f.name, d.part.line, c.title, d.sentence(), why)
		}
		store = e.store
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		t.Logf("%d of %d cases left out: %s", left[why], len(f.cases), why)
	}
}
