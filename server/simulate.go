package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/simulate"
)

func (p *program) simulate() *cobra.Command {
	s := &simulation{program: p, from: source{program: p}}
	cmd := &cobra.Command{
		Use:     "simulate [FILE...]",
		GroupID: "server",
		Short:   "Replay an access log against limits that are only proposed",
		Long: `Replay an access log against limits, and report who would have been refused. No store is asked and nothing is charged.

The limits are those of --limit, or else those of the configuration. Files may be packed by gzip, and in any order; - or no
file is standard input. The form of a log is found out; of JSON and CSV also the names of fields, unless --field gives them.

Exit codes: 0 done, whatever was refused; 2 not, or not to the end.`,
		Example: `  ration simulate /var/log/nginx/access.log* --limit "api=bucket 10/1m burst 20"
  zcat old.log.gz | ration simulate --limit "sliding 100/1h" --key user --path "/api/*"
  ration simulate caddy.json --config ration.yaml --html report.html`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&s.limits, "limit", nil, "a `LIMIT` to try, or NAME=LIMIT; may be repeated")
	flags.StringArrayVar(&s.keys, "key", nil, "the `FIELDS` that make up a key, with commas (default address), or NAME=FIELDS for one limit; may be repeated")
	flags.IntVar(&s.opts.IPv4Prefix, "ipv4-prefix", 32, "so many leading `BITS` of an IPv4 address are a key")
	flags.IntVar(&s.opts.IPv6Prefix, "ipv6-prefix", 64, "so many leading `BITS` of an IPv6 address are a key")
	flags.StringVar((*string)(&s.opts.Format), "format", "", "the `FORMAT` of the log: common, combined, json or csv")
	flags.StringArrayVar(&s.fields, "field", nil, "`NAME=FIELD`: what a field is called in JSON or CSV, as in time=ts; may be repeated")
	flags.StringArrayVar(&s.opts.Paths, "path", nil, "a `PATTERN` of paths to replay, such as /api/*, or !/health to leave out; may be repeated")
	flags.StringSliceVar(&s.opts.Methods, "method", nil, "the `METHODS` to replay, with commas")
	flags.StringVar(&s.opts.Cost, "cost", "", "the `FIELD` with a request's cost (default: each costs 1)")
	flags.StringVar(&s.suggest, "suggest", "95,99,99.9", "`PERCENTAGES` of keys and requests to suggest limits for; \"\": none")
	flags.IntVar(&s.opts.Top, "top", 10, "how many keys to list, `N`, of those refused most")
	flags.Int64Var(&s.memory, "max-memory", 1024, "the `MIB` of memory to keep keys in")
	flags.BoolVar(&s.opts.HideKeys, "hide-keys", false, "show numbers in place of keys, to pass a report on")
	flags.StringVar(&s.html, "html", "", "write a page with charts to `FILE` as well")
	s.from.register(cmd, func(s *setting) bool { return false })
	flags.Lookup("config").Usage = "YAML `FILE` with the limits to try (environment: RATION_CONFIG)"
	return p.jsonFlag(cmd)
}

// simulation is one call of the command.
type simulation struct {
	*program
	from                 source
	opts                 simulate.Options
	limits, keys, fields []string
	suggest, html        string
	memory               int64
}

