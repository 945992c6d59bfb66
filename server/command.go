package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of the program.
const (
	ExitOK      = 0 // done; allowed
	ExitRefused = 1 // take, peek and reserve: refused; progress: over the limit; doctor: something is wrong
	ExitError   = 2 // could not tell, wrong use, or the server could not start
)

// Main runs the program with the arguments of the process, and exits. The first SIGINT or SIGTERM stops a server in good
// order, the second ends the process at once.
func Main(opts *Options) {
	os.Exit(Run(untilSignal(), opts, os.Args[1:], os.Stdout, os.Stderr))
}

// untilSignal is done at the first signal; from then on, signals do what they do by default.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		// Before cancel: whoever sees the program stop can end it at once.
		signal.Stop(signals)
		if len(signals) > 0 { // the second came in between
			os.Exit(ExitError)
		}
		cancel()
	}()
	return ctx
}

// Run runs the program with args, until ctx is done at the latest, and answers its exit code. It reads the environment of
// the process.
func Run(ctx context.Context, opts *Options, args []string, stdout, stderr io.Writer) int {
	root := Command(opts)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errRefused), errors.Is(err, errFound):
		return ExitRefused
	case errors.Is(err, errSaid):
		return ExitError
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintln(stderr, "ration: "+strings.TrimPrefix(line, "ration: "))
	}
	if errors.As(err, new(usageError)) {
		fmt.Fprintf(stderr, "See %s --help.\n", cmd.CommandPath())
	}
	return ExitError
}

var (
	errRefused = errors.New("refused")
	errSaid    = errors.New("said") // what is wrong was printed already
	errFound   = errors.New("found")
)

// usageError is wrong use of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Command is the program as a cobra command, to add commands of one's own to, or to be one of another program's. Its
// errors are for Run, which knows their exit codes.
func Command(opts *Options) *cobra.Command {
	p := &program{opts: opts.resolved(), env: os.Environ()}
	root := &cobra.Command{
		Use:   "ration",
		Short: "Rate limits and budgets, decided for programs in any language",
		Long: `Rate limits and budgets, decided for programs in any language.

"ration serve" answers over HTTP on this machine and keeps counts in the file ration.db of the working folder. The other
commands ask a server, or a store directly with --store.

Exit codes: 0 done or allowed, 1 refused, 2 error.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddGroup(&cobra.Group{ID: "server", Title: "The server:"}, &cobra.Group{ID: "client", Title: "Asking it:"})
	root.AddCommand(p.serve(), p.config(), p.token(), p.migrate(), p.doctor(), p.version())
	root.AddCommand(p.take(), p.peek(), p.refund(), p.reset(), p.forget(), p.hit(), p.limits(), p.override(), p.top())
	root.AddCommand(p.simulate())
	root.AddCommand(p.reserve(), p.settle(), p.cancel(), p.renew(), p.progress(), p.reservations())
	return root
}

// program is what the commands share.
type program struct {
	opts *Options
	env  []string
	json bool
}

// noCommand is for commands that only have others below them.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return usageError{fmt.Errorf("unknown command %q; %w", args[0], nearest(args[0], names))}
}

// jsonFlag is for commands with an answer.
func (p *program) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&p.json, "json", false, "answer in JSON, for programs")
	return cmd
}

// number is a flag of a whole number.
type number int64

func (n *number) String() string { return strconv.FormatInt(int64(*n), 10) }
func (n *number) Type() string   { return "N" }
func (n *number) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errors.New("this is not a whole number, or it is too large")
	}
	*n = number(v)
	return nil
}

// args says how many arguments a command has, by their names.
func args(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		what := "no arguments"
		if len(names) > 0 {
			what = strings.Join(names, " and ")
		}
		return usageError{fmt.Errorf("%s where %s should be; quote one that has spaces", plural(len(args), "argument"), what)}
	}
}

func (p *program) version() *cobra.Command {
	return p.jsonFlag(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{
					"version": p.opts.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "ration %s (%s %s/%s)\n", p.opts.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	})
}

// stamped is the version of a release; deploy/release has the linker set it.
var stamped string

func buildVersion() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
