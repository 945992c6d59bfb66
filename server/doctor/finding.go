package doctor

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// Severity says how much a finding matters. The zero Severity is Fine.
type Severity uint8

// The severities, from the least.
const (
	Fine    Severity = iota // looked at, nothing to do
	Note                    // may be as meant
	Warning                 // works, and will surprise somebody
	Error                   // does not work, or decides wrongly
)

var severities = [...]string{"ok", "note", "warning", "error"}

// String is "ok", "note", "warning" or "error".
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return fmt.Sprintf("Severity(%d)", uint8(s))
}

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Severity) UnmarshalText(text []byte) error {
	for i, name := range severities {
		if name == string(text) {
			*s = Severity(i)
			return nil
		}
	}
	return fmt.Errorf("doctor: %q is no severity", text)
}

// Finding is one remark.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`             // stable, for programs; one of Catalogue unless a store of somebody else's says it
	Where    string   `json:"where,omitempty"`  // an address, a file, a setting; "" if Text says it
	Text     string   `json:"text"`             // what is so
	Remedy   string   `json:"remedy,omitempty"` // what to do; "" for Fine
}

// Of is a store's own finding.
func Of(f driver.Finding) Finding {
	one := Finding{Severity: Note, Code: f.Code, Text: f.Text, Remedy: f.Remedy}
	if err := one.Severity.UnmarshalText([]byte(f.Level)); err != nil {
		one.Severity = Note
	}
	return one
}

// Report is the outcome of Run.
type Report struct {
	Store    string        // its URL, without secrets
	Findings []Finding     // in the order in which they were found
	Checks   int           // how many were made
	Took     time.Duration // all of them together
}

// Count is how many findings are of a severity.
func (r *Report) Count(s Severity) (n int) {
	for i := range r.Findings {
		if r.Findings[i].Severity == s {
			n++
		}
	}
	return n
}

// Worst is the greatest severity of a finding; Fine if there is none.
func (r *Report) Worst() (worst Severity) {
	for i := range r.Findings {
		worst = max(worst, r.Findings[i].Severity)
	}
	return worst
}

// journal gathers findings, from several goroutines, without secrets.
type journal struct {
	mu      sync.Mutex
	report  *Report
	secrets []string
	each    func(Finding)
}

// said reports whether there is such a finding already.
func (j *journal) said(code string, severity Severity) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.report.Findings, func(f Finding) bool { return f.Code == code && f.Severity == severity })
}

func (j *journal) say(f Finding) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, text := range []*string{&f.Where, &f.Text, &f.Remedy} {
		for _, secret := range j.secrets {
			if secret != "" {
				*text = strings.ReplaceAll(*text, secret, "xxxxx")
			}
		}
		*text = oneLine(*text)
	}
	j.report.Findings = append(j.report.Findings, f)
	if j.each != nil {
		j.each(f)
	}
}

// oneLine is text without breaks; errors of several parts have some.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}
