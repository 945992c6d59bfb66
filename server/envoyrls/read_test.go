package envoyrls_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-go/ration/server/envoyrls"
)

// TestFaults: each with its line, all at once.
func TestFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "f.yaml: the file is empty",
		"descriptors: []":                     "f.yaml:1: domain: no domain",
		"domain: ''":                          "f.yaml:1: domain: a domain has",
		"domain: [a]":                         "f.yaml:1: domain: one value is expected",
		"domain: a\ndomain: b":                "f.yaml:2: domain: set twice",
		"domain: a\nx: 1":                     "f.yaml:2: x: unknown key; known are domain, descriptors, all_or_nothing",
		"domain: a\n---\ndomain: b":           "a second document",
		"domain: a\ndescriptors: 3":           "f.yaml:2: descriptors: not a list",
		"domain: a\ndescriptors: [3]":         "f.yaml:2: descriptors[0]: not a map",
		"domain: a\nall_or_nothing: ja":       `f.yaml:2: all_or_nothing: "ja" is not true or false`,
		"domain: a\ndescriptors:\n- value: x": "f.yaml:3: descriptors[0].key: a descriptor needs a key",
		"domain: a\ndescriptors:\n- {key: x}\n- {key: x}":                         "f.yaml:4: descriptors[1].key: a descriptor with this key and value",
		"domain: a\ndescriptors:\n- {key: x, value: 'y*'}\n- {key: x, value: y*}": "f.yaml:4: descriptors[1].key: a descriptor with this key and value",
		"domain: a\ndescriptors:\n- {key: x, descriptors: [{key: y, z: 1}]}":      "descriptors[0].descriptors[0].z: unknown key",
		"domain: a\ndescriptors:\n- {key: x, value: y, share_threshold: true}":    "share_threshold: only what a value with *",
		"domain: a\ndescriptors:\n- {key: x, metadata: {1: .inf}}":                "metadata: this cannot be sent",
		limitText("{}"): "rate_limit.unit: no unit",
		limitText("{unit: fortnight, requests_per_unit: 1}"):                                    `unit: "fortnight" is not second`,
		limitText("{unit: unknown, requests_per_unit: 1}"):                                      `unit: "unknown" is not second`,
		limitText("{unit: day, requests_per_unit: -1}"):                                         `requests_per_unit: "-1" is not a whole number`,
		limitText("{unit: day, requests_per_unit: 1.5}"):                                        `"1.5" is not a whole number`,
		limitText("{unit: day, requests_per_unit: 4294967296}"):                                 "is not a whole number from 0 to 4294967295",
		limitText("{unit: day, unlimited: true}"):                                               "what is unlimited has no unit",
		limitText("{unit: day, requests: 1}"):                                                   "rate_limit.requests: unknown key",
		limitText("{unit: day, requests_per_unit: 1, replaces: [{}]}"):                          "replaces[0].name: the name of a limit is missing",
		limitText("{unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}"):          "cannot replace itself",
		limitText("{unit: day, requests_per_unit: 1, replaces: [{nome: n}]}"):                   "nome: unknown key",
		limitText("{unit: year, requests_per_unit: 1, unit_multiplier: 11}"):                    "11 units of a year are more than",
		limitText("{unit: day, requests_per_unit: 1, unit_multiplier: 0}"):                      `unit_multiplier: "0" is not`,
		limitText("{unit: day, requests_per_unit: 1, algorithm: gcra}"):                         `there is no algorithm "gcra"`,
		limitText("{unit: minute, requests_per_unit: 1, algorithm: calendar}"):                  "no periods of a minute",
		limitText("{unit: day, requests_per_unit: 1, algorithm: calendar, unit_multiplier: 2}"): "a calendar has no unit_multiplier",
		limitText("{unit: day, requests_per_unit: 1, algorithm: calendar, zone: Mars/Olympus}"): "Mars/Olympus",
		limitText("{unit: day, requests_per_unit: 1, algorithm: calendar, from: noon}"):         "noon",
		limitText("{unit: day, requests_per_unit: 1, zone: UTC}"):                               "zone and from are for the algorithm calendar",
		limitText("{unit: day, requests_per_unit: 1, burst: 3}"):                                "a burst is for the algorithm token_bucket",
		limitText("{unit: year, requests_per_unit: 4294967291, algorithm: token_bucket}"):       "is near and works",
		limitText("{unit: Month, requests_per_unit: 3, algorithm: calendar, from: day 31}"):     "",
		limitText("{unit: DAY, requests_per_unit: 3, name: , replaces: , unlimited: no}"):       "",
		"domain: a\ndescriptors:\n- {key: x, value: , descriptors: , rate_limit: , metadata: }": "",
		"domain: a": "",
		"domain: a\ndescriptors: &a\n- {key: x, descriptors: *a}":   "nested more than 32 deep",
		"domain: a\ndescriptors:\n" + laughs(30):                    "more than 65535 descriptors",
		limitText("{unit: day, requests_per_unit: 3, lease: 100}"):  "",
		limitText("{unit: day, requests_per_unit: 3, lease: many}"): `lease: "many" is not a whole number`,
	} {
		_, err := envoyrls.Parse([]envoyrls.File{{Name: "f.yaml", Data: []byte(text)}}, false)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s\n%v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	_, err := envoyrls.Parse([]envoyrls.File{
		{"a", []byte("domain: a\nx: 1")}, {"b", []byte("domain: a\ny: 2\nz: 3")},
	}, false)
	if got := strings.Count(err.Error(), "\n") + 1; got != 4 { // and a twice
		t.Errorf("%d faults: %v", got, err)
	}
}

