package server

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// keyFlags say which key a command is about.
type keyFlags struct {
	parts  []string
	group  string
	base64 bool
	global bool
}

func (k *keyFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&k.parts, "part", nil, "a further `PART` of the key, after KEY; may be repeated")
	flags.StringVar(&k.group, "group", "", "the `GROUP` of the key")
	flags.BoolVar(&k.base64, "key-base64", false, "KEY and PART are base64 of the bytes")
	flags.BoolVar(&k.global, "global", false, "the key that everybody shares; then KEY is left out")
}

// args checks that a command has KEY, unless the key is the global one, and then the others.
func (k *keyFlags) args(others ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if k.global {
			return args(others...)(cmd, given)
		}
		return args(append([]string{"KEY"}, others...)...)(cmd, given)
	}
}

// take cuts KEY off the arguments, and adds the key to a request.
func (k *keyFlags) take(in map[string]any, args []string) (rest []string, err error) {
	if k.group != "" {
		in["group"] = k.group
	}
	if k.global {
		if len(k.parts) > 0 || k.base64 {
			return nil, usageError{errors.New("--global is a key of its own; leave out --part and --key-base64")}
		}
		in["key"] = nil
		return args, nil
	}
	parts := append([]string{args[0]}, k.parts...)
	if slices.Contains(parts, "") {
		return nil, usageError{errors.New("a part of the key is empty; leave out a part that is absent")}
	}
	field := "key"
	if k.base64 {
		field = "key_base64"
	} else if slices.ContainsFunc(parts, func(part string) bool { return !utf8.ValidString(part) }) {
		field = "key_base64"
		for i, part := range parts {
			parts[i] = base64.StdEncoding.EncodeToString([]byte(part))
		}
	}
	in[field] = parts
	return args[1:], nil
}

// limitFlags say under which name a limit's text counts.
type limitFlags struct{ name string }

func (l *limitFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&l.name, "name", "", "the `NAME` under which LIMIT counts, if LIMIT is a text")
}

func (l *limitFlags) add(in map[string]any, limit string) {
	in["limit"] = limit
	if l.name != "" {
		in["name"] = l.name
	}
}

const limitHelp = `

LIMIT is the name of a limit of the server, or a limit as text, in quotes: "bucket 10/1m burst 20", "sliding 3/24h",
"fixed 100/1m", "budget 5000000/month Europe/Berlin".`

// asPath is the annotation of a command that is not called as its path is, and stands below another.
const asPath = "path"

