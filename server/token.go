package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-go/ration/server/access"
)

// token is the commands for tokens of callers.
func (p *program) token() *cobra.Command {
	parent := &cobra.Command{
		Use:     "token",
		GroupID: "server",
		Short:   "Make tokens for callers, and look at those there are",
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.AddCommand(p.tokenNew(), p.tokenList(), p.tokenHash())
	return parent
}

func (p *program) tokenNew() *cobra.Command {
	var name, expires, file string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "new --name NAME --scope SCOPE",
		Short: "Make a token, and the line by which a server knows it",
		Long: `Make a token, and the line by which a server knows it. The token is shown this once; the line holds its hash, and belongs into
the file of access.tokens_file, or into the list access.tokens. With --file it is added there.

A scope is read, take, reset or admin; take:chat is for the configured limit chat alone, take@shop for the namespace shop.`,
		Example: `  ration token new --name web --scope take:chat,read --expires 2027-01-01
  ration token new --name ops --scope admin --expires 720h --file /etc/ration/tokens`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := access.Token{Name: name}
			var err error
			switch {
			case name == "":
				return usageError{errors.New("--name is missing: say who will have the token, for logs")}
			case len(scopes) == 0:
				return usageError{errors.New("--scope is missing: say what the token is for, such as take,read")}
			}
			if err = access.CheckName(name); err != nil {
				return usageError{fmt.Errorf("--name: %w", err)}
			}
			if t.Scopes, err = access.ParseScopes(strings.Join(scopes, ",")); err != nil {
				return usageError{fmt.Errorf("--scope: %w", err)}
			}
			if t.Expires, err = expiresIn(expires, time.Now()); err != nil {
				return usageError{fmt.Errorf("--expires: %w", err)}
			}
			secret := access.NewToken()
			if t.Hash, err = access.HashOf(secret); err != nil {
				return err
			}
			if file != "" {
				if err := addToken(file, &t); err != nil {
					return err
				}
			}
			if p.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"token": secret, "line": t.String()})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "token, shown this once: %s\nline for the server:    %s\n", secret, t.String())
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the `NAME` of who will have it, for logs")
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "what it is for: `SCOPE`s with commas between them; may be repeated")
	cmd.Flags().StringVar(&expires, "expires", "never", "a day such as 2027-01-01, a `TIME` such as 2027-01-01T12:00:00Z, or a duration such as 720h from now")
	cmd.Flags().StringVar(&file, "file", "", "add the line to this `FILE`")
	return p.jsonFlag(cmd)
}

// expiresIn is ParseExpires, and durations from now.
func expiresIn(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return time.Time{}, fmt.Errorf("%v is over already", d)
		}
		return now.Add(d).UTC().Truncate(time.Second), nil
	}
	return access.ParseExpires(text)
}

// addToken adds a line to a file of tokens, if it stays a good one.
func addToken(path string, t *access.Token) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	data = append(data, t.String()+"\n"...)
	if _, err := access.ParseTokens(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	next := path + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	// In one step: a server may read it at any time.
	return os.Rename(next, path)
}

func (p *program) tokenList() *cobra.Command {
	from := &source{program: p}
	var file string
	cmd := &cobra.Command{
		Use:   "list [FILE]",
		Short: "List the tokens of a file, or those of a server's configuration",
		Args: func(cmd *cobra.Command, given []string) error {
			if len(given) == 0 {
				return nil
			}
			return args("FILE")(cmd, given)
		},
		RunE: func(cmd *cobra.Command, given []string) error {
			tokens, err := []access.Token(nil), error(nil)
			if len(given) == 1 {
				file = given[0]
			} else {
				cfg, err := from.load()
				if err != nil {
					return err
				}
				opts, err := cfg.Access.parsed()
				if err != nil {
					return err
				}
				tokens, file = opts.Tokens, opts.TokensFile
			}
			if file != "" {
				data, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				more, err := access.ParseTokens(data)
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				tokens = append(tokens, more...)
			}
			if err = access.CheckTokens(tokens); err != nil {
				return err
			}
			return p.printTokens(cmd.OutOrStdout(), tokens, time.Now())
		},
	}
	from.register(cmd, func(s *setting) bool { return s.name == "access.tokens_file" })
	return p.jsonFlag(cmd)
}

func (p *program) printTokens(w io.Writer, tokens []access.Token, now time.Time) error {
	type shown struct {
		Name    string `json:"name"`
		Scopes  string `json:"scopes"`
		Expires string `json:"expires"`
		Expired bool   `json:"expired"`
	}
	list := []shown{}
	for i := range tokens {
		t := &tokens[i]
		words := strings.Fields(t.String())
		one := shown{Name: t.Name, Scopes: words[2], Expires: "never", Expired: !t.Expires.IsZero() && !now.Before(t.Expires)}
		if len(words) > 3 {
			one.Expires = words[3]
		}
		list = append(list, one)
	}
	if p.json {
		return printJSON(w, map[string]any{"tokens": list})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no tokens; \"ration token new\" makes one")
		return err
	}
	t := newTable(w)
	for _, one := range list {
		state := "until " + one.Expires
		switch {
		case one.Expires == "never":
			state = "for ever"
		case one.Expired:
			state = "expired " + one.Expires
		}
		t.row(one.Name, one.Scopes, state)
	}
	return t.flush()
}

func (p *program) tokenHash() *cobra.Command {
	return &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a token on standard input",
		Long:  "Print the hash of a token that was made elsewhere and stands on standard input, for a line of a server. It has at least 32 bytes that nobody can guess.",
		Args:  args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := readToken(cmd.InOrStdin())
			if err != nil {
				return err
			}
			h, err := access.HashOf(text)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), h)
			return err
		},
	}
}

// readToken is the first line of r.
func readToken(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, 4<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}
