package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-go/ration/server/doctor"
)

func (p *program) doctor() *cobra.Command {
	from := &source{program: p}
	ask := &doctor.Options{}
	var replicas number
	strict, verbose := false, false
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: "server",
		Short:   "Say what is wrong with a store and its settings",
		Long: `Say what is wrong with a store and its settings, and what to do. It reads the configuration as serve would, and looks: can the
store be reached, may this role use it, is it exact when many ask at a time, how far is it, does it keep what it is told,
do all servers share it.

It makes no file and no schema, and writes only under keys of its own in namespace ration-doctor, which it removes.

RATION_ENV says where this is: production or development. Of several servers, --replicas says how many.

Exit codes: 0 nothing that has to be mended; 1 an error was found, or with --strict a warning; 2 wrong use.`,
		Example: `  ration doctor --config ration.yaml
  RATION_ENV=production ration doctor --store postgres://app@db/app --replicas 3 --strict`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if replicas < 0 || replicas > 1_000_000 {
				return usageError{errors.New("--replicas is 1 to 1000000")}
			}
			ask.Stage, ask.Replicas, ask.Getenv = p.variable(envStage), int(replicas), p.variable
			out := cmd.OutOrStdout()
			if !p.json {
				ask.Each = func(f doctor.Finding) { printFinding(out, f, verbose) }
			}
			var report *doctor.Report
			if cfg, err := from.load(); err == nil {
				report = Doctor(cmd.Context(), cfg, p.opts, ask)
			} else {
				report = &doctor.Report{Store: "configuration", Findings: invalid(err), Checks: 1}
				for _, f := range report.Findings {
					if ask.Each != nil {
						ask.Each(f)
					}
				}
			}
			if err := cmd.Context().Err(); err != nil {
				return errors.New("stopped before all was looked at")
			}
			return p.printReport(out, report, strict)
		},
	}
	from.register(cmd, func(*setting) bool { return true })
	flags := cmd.Flags()
	flags.Var(&replicas, "replicas", "how many servers there are")
	flags.BoolVar(&strict, "strict", false, "exit with 1 for warnings, too")
	flags.BoolVar(&verbose, "verbose", false, "show what is well, too")
	flags.DurationVar(&ask.Timeout, "check-timeout", 10*time.Second, "`DURATION` that each check may take")
	flags.DurationVar(&ask.MostRoundTrip, "max-round-trip", 25*time.Millisecond, "`DURATION` of an answer of the store, above which to warn")
	flags.DurationVar(&ask.MostOffset, "max-clock-offset", time.Second, "`DURATION` between the clocks of store and process, above which to warn")
	return p.jsonFlag(cmd)
}

// printFinding writes a line for what is so, and an indented one for what to do.
func printFinding(w io.Writer, f doctor.Finding, verbose bool) {
	if f.Severity == doctor.Fine && !verbose {
		return
	}
	text := f.Text
	if f.Where != "" {
		text = f.Where + ": " + text
	}
	fmt.Fprintf(w, "%-8s %-*s %s\n", f.Severity, doctor.WidestCode, f.Code, text)
	if f.Remedy != "" {
		fmt.Fprintf(w, "%9s%s\n", "", f.Remedy)
	}
}

func (p *program) printReport(w io.Writer, r *doctor.Report, strict bool) error {
	worst := r.Worst()
	well := worst < doctor.Error && (!strict || worst < doctor.Warning)
	var err error
	if p.json {
		findings := r.Findings
		if findings == nil {
			findings = []doctor.Finding{}
		}
		err = printJSON(w, struct {
			Healthy  bool             `json:"healthy"`
			Store    string           `json:"store"`
			Checks   int              `json:"checks"`
			TookMS   int64            `json:"took_ms"`
			Errors   int              `json:"errors"`
			Warnings int              `json:"warnings"`
			Notes    int              `json:"notes"`
			Findings []doctor.Finding `json:"findings"`
		}{well, r.Store, r.Checks, r.Took.Milliseconds(), r.Count(doctor.Error), r.Count(doctor.Warning), r.Count(doctor.Note), findings})
	} else {
		var found []string
		for _, s := range []doctor.Severity{doctor.Error, doctor.Warning, doctor.Note} {
			if n := r.Count(s); n > 0 {
				found = append(found, plural(n, s.String()))
			}
		}
		if len(found) == 0 {
			found = []string{"nothing to do"}
		}
		_, err = fmt.Fprintf(w, "%s: %s (%s, %v)\n", r.Store, strings.Join(found, ", "), plural(r.Checks, "check"), r.Took.Round(time.Millisecond))
	}
	switch {
	case err != nil:
		return err
	case !well:
		return errFound
	}
	return nil
}