// verb makes a client command: build makes the request of its arguments, print the answer for people.
func (p *program) verb(cmd *cobra.Command, others []string, build func(in map[string]any, rest []string) error,
	print func(cmd *cobra.Command, body []byte) error, extra ...func(*pflag.FlagSet),
) *cobra.Command {
	key := &keyFlags{}
	to := &target{source: source{program: p}}
	path := cmd.Annotations[asPath]
	if path == "" {
		path, cmd.GroupID = "/v1/"+cmd.Name(), "client"
	}
	cmd.Args = key.args(others...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := map[string]any{}
		rest, err := key.take(in, args)
		if err != nil {
			return err
		}
		if err := build(in, rest); err != nil {
			return err
		}
		got, err := to.call(cmd.Context(), http.MethodPost, path, in)
		if err != nil {
			return err
		}
		return p.show(cmd, got, print)
	}
	key.register(cmd.Flags())
	for _, register := range extra {
		register(cmd.Flags())
	}
	to.register(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return p.jsonFlag(cmd)
}

// show prints an answer, or makes an error of it.
func (p *program) show(cmd *cobra.Command, got answer, print func(cmd *cobra.Command, body []byte) error) error {
	if p.json {
		if _, err := cmd.OutOrStdout().Write(append(trimmed(got.body), '\n')); err != nil {
			return err
		}
	}
	if got.status != http.StatusOK {
		if p.json {
			return errSaid
		}
		return problem(got)
	}
	if p.json {
		return refusedIn(got.body)
	}
	return print(cmd, got.body)
}

// refusedIn is errRefused if an answer is a refusal.
func refusedIn(body []byte) error {
	d, err := decode[struct {
		Allowed *bool `json:"allowed"`
		OK      *bool `json:"ok"`
	}](body)
	if err == nil && (d.Allowed != nil && !*d.Allowed || d.OK != nil && !*d.OK) {
		err = errRefused
	}
	return err
}

// problem is an answer that is not one of status 200.
func problem(got answer) error {
	var body struct {
		Title, Detail, Code string
	}
	if json.Unmarshal(got.body, &body) != nil || body.Detail+body.Title == "" {
		return fmt.Errorf("the server answered with status %d and no reason; is it a ration server?", got.status)
	}
	text := body.Detail
	if text == "" {
		text = body.Title
	}
	if body.Code != "" {
		text += " (" + body.Code + ")"
	}
	return errors.New(text)
}

func decode[T any](body []byte) (v T, err error) {
	if err = json.Unmarshal(body, &v); err != nil {
		err = errors.New("the answer cannot be read; is it a ration server?")
	}
	return v, err
}

func (p *program) take() *cobra.Command { return p.decide("take", "Charge a limit, or be refused", "") }

func (p *program) peek() *cobra.Command {
	return p.decide("peek", "Ask what take would answer", "\n\nNothing is charged.")
}

func (p *program) decide(name, short, more string) *cobra.Command {
	limit := &limitFlags{}
	cost := number(1)
	var id requestID
	extra := []func(*pflag.FlagSet){limit.register, func(flags *pflag.FlagSet) {
		flags.Var(&cost, "cost", "how much of the limit it takes")
	}}
	if name == "take" {
		extra = append(extra, id.register)
	}
	return p.verb(&cobra.Command{
		Use:   name + " KEY LIMIT",
		Short: short,
		Long:  short + "." + more + limitHelp + "\n\nExit codes: 0 allowed, 1 refused, 2 could not tell.",
		Example: fmt.Sprintf(`  ration %[1]s user:42 "bucket 10/1m burst 20" --cost 3
  ration %[1]s user:42 chat
  ration %[1]s org:7 --part user:42 chat`, name),
	}, []string{"LIMIT"}, func(in map[string]any, rest []string) error {
		limit.add(in, rest[0])
		in["cost"] = cost
		id.add(in)
		return nil
	}, printDecision, extra...)
}

func (p *program) refund() *cobra.Command {
	limit := &limitFlags{}
	n := number(1)
	at := number(0)
	return p.verb(&cobra.Command{
		Use:   "refund KEY LIMIT --at AT_US",
		Short: "Give back what was charged",
		Long: `Give back what was charged, into the state that was charged: if its window or period is over, nothing goes back.

AT_US is at_us of the answer to take --json: when it was charged, in microseconds since 1970.` + limitHelp,
		Example: `  ration refund user:42 chat --at 1777888800123456 --cost 3`,
	}, []string{"LIMIT"}, func(in map[string]any, rest []string) error {
		if at == 0 {
			return usageError{errors.New("--at is missing: give it at_us of the answer to take --json")}
		}
		limit.add(in, rest[0])
		in["cost"], in["at_us"] = n, at
		return nil
	}, printRefund, limit.register, func(flags *pflag.FlagSet) {
		flags.Var(&n, "cost", "how much to give back")
		flags.Var(&at, "at", "`AT_US` of the charge")
	})
}

func (p *program) reset() *cobra.Command {
	limit := &limitFlags{}
	return p.verb(&cobra.Command{
		Use:     "reset KEY LIMIT",
		Short:   "Forget what was counted for a key under a limit",
		Long:    "Forget what was counted for a key under a limit. Its next charge finds it unused." + limitHelp,
		Example: "  ration reset user:42 chat",
	}, []string{"LIMIT"}, func(in map[string]any, rest []string) error {
		limit.add(in, rest[0])
		return nil
	}, said("reset"), limit.register)
}

func (p *program) forget() *cobra.Command {
	return p.verb(&cobra.Command{
		Use:     "forget KEY",
		Short:   "Forget all that was counted for a key",
		Long:    "Forget all that was counted for a key, under every limit.",
		Example: "  ration forget user:42",
	}, nil, func(map[string]any, []string) error { return nil }, said("forgotten"))
}

func (p *program) hit() *cobra.Command {
	n := number(1)
	return p.verb(&cobra.Command{
		Use:   "hit KEY WINDOW",
		Short: "Count on a bare counter",
		Long: `Count on a bare counter, and say what it comes to. WINDOW is how long the counter lasts once it opens, such as 1m or 24h;
an open one keeps its end. --n 0 only reads; below zero takes back.`,
		Example: "  ration hit login:42 15m",
	}, []string{"WINDOW"}, func(in map[string]any, rest []string) error {
		d, err := time.ParseDuration(rest[0])
		if err != nil || d%time.Millisecond != 0 {
			return usageError{fmt.Errorf("%q is not a window in whole milliseconds, such as 1m or 24h", rest[0])}
		}
		in["window_ms"], in["n"] = d.Milliseconds(), n
		return nil
	}, printHit, func(flags *pflag.FlagSet) {
		flags.Var(&n, "n", "how much to count")
	})
}

func (p *program) limits() *cobra.Command {
	to := &target{source: source{program: p}}
	cmd := &cobra.Command{
		Use:     "limits",
		GroupID: "client",
		Short:   "List the named limits",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := to.call(cmd.Context(), http.MethodGet, "/v1/limits", nil)
			if err != nil {
				return err
			}
			return p.show(cmd, got, printLimits)
		},
	}
	to.register(cmd)
	cmd.AddCommand(p.candidate())
	return p.jsonFlag(cmd)
}

