package server

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// decision is the answer to take and peek.
type decision struct {
	Allowed      bool   `json:"allowed"`
	Never        bool   `json:"never"`
	Degraded     bool   `json:"degraded"`
	Name         string `json:"name"`
	Limit        int64  `json:"limit"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	AtUS         int64  `json:"at_us"`
	Shadow       bool   `json:"shadow"`
}

func printDecision(cmd *cobra.Command, body []byte) error {
	d, err := decode[decision](body)
	if err != nil {
		return err
	}
	if d.Shadow {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "allowed, since %s is a shadow: %d of %d left\n", d.Name, d.Remaining, d.Limit)
		return err
	}
	verb := ""
	if cmd.Name() == "peek" {
		verb = "would be "
	}
	return printOne(cmd.OutOrStdout(), verb, &d)
}

func printOne(w io.Writer, verb string, d *decision) error {
	switch {
	case d.Degraded:
		fmt.Fprintf(w, "%sallowed, although the store could not tell\n", verb)
	case d.Allowed:
		fmt.Fprintf(w, "%sallowed, %d of %d left\n", verb, d.Remaining, d.Limit)
	case d.Never:
		fmt.Fprintf(w, "%srefused: this cost can never pass a limit of %d\n", verb, d.Limit)
	default:
		fmt.Fprintf(w, "%srefused: %d of %d left, try again in %s (at %s)\n", verb, d.Remaining, d.Limit, inWords(d.RetryAfterMS), d.retryAt())
	}
	if !d.Allowed {
		return errRefused
	}
	return nil
}

// retryAt is when the cost passes, to the second, up.
func (d *decision) retryAt() string {
	at := time.UnixMicro(d.AtUS).Add(time.Duration(d.RetryAfterMS)*time.Millisecond + time.Second - 1)
	return at.UTC().Format("2006-01-02 15:04:05Z")
}

// inWords is milliseconds for people: never less than it is, so that who waits so long is not early.
func inWords(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= time.Hour:
		d = (d + time.Minute - 1).Truncate(time.Minute)
	case d >= time.Second:
		d = (d + time.Second - 1).Truncate(time.Second)
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

func printRefund(cmd *cobra.Command, body []byte) error {
	r, err := decode[struct{ Given int64 }](body)
	if err != nil {
		return err
	}
	if r.Given == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "gave back nothing: what was charged then does not count any more")
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "gave back %d\n", r.Given)
	return err
}

func printHit(cmd *cobra.Command, body []byte) error {
	h, err := decode[struct {
		Count  int64 `json:"count"`
		LeftMS int64 `json:"left_ms"`
	}](body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d, for another %s\n", h.Count, inWords(h.LeftMS))
	return err
}

func said(word string) func(*cobra.Command, []byte) error {
	return func(cmd *cobra.Command, _ []byte) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), word)
		return err
	}
}

func printLimits(cmd *cobra.Command, body []byte) error {
	l, err := decode[struct {
		Limits []struct {
			Name    string `json:"name"`
			Limit   string `json:"limit"`
			OnError string `json:"on_error"`

			Shadow    bool   `json:"shadow"`
			Candidate string `json:"candidate"`
		} `json:"limits"`
	}](body)
	if err != nil {
		return err
	}
	if len(l.Limits) == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "no named limits; the server's configuration has none")
		return err
	}
	t := newTable(cmd.OutOrStdout())
	for _, one := range l.Limits {
		if one.OnError != "" {
			one.OnError = "on error: " + one.OnError
		}
		trial := ""
		if one.Shadow {
			trial = "shadow: refuses nobody"
		}
		if one.Candidate != "" {
			trial = strings.TrimPrefix(trial+", candidate: "+one.Candidate, ", ")
		}
		t.row(one.Name, one.Limit, one.OnError, trial)
	}
	return t.flush()
}

func printJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// table prints rows in columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t *table) row(cells ...string) {
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t *table) flush() error { return t.w.Flush() }
