package simulate

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	r.head(p)
	for i := range r.Limits {
		r.Limits[i].text(p)
	}
	return p.err
}

// printer remembers the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(form string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, form+"\n", args...)
	}
}

func (p *printer) table(rows [][]string) {
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	if err := t.Flush(); p.err == nil {
		p.err = err
	}
}

func (r *Report) head(p *printer) {
	p.line("%s, %s", plural(r.Requests, "request"), r.span())
	for _, note := range r.notes() {
		p.line("%s", note)
	}
	for _, bad := range r.BadLines {
		line := fmt.Sprintf("  %s:%d: %s", bad.Input, bad.Line, bad.Why)
		if bad.Text != "" {
			line += ": " + bad.Text
		}
		p.line("%s", line)
	}
}

// span is from when to when.
func (r *Report) span() string {
	if r.Requests == 0 {
		return "so there is nothing to tell"
	}
	return moment(r.FromUS) + " to " + moment(r.ToUS)
}

// notes is what a reader has to know to trust the numbers.
func (r *Report) notes() (notes []string) {
	if !r.Complete {
		notes = append(notes, "interrupted: this is of what was read until then")
	}
	for _, in := range r.Inputs {
		if in.Broken != "" {
			notes = append(notes, fmt.Sprintf("%s breaks off after line %d: %s", in.Name, in.Lines, in.Broken))
		}
	}
	if r.LeftOut > 0 {
		notes = append(notes, fmt.Sprintf("%s left out, by path or method", plural(r.LeftOut, "request")))
	}
	if r.Behind > 0 {
		notes = append(notes, fmt.Sprintf("%s earlier than one before, by up to %s, decided at the later time", plural(r.Behind, "request"), span(r.MostBackUS)))
	}
	if r.Malformed > 0 {
		notes = append(notes, plural(r.Malformed, "line")+" not understood, such as")
	}
	return notes
}

func (l *LimitReport) text(p *printer) {
	p.line("")
	p.line("%s, by %s", l.title(), l.Key)
	for _, note := range l.notes() {
		p.line("  %s", note)
	}
	if l.Refused > 0 {
		p.line("  refused %s, from %s to %s, longest wait %s", l.refusedShare(), moment(l.FirstRefusedUS), moment(l.LastRefusedUS), span(l.LongestWaitUS))
		rows := [][]string{{"  refused", "of", "longest wait", "first", "last", "key"}}
		for _, k := range l.Top {
			rows = append(rows, []string{
				"  " + strconv.FormatInt(k.Refused, 10), strconv.FormatInt(k.Requests, 10), span(k.LongestWaitUS), moment(k.FirstRefusedUS), moment(k.LastRefusedUS), k.Key,
			})
		}
		if n := l.RefusedKeys - int64(len(l.Top)); n > 0 {
			rows = append(rows, []string{fmt.Sprintf("  and %s", plural(n, "more key"))})
		}
		p.table(rows)
	} else {
		p.line("  refused none of %s, of %s", plural(l.Requests, "request"), plural(l.Keys, "key"))
	}
	if len(l.Suggestions) > 0 {
		p.line("  to let pass without a refusal:")
		var rows [][]string
		for _, s := range l.Suggestions {
			rows = append(rows, []string{"    " + s.share(), s.text()})
		}
		p.table(rows)
	}
}

func (l *LimitReport) title() string {
	if l.Name == "" {
		return l.Limit
	}
	return l.Name + ": " + l.Limit
}

func (l *LimitReport) notes() (notes []string) {
	if l.NoKey > 0 {
		notes = append(notes, fmt.Sprintf("%s without a key: not decided", plural(l.NoKey, "request")))
	}
	if l.NotFollowed > 0 {
		notes = append(notes, fmt.Sprintf("%s of keys that there was no memory for: not decided, so there may be more refusals; allow more memory", plural(l.NotFollowed, "request")))
	}
	if l.Never > 0 {
		notes = append(notes, fmt.Sprintf("%s cost more than the limit ever has", plural(l.Never, "request")))
	}
	return notes
}

func (l *LimitReport) refusedShare() string {
	return fmt.Sprintf("%d of %s (%s), %d of %s (%s)",
		l.Refused, plural(l.Requests, "request"), percent(l.Refused, l.Requests), l.RefusedKeys, plural(l.Keys, "key"), percent(l.RefusedKeys, l.Keys))
}

func (s *Suggestion) share() string {
	return strconv.FormatFloat(s.Percent, 'f', -1, 64) + "% of " + s.Of
}

func (s *Suggestion) text() string {
	switch {
	case s.Limit == "":
		return "no size is large enough"
	case s.Least:
		return s.Limit
	}
	return s.Limit + " (or less)"
}

// percent is n of all, rounded, but 0 and 100 only if they are exact.
func percent(n, all int64) string {
	if all == 0 {
		return "0%"
	}
	p := float64(n) * 100 / float64(all)
	switch {
	case n == 0 || n == all:
		return strconv.FormatFloat(p, 'f', 0, 64) + "%"
	case p < 0.01:
		return "under 0.01%"
	case p > 99.99:
		return "over 99.99%"
	}
	return strconv.FormatFloat(p, 'f', 2, 64) + "%"
}

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}

func moment(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05Z") }

// span is a length of time, rounded up.
func span(us int64) string {
	d := time.Duration(min(us, 1<<53)) * time.Microsecond
	switch {
	case d >= time.Hour:
		d = roundedUp(d, time.Minute)
	case d >= time.Minute:
		d = roundedUp(d, time.Second)
	case d >= time.Second:
		d = roundedUp(d, 100*time.Millisecond)
	default:
		d = roundedUp(d, time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func roundedUp(d, unit time.Duration) time.Duration { return (d + unit - 1) / unit * unit }