// candidate says what a limit on trial would have done.
func (p *program) candidate() *cobra.Command {
	to := &target{source: source{program: p}}
	cmd := &cobra.Command{
		Use:   "candidate NAME",
		Short: "Say what a limit on trial would have done",
		Long: `Say what a limit on trial, a shadow or one with a candidate, would have done: how often, and to whom most often. Each server
counts by itself, from its start or that of the trial. Keys are shown as fingerprints.`,
		Example: "  ration limits candidate chat",
		Args:    args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := to.call(cmd.Context(), http.MethodGet, "/v1/limits/"+url.PathEscape(args[0])+"/candidate", nil)
			if err != nil {
				return err
			}
			return p.show(cmd, got, printTrial)
		},
	}
	to.register(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return p.jsonFlag(cmd)
}

func printTrial(cmd *cobra.Command, body []byte) error {
	t, err := decode[struct {
		Limit            string `json:"limit"`
		Shadow           bool   `json:"shadow"`
		Candidate        string `json:"candidate"`
		SinceUS          int64  `json:"since_us"`
		Decided          int64  `json:"decided"`
		LiveRefused      int64  `json:"live_refused"`
		CandidateRefused int64  `json:"candidate_refused"`
		BothRefused      int64  `json:"both_refused"`
		Undecided        int64  `json:"undecided"`
		Top              []struct {
			Fingerprint string `json:"fingerprint"`
			Refused     int64  `json:"refused"`
			AtLeast     int64  `json:"at_least"`
		} `json:"top"`
	}](body)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	refused := "refused"
	if t.Shadow {
		refused = "would have refused"
	}
	fmt.Fprintf(w, "of %s since %s, %s %s %d", plural(int(t.Decided), "decision"), second(t.SinceUS), t.Limit, refused, t.LiveRefused)
	if t.Candidate != "" {
		fmt.Fprintf(w, ", its candidate (%s) would have refused %d, and both %d", t.Candidate, t.CandidateRefused, t.BothRefused)
	}
	if t.Undecided > 0 {
		fmt.Fprintf(w, "; %d more could not be decided", t.Undecided)
	}
	fmt.Fprintln(w)
	table := newTable(w)
	for _, e := range t.Top {
		times := strconv.FormatInt(e.Refused, 10)
		if e.AtLeast < e.Refused {
			times = fmt.Sprintf("%d to %d", e.AtLeast, e.Refused)
		}
		table.row("would be hit:", e.Fingerprint, times)
	}
	return table.flush()
}

func trimmed(body []byte) []byte { return []byte(strings.TrimRight(string(body), "\r\n")) }
