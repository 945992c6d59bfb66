package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (p *program) serve() *cobra.Command {
	from := &source{program: p}
	cmd := &cobra.Command{
		Use:     "serve",
		GroupID: "server",
		Short:   "Answer over HTTP",
		Long: `Answer over HTTP, on this machine unless --listen says otherwise, until SIGINT or SIGTERM.

Every flag can also stand in the file of --config, with its name's parts as keys, and in the environment, as RATION_ and its
name in capitals. A flag goes before the environment, the environment before the file, the file before the defaults.

SIGHUP, and a change of the file, have the configuration read anew: limits, checks, Envoy's files, on_error and log.level change
between two calls. If it is wrong, or something else has changed in it, the one before stays, and the log says why.

Calls under way are finished before the program ends; a second signal ends it at once. Exit codes: 0 stopped by a signal,
2 it could not start or go on.`,
		Example: `  ration serve
  ration serve --config ration.yaml --store sqlite:/var/lib/ration/ration.db`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			return p.run(cmd.Context(), from, cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	from.register(cmd, func(*setting) bool { return true })
	return cmd
}

func (p *program) run(ctx context.Context, from *source, cfg *Config, stdout, stderr io.Writer) (err error) {
	log, level := newLogger(cfg.Log, stderr)
	s, err := New(ctx, cfg, p.opts.forProgram(log, level, from.load))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	defer collectLess()()
	l, err := s.Listen(ctx)
	if err != nil {
		return err
	}
	defer l.Close() // Serve does, unless it is not reached
	serve := []func(context.Context) error{func(ctx context.Context) error { return s.Serve(ctx, l) }}
	rpc, err := s.ListenGRPC(ctx)
	if err != nil {
		return err
	}
	if rpc != nil {
		defer rpc.Close()
		serve = append(serve, func(ctx context.Context) error { return s.ServeGRPC(ctx, rpc) })
	}
	resp, err := s.ListenRESP(ctx)
	if err != nil {
		return err
	}
	if resp != nil {
		defer resp.Close()
		serve = append(serve, func(ctx context.Context) error { return s.ServeRESP(ctx, resp) })
	}
	metrics, err := s.ListenMetrics(ctx)
	if err != nil {
		return err
	}
	if metrics != nil {
		defer metrics.Close()
		serve = append(serve, func(ctx context.Context) error { return s.ServeMetrics(ctx, metrics) })
	}
	serve = append(serve, s.reloadAtHangup())
	if cfg.Watch {
		serve = append(serve, func(ctx context.Context) error { return s.watch(ctx, from.path()) })
	}
	url, store, promise := s.url(l), redacted(cfg.Store), describe(s.info)
	if cfg.Log.Format == "json" {
		log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("url", url), slog.String("store", store), slog.String("counts", promise), slog.Int("limits", len(cfg.Limits)))
		if rpc != nil {
			log.LogAttrs(ctx, slog.LevelInfo, "listening for gRPC", slog.String("address", rpc.Addr().String()), slog.Int("envoy_domains", s.rpc.domains()))
		}
		if resp != nil {
			log.LogAttrs(ctx, slog.LevelInfo, "listening for CL.THROTTLE", slog.String("address", resp.Addr().String()))
		}
		if metrics != nil {
			log.LogAttrs(ctx, slog.LevelInfo, "listening for metrics", slog.String("address", metrics.Addr().String()))
		}
	} else {
		fmt.Fprintf(stdout, "ration listens on %s and keeps counts in %s (%s); %s\n", url, store, promise, plural(len(cfg.Limits), "named limit"))
		if rpc != nil {
			fmt.Fprintf(stdout, "gRPC on %s; %s of Envoy's rate limit service\n", rpc.Addr(), plural(s.rpc.domains(), "domain"))
		}
		if resp != nil {
			fmt.Fprintf(stdout, "CL.THROTTLE on %s\n", resp.Addr())
		}
		if metrics != nil {
			fmt.Fprintf(stdout, "metrics on %s%s\n", s.url(metrics), metricsPath)
		}
	}
	if err := together(ctx, serve...); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// together runs all of serve. If one cannot go on, the others are stopped.
func together(ctx context.Context, serve ...func(context.Context) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(serve))
	for _, one := range serve {
		go func() { ended <- one(ctx) }()
	}
	for range serve {
		err = errors.Join(err, <-ended)
		cancel()
	}
	return err
}

func newLogger(cfg LogConfig, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(cfg.Level)
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), level
	}
	return slog.New(slog.NewTextHandler(w, opts)), level
}