func (s *simulation) run(cmd *cobra.Command, files []string) error {
	if err := s.prepare(); err != nil {
		return err
	}
	inputs, err := inputsOf(cmd.InOrStdin(), files)
	if err != nil {
		return err
	}
	progress := newProgressLine(cmd.ErrOrStderr())
	s.opts.Progress = func(p simulate.Progress) { progress.show(progressText(p)) }
	report, err := simulate.Run(cmd.Context(), inputs, &s.opts)
	progress.clear()
	if err != nil {
		return err
	}
	if s.html != "" {
		if err := writeFile(s.html, report.WriteHTML); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if s.json {
		err = printJSON(cmd.OutOrStdout(), report)
	} else {
		err = report.WriteText(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	if !report.Complete {
		return errSaid
	}
	for _, in := range report.Inputs {
		if in.Broken != "" {
			return fmt.Errorf("%s breaks off after line %d: %s", in.Name, in.Lines, in.Broken)
		}
	}
	return nil
}

// prepare makes options of the flags.
func (s *simulation) prepare() error {
	if err := s.addLimits(); err != nil {
		return err
	}
	for _, text := range s.keys {
		name, fields, named := strings.Cut(text, "=")
		if !named {
			s.opts.Key = splitList(text)
			continue
		}
		found := false
		for i := range s.opts.Limits {
			if l := &s.opts.Limits[i]; l.Rule.Name == name {
				l.Key, found = splitList(fields), true
			}
		}
		if !found {
			return usageError{fmt.Errorf("--key %s: no limit has the name %q", text, name)}
		}
	}
	s.opts.Fields = map[string]string{}
	for _, text := range s.fields {
		name, field, ok := strings.Cut(text, "=")
		if !ok || name == "" || field == "" {
			return usageError{fmt.Errorf("--field %s is not NAME=FIELD, such as time=ts", text)}
		}
		s.opts.Fields[name] = field
	}
	for _, text := range splitList(s.suggest) {
		p, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return usageError{fmt.Errorf("--suggest: %q is not a percentage, such as 99.9", text)}
		}
		s.opts.Suggest = append(s.opts.Suggest, p)
	}
	if s.memory < 1 || s.memory > 1<<30 {
		return usageError{fmt.Errorf("--max-memory: %d MiB is not between 1 and 2^30", s.memory)}
	}
	s.opts.MaxMemory = s.memory << 20
	return nil
}

func (s *simulation) addLimits() error {
	for _, text := range s.limits {
		name, limit, named := strings.Cut(text, "=")
		if !named {
			name, limit = "", text
		}
		parsed, err := ration.ParseLimit(strings.TrimSpace(limit))
		if err != nil {
			return usageError{fmt.Errorf("--limit: %w", err)}
		}
		s.opts.Limits = append(s.opts.Limits, simulate.Limit{Rule: ration.Rule{Name: strings.TrimSpace(name), Limit: parsed}})
	}
	if len(s.opts.Limits) > 0 {
		return nil
	}
	cfg, err := s.from.load()
	if err != nil {
		return err
	}
	for _, rule := range cfg.Limits {
		if _, slots := rule.Limit.(ration.Concurrency); !slots { // a log does not say how long requests ran
			s.opts.Limits = append(s.opts.Limits, simulate.Limit{Rule: rule})
		}
	}
	if len(s.opts.Limits) == 0 {
		return usageError{errors.New("no limits to try; give one, as in --limit \"api=bucket 10/1m burst 20\", or a configuration that has some")}
	}
	return nil
}

// splitList is what stands between commas.
func splitList(text string) (list []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

func inputsOf(stdin io.Reader, files []string) (inputs []simulate.Input, err error) {
	if len(files) == 0 {
		if f, ok := stdin.(*os.File); ok && isTerminal(f) {
			return nil, usageError{errors.New("no log to read; name a file, or pipe one in")}
		}
		files = []string{"-"}
	}
	seen := false
	for _, file := range files {
		switch {
		case file != "-":
			inputs = append(inputs, simulate.File(file))
		case seen:
			return nil, usageError{errors.New("standard input can be read only once")}
		default:
			seen = true
			inputs = append(inputs, simulate.Stream("standard input", stdin))
		}
	}
	return inputs, nil
}

// writeFile writes a file that only its owner reads: it names keys. One that could not be written to its end is removed.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// progressLine says how far something is: on a terminal in one line that changes, else in a line every ten seconds.
type progressLine struct {
	w        io.Writer
	terminal bool
	shown    int // columns
	said     time.Time
}

func newProgressLine(w io.Writer) *progressLine {
	f, ok := w.(*os.File)
	return &progressLine{w: w, terminal: ok && isTerminal(f)}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progressLine) show(text string) {
	switch now := time.Now(); {
	case p.terminal:
		fmt.Fprintf(p.w, "\r%-*s", p.shown, text)
		p.shown = len(text)
	case p.said.IsZero() || now.Sub(p.said) >= 10*time.Second:
		p.said = now
		fmt.Fprintln(p.w, text)
	}
}

func (p *progressLine) clear() {
	if p.terminal && p.shown > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.shown, "")
	}
}

func progressText(p simulate.Progress) string {
	rate := float64(p.Lines) / p.Elapsed.Seconds()
	text := fmt.Sprintf("%.1f million requests, %.0f thousand a second", float64(p.Lines)/1e6, rate/1e3)
	if p.Bytes > 0 && p.Read > 0 {
		done := float64(p.Read) / float64(p.Bytes)
		text += fmt.Sprintf(", %.0f%%, %s left", 100*min(done, 1), (time.Duration(float64(p.Elapsed) * max(1/done-1, 0))).Round(time.Second))
	}
	return text
}
