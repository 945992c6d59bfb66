package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (p *program) override() *cobra.Command {
	parent := &cobra.Command{
		Use:     "override",
		GroupID: "client",
		Short:   "Give single keys other numbers of a named limit",
		Long: `Give single keys other numbers of a named limit: a plan, an exception, a ban. Overrides are kept in the store, and are in
force in every server on it within two seconds, unless its overrides.poll says otherwise. What was counted stays.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.AddCommand(p.overrideSet(), p.overrideGet(), p.overrideRemove(), p.overrideList())
	return parent
}

func (p *program) overrideSet() *cobra.Command {
	var life time.Duration
	var until, note string
	var keep bool
	return p.verb(&cobra.Command{
		Use:   "set KEY LIMIT OVERRIDE",
		Short: "Set the override of a limit for a key",
		Long: `Set the override of a limit for a key, in place of one that there may be. LIMIT is the name of a limit of the server, OVERRIDE
a text of the same kind with other numbers, such as "bucket 100/1m burst 200"; or unlimited; or blocked.

Without --for and --until it is in force until it is removed. The key is kept as a fingerprint only, unless --keep-key is given.`,
		Example: `  ration override set user:42 chat "bucket 100/1m burst 200" --for 720h --note "trial of the large plan"
  ration override set user:66 chat blocked --keep-key
  ration override set user:7 chat unlimited --until 2027-01-01T00:00:00Z`,
		Annotations: map[string]string{asPath: "/v1/overrides/set"},
	}, []string{"LIMIT", "OVERRIDE"}, func(in map[string]any, rest []string) error {
		in["limit"], in["override"] = rest[0], rest[1]
		if note != "" {
			in["note"] = note
		}
		if keep {
			in["keep_key"] = true
		}
		switch {
		case life != 0 && until != "":
			return usageError{errors.New("--for and --until exclude each other")}
		case until != "":
			at, err := time.Parse(time.RFC3339, until)
			if err != nil {
				return usageError{fmt.Errorf("--until: %q is not a time such as 2027-01-01T00:00:00Z", until)}
			}
			in["expires_at_us"] = at.UnixMicro()
		case life != 0:
			return addMillis(in, "ttl_ms", life)
		}
		return nil
	}, printOverride, func(flags *pflag.FlagSet) {
		flags.DurationVar(&life, "for", 0, "how long it is in force, such as 24h")
		flags.StringVar(&until, "until", "", "until when it is in force: a `TIME` such as 2027-01-01T00:00:00Z")
		flags.StringVar(&note, "note", "", "a `TEXT` for people")
		flags.BoolVar(&keep, "keep-key", false, "keep the key itself in the store, to be shown in lists")
	})
}

func (p *program) overrideGet() *cobra.Command {
	return p.verb(&cobra.Command{
		Use:         "get KEY LIMIT",
		Short:       "Show the override of a limit for a key",
		Example:     "  ration override get user:42 chat",
		Annotations: map[string]string{asPath: "/v1/overrides/get"},
	}, []string{"LIMIT"}, func(in map[string]any, rest []string) error {
		in["limit"] = rest[0]
		return nil
	}, printOverride)
}

func (p *program) overrideRemove() *cobra.Command {
	return p.verb(&cobra.Command{
		Use:         "rm KEY LIMIT",
		Short:       "Remove the override of a limit for a key",
		Example:     "  ration override rm user:42 chat",
		Annotations: map[string]string{asPath: "/v1/overrides/remove"},
	}, []string{"LIMIT"}, func(in map[string]any, rest []string) error {
		in["limit"] = rest[0]
		return nil
	}, func(cmd *cobra.Command, body []byte) error {
		r, err := decode[struct {
			Removed  bool  `json:"removed"`
			WithinMS int64 `json:"within_ms"`
		}](body)
		if err != nil {
			return err
		}
		if !r.Removed {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "there was none")
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed; everywhere within %s\n", inWords(r.WithinMS))
		return err
	})
}

func (p *program) overrideList() *cobra.Command {
	to := &target{source: source{program: p}}
	var after string
	var most number
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the overrides",
		Long:  "List the overrides of the server's namespace, sorted by their ids. A key is shown if it was to be kept, else its fingerprint.",
		Args:  args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if after != "" {
				query.Set("after", after)
			}
			if cmd.Flags().Changed("max") {
				query.Set("max", most.String())
			}
			got, err := to.ask(cmd.Context(), http.MethodGet, "/v1/overrides", query, nil)
			if err != nil {
				return err
			}
			return p.show(cmd, got, printOverrides)
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "those that come after this `ID`")
	cmd.Flags().Var(&most, "max", "at most this many (default 100)")
	to.register(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return p.jsonFlag(cmd)
}

// shownOverride is an override as a server shows it.
type shownOverride struct {
	ID          string   `json:"id"`
	Limit       string   `json:"limit"`
	Fingerprint string   `json:"fingerprint"`
	Override    string   `json:"override"`
	Note        string   `json:"note"`
	Key         []string `json:"key"`
	KeyBase64   []string `json:"key_base64"`
	Global      bool     `json:"global"`
	Group       string   `json:"group"`
	ExpiresAtUS int64    `json:"expires_at_us"`
	Applies     bool     `json:"applies"`
	WithinMS    int64    `json:"within_ms"`
}

// who is the key, or what stands for it.
func (o *shownOverride) who() string {
	var text string
	switch {
	case o.Global:
		text = "(everybody)"
	case len(o.Key) > 0:
		parts := make([]string, len(o.Key))
		for i, part := range o.Key {
			parts[i] = shownID(part)
		}
		text = strings.Join(parts, " ")
	case len(o.KeyBase64) > 0:
		text = "base64 " + strings.Join(o.KeyBase64, " ")
	default:
		return "fingerprint " + o.Fingerprint
	}
	if o.Group != "" {
		text += " in " + shownID(o.Group)
	}
	return text
}

func (o *shownOverride) ends() string {
	if o.ExpiresAtUS == 0 {
		return "until removed"
	}
	return "until " + second(o.ExpiresAtUS)
}

func (o *shownOverride) more() string {
	switch {
	case !o.Applies:
		return "not in force: the limit is gone, or of another kind"
	case o.Note != "":
		return shownID(o.Note)
	}
	return ""
}

func printOverride(cmd *cobra.Command, body []byte) error {
	o, err := decode[shownOverride](body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s for %s: %s, %s; everywhere within %s\n", o.Limit, o.who(), o.Override, o.ends(), inWords(o.WithinMS))
	return err
}

func printOverrides(cmd *cobra.Command, body []byte) error {
	l, err := decode[struct {
		Overrides []shownOverride `json:"overrides"`
		More      bool            `json:"more"`
	}](body)
	if err != nil {
		return err
	}
	if len(l.Overrides) == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "no overrides")
		return err
	}
	t := newTable(cmd.OutOrStdout())
	for i := range l.Overrides {
		o := &l.Overrides[i]
		t.row(o.Limit, o.who(), o.Override, o.ends(), o.more())
	}
	if err := t.flush(); err != nil {
		return err
	}
	if l.More {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "and more; go on with --after %s\n", l.Overrides[len(l.Overrides)-1].ID)
	}
	return err
}