// laughs are n levels of two descriptors, each of which holds the level above.
func laughs(n int) string {
	text := "- {key: a, descriptors: &l0 []}\n"
	for i := range n {
		text += fmt.Sprintf("- {key: k%d, descriptors: &l%d [{key: a, descriptors: *l%d}, {key: b, descriptors: *l%d}]}\n", i, i+1, i, i)
	}
	return text
}

func limitText(limit string) string {
	return "domain: a\ndescriptors:\n- key: x\n  rate_limit: " + limit
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("d/one.yaml", "domain: one\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]")
	write("d/two.yml", "domain: two")
	write("d/.hidden.yaml", "domain: [")
	write("d/notes.txt", "not YAML: [")
	three := write("three", "domain: three")
	cfg, err := envoyrls.Load([]string{filepath.Join(dir, "d"), three}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cfg.Domains(), " "); got != "one three two" || cfg.Rules() != 1 {
		t.Errorf("%s, %d rules", got, cfg.Rules())
	}
	empty := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), empty} {
		if _, err := envoyrls.Load([]string{path}, false); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%v", err)
		}
	}
}

// TestMerge: parts of one domain from several files.
func TestMerge(t *testing.T) {
	t.Parallel()
	one := envoyrls.File{Name: "1", Data: []byte("domain: a\ndescriptors: [{key: x, descriptors: [{key: y, rate_limit: {unit: day, requests_per_unit: 1}}]}]")}
	two := envoyrls.File{Name: "2", Data: []byte("domain: a\ndescriptors: [{key: x, descriptors: [{key: z, rate_limit: {unit: day, requests_per_unit: 2}}]}]")}
	if _, err := envoyrls.Parse([]envoyrls.File{one, two}, false); err == nil {
		t.Error("two files describe one domain")
	}
	cfg, err := envoyrls.Parse([]envoyrls.File{one, two}, true)
	if err != nil || cfg.Rules() != 2 {
		t.Errorf("%v", err)
	}
	if _, err := envoyrls.Parse([]envoyrls.File{one, one}, true); err == nil {
		t.Error("two files have one limit")
	}
}

// TestDocumentedConfigurations: every configuration in docs/envoy.md is one.
func TestDocumentedConfigurations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("there is none")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if _, err := envoyrls.Parse([]envoyrls.File{{Name: "envoy.md", Data: []byte(block)}}, false); err != nil {
			t.Error(err)
		}
	}
}