func plural(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// source is a configuration as flags of a command give it.
type source struct {
	*program
	file  string
	given []given
}

func (s *source) register(cmd *cobra.Command, wanted func(*setting) bool) {
	defaults, flags := s.opts.defaults(), cmd.Flags()
	flags.StringVar(&s.file, "config", "", "YAML `FILE` with settings and named limits (environment: RATION_CONFIG)")
	for _, one := range settings {
		if !wanted(one) {
			continue
		}
		help := one.help
		if text := one.get(defaults); text != "" && text != "0" {
			help += " (default " + text + ")"
		}
		flags.Var(&settingFlag{s, one}, one.flag(), help)
		if words := strings.Split(one.value, "|"); len(words) > 1 {
			_ = cmd.RegisterFlagCompletionFunc(one.flag(), cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // fails if done twice
		}
	}
}

// settingFlag notes a flag's text, to be applied over file and environment.
type settingFlag struct {
	source *source
	*setting
}

func (f *settingFlag) String() string { return "" }
func (f *settingFlag) Type() string   { return f.value }
func (f *settingFlag) Set(text string) error {
	f.source.given = append(f.source.given, given{f.name, text})
	return nil
}

// path is that of the file; "" if there is none.
func (s *source) path() string {
	if s.file != "" {
		return s.file
	}
	return s.variable(envConfig)
}

func (s *source) load() (*Config, error) {
	cfg := s.opts.defaults()
	if err := cfg.load(s.path(), s.env, s.given); err != nil {
		return nil, err
	}
	_, err := s.opts.opener(cfg.Store)
	return cfg, err
}

// variable is a variable of the environment; "" if it is not set.
func (p *program) variable(name string) string {
	for _, pair := range slices.Backward(p.env) {
		if len(pair) > len(name) && pair[:len(name)] == name && pair[len(name)] == '=' {
			return pair[len(name)+1:]
		}
	}
	return ""
}

func (p *program) config() *cobra.Command {
	parent := &cobra.Command{
		Use:     "config",
		GroupID: "server",
		Short:   "Look at a configuration",
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	from := &source{program: p}
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Say what is wrong with a configuration, or what it comes to",
		Long: `Say what is wrong with a configuration, or what it comes to: file, environment and flags together, as serve would read
them. It opens no store and no port.

Exit codes: 0 valid, 2 not.`,
		Args: func(cmd *cobra.Command, given []string) error {
			if len(given) == 0 {
				return nil
			}
			return args("FILE")(cmd, given)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if from.file != "" {
					return usageError{errors.New("a file is named twice, by --config and as an argument")}
				}
				from.file = args[0]
			}
			cfg, err := from.load()
			if err != nil && p.json {
				return p.printFaults(cmd.OutOrStdout(), err)
			}
			if err != nil {
				return err
			}
			return p.printConfig(cmd.OutOrStdout(), cfg)
		},
	}
	from.register(check, func(*setting) bool { return true })
	parent.AddCommand(p.jsonFlag(check))
	return parent
}

func (p *program) printFaults(w io.Writer, err error) error {
	type wrong struct {
		Where   string `json:"where,omitempty"`
		Line    int    `json:"line,omitempty"`
		Setting string `json:"setting,omitempty"`
		Message string `json:"message"`
	}
	var answer struct {
		Valid  bool    `json:"valid"`
		Faults []wrong `json:"faults"`
	}
	for _, f := range faultsOf(err) {
		answer.Faults = append(answer.Faults, wrong{f.file, f.line, f.name, f.message()})
	}
	return errors.Join(printJSON(w, answer), errSaid)
}

func (p *program) printConfig(w io.Writer, cfg *Config) error {
	type limit struct {
		Name    string `json:"name"`
		Limit   string `json:"limit"`
		OnError string `json:"on_error"`
		Trial   string `json:"trial,omitempty"`
	}
	var answer struct {
		Valid    bool              `json:"valid"`
		Settings map[string]string `json:"settings"`
		Limits   []limit           `json:"limits"`
		Checks   map[string]string `json:"checks,omitempty"`
	}
	answer.Valid, answer.Settings, answer.Limits = true, map[string]string{}, []limit{}
	for _, rule := range cfg.Limits {
		policy := rule.OnError
		if policy == 0 {
			policy = cfg.OnError
		}
		answer.Limits = append(answer.Limits, limit{rule.Name, rule.String(), policy.String(), ""})
		for _, t := range cfg.Trials {
			if t.Limit == rule.Name {
				answer.Limits[len(answer.Limits)-1].Trial = t.String()
			}
		}
	}
	for _, check := range cfg.Checks {
		if answer.Checks == nil {
			answer.Checks = map[string]string{}
		}
		answer.Checks[check.Limit] = check.String()
	}
	for _, s := range settings {
		answer.Settings[s.name] = s.get(cfg)
	}
	answer.Settings["store"] = redacted(cfg.Store)
	if p.json {
		return printJSON(w, answer)
	}
	fmt.Fprintf(w, "valid; %s\n", plural(len(cfg.Limits), "named limit"))
	t := newTable(w)
	for _, s := range settings {
		text := answer.Settings[s.name]
		if text == "" {
			text = "-"
		}
		t.row(s.name, text)
	}
	for _, l := range answer.Limits {
		t.row("limits."+l.Name, l.Limit, "on error: "+l.OnError, l.Trial)
	}
	for _, check := range cfg.Checks {
		t.row("check."+check.Limit, check.String())
	}
	return t.flush()
}
