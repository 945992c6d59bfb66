package server

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (p *program) migrate() *cobra.Command {
	from := &source{program: p}
	show := false
	cmd := &cobra.Command{
		Use:     "migrate",
		GroupID: "server",
		Short:   "Make or renew a store's schema",
		Long: `Make or renew the schema of a store in a database, so that a server with lesser rights can use it. It is safe to run
again, and beside servers. With --print it only writes the statements.

Other stores need no migration. Exit codes: 0 done, 2 not.`,
		Example: `  ration migrate --store postgres://owner@db/app
  ration migrate --store postgres: --print >ration.sql`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			url, err := parseStoreURL(cfg.Store)
			if err != nil {
				return err
			}
			scheme, _, _ := strings.Cut(url, ":")
			migrate := p.opts.Migrations[scheme]
			if migrate == nil {
				return fmt.Errorf("stores of the scheme %s need no migration; those of %s do", scheme,
					strings.Join(slices.Sorted(maps.Keys(p.opts.Migrations)), ", "))
			}
			var print io.Writer
			if show {
				print = cmd.OutOrStdout()
			}
			if err := migrate(cmd.Context(), url, cfg, print); err != nil {
				return fmt.Errorf("store %s: %w", redacted(url), err)
			}
			if !show {
				fmt.Fprintf(cmd.OutOrStdout(), "the schema in %s is up to date\n", redacted(url))
			}
			return nil
		},
	}
	from.register(cmd, func(*setting) bool { return true })
	cmd.Flags().BoolVar(&show, "print", false, "write the statements, and do nothing else")
	return cmd
}
