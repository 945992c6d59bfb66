package server

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (p *program) reserve() *cobra.Command {
	limit := &limitFlags{}
	cost := number(1)
	var id requestID
	var life time.Duration
	var refund bool
	var more []string
	return p.verb(&cobra.Command{
		Use:   "reserve KEY LIMIT",
		Short: "Charge a limit, or several, and hold the charge until it is settled",
		Long: `Charge a limit, or several, all or none, and hold the charge: do the work, then settle what it really used, or cancel.
If nobody does, the reservation expires after --ttl, and stays charged, unless --refund-on-expiry is given.` + limitHelp + `
"concurrent 5 lease 30s" holds one of five slots, for 30 seconds at most unless it is renewed.

A further CHARGE is an object of the HTTP API with key, limit and cost.

Exit codes: 0 allowed, 1 refused, 2 could not tell.`,
		Example: `  ration reserve user:42 tokens --cost 900 --ttl 2m
  ration reserve user:42 tokens --cost 900 --charge '{"key": "org:7", "limit": "org-tokens", "cost": 900}'
  ration reserve --global "concurrent 5 lease 30s" --name exports --id export-42`,
	}, []string{"LIMIT"}, func(in map[string]any, rest []string) error {
		limit.add(in, rest[0])
		in["cost"] = cost
		charges := []any{maps.Clone(in)}
		for _, text := range more {
			if !json.Valid([]byte(text)) {
				return usageError{fmt.Errorf("--charge: %q is not JSON; it is like {\"key\": \"org:7\", \"limit\": \"chat\", \"cost\": 3}", text)}
			}
			charges = append(charges, json.RawMessage(text))
		}
		clear(in)
		in["charges"] = charges
		id.add(in)
		if refund {
			in["refund_on_expiry"] = true
		}
		return addMillis(in, "ttl_ms", life)
	}, printReserve, limit.register, id.register, func(flags *pflag.FlagSet) {
		flags.Var(&cost, "cost", "how much of the limit it takes")
		flags.StringArrayVar(&more, "charge", nil, "a further `CHARGE`; may be repeated")
		flags.DurationVar(&life, "ttl", 10*time.Minute, "how long it is held if nobody renews it")
		flags.BoolVar(&refund, "refund-on-expiry", false, "at its expiry, give back what progress has not reported")
	})
}

// requestID is the flag of an id; "" is one that was not given.
type requestID string

func (id *requestID) String() string { return string(*id) }
func (id *requestID) Type() string   { return "ID" }
func (id *requestID) Set(text string) error {
	if text == "" {
		return errors.New("an id is not empty; leave the flag out if the call need not happen once")
	}
	*id = requestID(text)
	return nil
}

func (id *requestID) register(flags *pflag.FlagSet) {
	flags.Var(id, "id", "makes this happen once: the same again is charged once")
}

func (id *requestID) add(in map[string]any) {
	if *id != "" {
		in["id"] = string(*id)
	}
}

// addMillis puts a duration in whole milliseconds into a request.
func addMillis(in map[string]any, field string, d time.Duration) error {
	if d%time.Millisecond != 0 {
		return usageError{fmt.Errorf("%v is not in whole milliseconds", d)}
	}
	in[field] = d.Milliseconds()
	return nil
}

func (p *program) settle() *cobra.Command {
	return p.ofReservation(&cobra.Command{
		Use:   "settle ID [AMOUNT...]",
		Short: "End a reservation with what was really used",
		Long: `End a reservation with what was really used: one AMOUNT for each charge, or one for all if all were equal; none: what
was reserved. What is less goes back, what is more is charged too, also beyond the limit.

The same again does nothing; after another end it is an error.`,
		Example: "  ration settle export-42 850",
		Args:    atLeast(1),
	}, withAmounts, said("settled"))
}

func (p *program) cancel() *cobra.Command {
	return p.ofReservation(&cobra.Command{
		Use:     "cancel ID",
		Short:   "End a reservation and give back what it charged",
		Long:    "End a reservation and give back what it charged, but for what progress has reported. After any end it does nothing.",
		Example: "  ration cancel export-42",
		Args:    args("ID"),
	}, withAmounts, said("ended"))
}

func (p *program) renew() *cobra.Command {
	return p.ofReservation(&cobra.Command{
		Use:     "renew ID TTL",
		Short:   "Move the expiry of a reservation",
		Long:    "Move the expiry of a reservation to TTL from now, such as 10m. A limit of the kind concurrent makes it at most its lease.",
		Example: "  ration renew export-42 10m",
		Args:    args("ID", "TTL"),
	}, func(in map[string]any, rest []string) error {
		d, err := time.ParseDuration(rest[0])
		if err != nil {
			return usageError{fmt.Errorf("%q is not a duration with a unit, such as 30s or 10m", rest[0])}
		}
		return addMillis(in, "ttl_ms", d)
	}, func(cmd *cobra.Command, body []byte) error {
		a, err := decode[struct {
			ExpiresAtUS int64 `json:"expires_at_us"`
		}](body)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "held until %s\n", second(a.ExpiresAtUS))
		return err
	})
}

func (p *program) progress() *cobra.Command {
	return p.ofReservation(&cobra.Command{
		Use:   "progress ID AMOUNT...",
		Short: "Report what a reservation used so far, and renew it",
		Long: `Report what a reservation used so far, in total, and renew it. What is more than was reserved is charged at once.

Exit codes: 0 it fits, go on; 1 it is over a limit; 2 could not tell.`,
		Example: "  ration progress export-42 300",
		Args:    atLeast(2),
	}, withAmounts, func(cmd *cobra.Command, body []byte) error {
		a, err := decode[struct{ OK bool }](body)
		if err != nil {
			return err
		}
		if !a.OK {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "counted, and over the limit: stop")
			return errors.Join(err, errRefused)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "counted: go on")
		return err
	})
}

// atLeast says how many arguments a command has, of ID and AMOUNTs.
func atLeast(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return usageError{fmt.Errorf("%s where %s should be", plural(len(args), "argument"), []string{"", "ID", "ID and an AMOUNT"}[n])}
	}
}

// withAmounts puts what was used into a request.
func withAmounts(in map[string]any, rest []string) error {
	amounts := make([]number, len(rest))
	for i, text := range rest {
		if err := amounts[i].Set(text); err != nil {
			return usageError{fmt.Errorf("%q as an amount: %w", text, err)}
		}
	}
	if len(amounts) > 0 {
		in["amounts"] = amounts
	}
	return nil
}

// ofReservation makes a command on a reservation, which its first argument names.
func (p *program) ofReservation(cmd *cobra.Command, build func(in map[string]any, rest []string) error,
	print func(cmd *cobra.Command, body []byte) error,
) *cobra.Command {
	to := &target{source: source{program: p}}
	name := cmd.Name()
	cmd.GroupID = "client"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == "" {
			return usageError{errors.New("the ID is empty; give it that of the answer to reserve")}
		}
		in := map[string]any{}
		if err := build(in, args[1:]); err != nil {
			return err
		}
		got, err := to.call(cmd.Context(), http.MethodPost, "/v1/reservations/"+pathOf(args[0])+"/"+name, in)
		if err != nil {
			return err
		}
		return p.show(cmd, got, print)
	}
	to.register(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return p.jsonFlag(cmd)
}

// pathOf is id as one element of a path.
func pathOf(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

func (p *program) reservations() *cobra.Command {
	to := &target{source: source{program: p}}
	var after string
	var most number
	cmd := &cobra.Command{
		Use:     "reservations",
		GroupID: "client",
		Short:   "List the open reservations",
		Long:    "List the open reservations of the server's namespace, sorted by their ids. Keys are not shown.",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if after != "" {
				query.Set("after", after)
			}
			if cmd.Flags().Changed("max") {
				query.Set("max", most.String())
			}
			got, err := to.ask(cmd.Context(), http.MethodGet, "/v1/reservations", query, nil)
			if err != nil {
				return err
			}
			return p.show(cmd, got, printReservations)
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "those that come after this `ID`")
	cmd.Flags().Var(&most, "max", "at most this many (default 100)")
	to.register(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return p.jsonFlag(cmd)
}

func printReserve(cmd *cobra.Command, body []byte) error {
	r, err := decode[struct {
		decision
		Each        []decision
		ID          string `json:"id"`
		ExpiresAtUS int64  `json:"expires_at_us"`
	}](body)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if err := printOne(w, "", &r.decision); err != nil {
		if len(r.Each) > 1 && r.Name != "" {
			fmt.Fprintf(w, "by the limit %s\n", r.Name)
		}
		return err
	}
	if r.ID == "" {
		return nil
	}
	_, err = fmt.Fprintf(w, "reservation %s, held until %s\n", shownID(r.ID), second(r.ExpiresAtUS))
	return err
}

func printReservations(cmd *cobra.Command, body []byte) error {
	l, err := decode[struct {
		Reservations []struct {
			ID          string `json:"id"`
			IDBase64    string `json:"id_base64"`
			ExpiresAtUS int64  `json:"expires_at_us"`
			Charges     []struct {
				Name    string `json:"name"`
				Limit   int64  `json:"limit"`
				Charged int64  `json:"charged"`
			} `json:"charges"`
		} `json:"reservations"`
		More bool `json:"more"`
	}](body)
	if err != nil {
		return err
	}
	if len(l.Reservations) == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "no open reservations")
		return err
	}
	t, last := newTable(cmd.OutOrStdout()), ""
	for _, r := range l.Reservations {
		last = r.ID
		if r.IDBase64 != "" {
			raw, err := base64.StdEncoding.DecodeString(r.IDBase64)
			if err != nil {
				return errors.New("the answer cannot be read; is it a ration server?")
			}
			last = string(raw)
		}
		charges := make([]string, len(r.Charges))
		for i, c := range r.Charges {
			charges[i] = strings.TrimPrefix(fmt.Sprintf("%s %d of %d", c.Name, c.Charged, c.Limit), " ")
		}
		t.row(shownID(last), "until "+second(r.ExpiresAtUS), strings.Join(charges, ", "))
	}
	if err := t.flush(); err != nil || !l.More {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "there are more: --after %s\n", shownID(last))
	return err
}

// shownID is id as it may be printed on a terminal.
func shownID(id string) string {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return strconv.Quote(id)
	}
	return id
}

// second is an instant to the second, down: what ends then may have ended already.
func second(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05Z") }
