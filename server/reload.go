package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/envoyrls"
	"github.com/ration-go/ration/server/internal/verbs"
)

// ErrNeedsRestart is in the error of a reload that would change what only a restart can. Nothing of it is applied.
var ErrNeedsRestart = errors.New("needs a restart")

// Reloads counts how often a configuration was read anew while the server ran.
type Reloads struct {
	OK     int64     // applied, or with no change in it
	Failed int64     // the configuration before stayed
	Last   time.Time // the last one, of either kind; zero: there was none
	LastOK time.Time // the last one that was applied; zero: there was none
}

// reloader is what reloads need.
type reloader struct {
	read  func() (*Config, error) // nil: there is no place to read from
	level *slog.LevelVar          // nil: log.level is none of the server's business

	mu     sync.Mutex // one at a time
	cfg    Config     // in force
	secret [sha256.Size]byte
	counts Reloads
}

func secretDigest(secret []byte) [sha256.Size]byte { return sha256.Sum256(secret) }

// Reloads answers how often a configuration was read anew since the start.
func (s *Server) Reloads() Reloads {
	s.reloader.mu.Lock()
	defer s.reloader.mu.Unlock()
	return s.reloader.counts
}

// Reload reads the configuration anew, by Options.Load, and applies it; see Update. It logs one line: what has changed, or why
// nothing was applied.
func (s *Server) Reload(ctx context.Context) error { return s.reload(ctx, false) }

// reload is Reload. If quiet, a configuration in which nothing has changed is not mentioned.
func (s *Server) reload(ctx context.Context, quiet bool) error {
	if s.reloader.read == nil {
		return errors.New("reload: this server was made without Options.Load, so there is nothing to read; use Update")
	}
	s.reloader.mu.Lock()
	defer s.reloader.mu.Unlock()
	next, err := s.reloader.read()
	if err != nil {
		return s.reloaded(nil, err, quiet)
	}
	changes, err := s.update(ctx, next)
	if access.From(ctx) == nil && !(quiet && err == nil && len(changes) == 0) {
		s.guard.Record(access.Action{What: "reload", Outcome: access.Outcome(err)})
	}
	return s.reloaded(changes, err, quiet)
}

// Update makes cfg the configuration of calls from now on: all of it, or nothing if it is invalid. A call under way is decided by
// the configuration that there was when it came. What can change while the server runs is Limits, Checks, OnError, Envoy.Configs
// and what its files say, Envoy.Merge, Access.Tokens, Access.Certificates and, in the command serve, Log.Level. If anything else differs, the error is
// ErrNeedsRestart. Counts stay: those of a limit whose numbers change go on.
//
// cfg is not to be changed afterwards.
func (s *Server) Update(ctx context.Context, cfg *Config) error {
	s.reloader.mu.Lock()
	defer s.reloader.mu.Unlock()
	changes, err := s.update(ctx, cfg)
	return s.reloaded(changes, err, false)
}

// reloaded counts and logs, and answers err.
func (s *Server) reloaded(changes []string, err error, quiet bool) error {
	if quiet && err == nil && len(changes) == 0 {
		return nil
	}
	c := &s.reloader.counts
	c.Last = time.Now()
	switch {
	case err != nil:
		c.Failed++
		s.log.Error("the configuration was not applied, and the one before stays", "error", strings.ReplaceAll(err.Error(), "\n", "; "))
		return err
	case len(changes) == 0:
		s.log.Info("the configuration was read anew; nothing has changed")
	default:
		s.log.Info("the configuration was read anew", "changed", strings.Join(changes, "; "))
	}
	c.OK, c.LastOK = c.OK+1, c.Last
	return nil
}

// update applies next, and answers what changed.
func (s *Server) update(ctx context.Context, next *Config) (changes []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := next.Validate(); err != nil {
		return nil, err
	}
	now := &s.reloader.cfg
	if err := s.staysSame(now, next); err != nil {
		return nil, err
	}
	limits, err := verbs.NewLimits(next.Limits, next.trials()...)
	if err != nil {
		return nil, err
	}
	checks, err := next.httpChecks()
	if err != nil {
		return nil, err
	}
	commitChecks, err := s.api.Prepare(limits, checks)
	if err != nil {
		return nil, err
	}
	callers, err := next.Access.parsed()
	if err != nil {
		return nil, err
	}
	envoy, envoyChanged, err := s.nextEnvoy(next)
	if err != nil {
		return nil, err
	}
	if err := s.guard.Set(callers.Tokens, callers.Certificates); err != nil {
		return nil, err
	}
	changes = changesOf(now, next)
	if envoyChanged != "" {
		changes = append(changes, envoyChanged)
	}
	// From here on nothing fails.
	if err := s.limiter.SetOnError(next.OnError); err != nil {
		return nil, err
	}
	s.decide.SetLimits(limits)
	s.instruments.limits.SetLimits(namesOf(next.Limits))
	s.activity.SetLimits(namesOf(next.Limits))
	commitChecks()
	if envoyChanged != "" {
		s.rpc.config.Store(envoy)
		s.rpc.envoy.Update(envoy)
	}
	if s.reloader.level != nil {
		s.reloader.level.Set(next.Log.Level)
	}
	s.reloader.cfg = *next
	return changes, nil
}

// staysSame fails if next changes what only a restart can change.
func (s *Server) staysSame(now, next *Config) error {
	var names []string
	for _, one := range settings {
		if !one.live && one.get(now) != one.get(next) {
			names = append(names, one.name)
		}
	}
	if (len(now.Envoy.Configs) == 0) != (len(next.Envoy.Configs) == 0) {
		names = append(names, "envoy.configs (none before, or none now)")
	}
	if now.Access.on() != next.Access.on() {
		names = append(names, "access (whether callers are asked who they are)")
	}
	if secret, err := readSecret(next.KeySecretFile); err != nil {
		return err
	} else if secretDigest(secret) != s.reloader.secret && len(names) == 0 {
		names = append(names, "what is in key_secret_file")
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("a change of %s %w; nothing else of this configuration was applied either", strings.Join(names, ", "), ErrNeedsRestart)
}

// nextEnvoy is the rules of Envoy's files, and what is new about them; "" if they are what they were.
func (s *Server) nextEnvoy(next *Config) (cfg *envoyrls.Config, changed string, err error) {
	if s.rpc == nil || s.rpc.envoy == nil {
		return nil, "", nil
	}
	if cfg, err = next.Envoy.load(); err != nil {
		return nil, "", err
	}
	if cfg.Equal(s.rpc.config.Load()) {
		return cfg, "", nil
	}
	return cfg, fmt.Sprintf("Envoy's files: now %s, %s", plural(len(cfg.Domains()), "domain"), plural(cfg.Rules(), "rule")), nil
}

// changesOf is what differs, in words. Settings that need a restart do not.
func changesOf(now, next *Config) (changes []string) {
	for _, one := range settings {
		if before, after := one.get(now), one.get(next); one.live && before != after {
			changes = append(changes, fmt.Sprintf("%s: %s → %s", one.name, cmp.Or(before, "-"), cmp.Or(after, "-")))
		}
	}
	for name, lists := range map[string][2][]string{
		"access.tokens": {now.Access.Tokens, next.Access.Tokens}, "access.certificates": {now.Access.Certificates, next.Access.Certificates},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			changes = append(changes, fmt.Sprintf("%s: %s → %s", name, plural(len(lists[0]), "line"), plural(len(lists[1]), "line")))
		}
	}
	changes = append(changes, differences("limits.", now.Limits, next.Limits, func(r *ration.Rule) string { return r.Name }, ruleText)...)
	changes = append(changes, differences("trial of limits.", now.Trials, next.Trials, func(t *TrialConfig) string { return t.Limit }, (*TrialConfig).String)...)
	return append(changes, differences("check.", now.Checks, next.Checks, func(c *CheckConfig) string { return c.Limit }, (*CheckConfig).String)...)
}

// differences are what was added, removed or changed, in the order of names.
func differences[T any](prefix string, now, next []T, name func(*T) string, text func(*T) string) (changes []string) {
	before := map[string]*T{}
	for i := range now {
		before[name(&now[i])] = &now[i]
	}
	for i := range next {
		after := &next[i]
		at := prefix + name(after)
		was := before[name(after)]
		delete(before, name(after))
		switch {
		case was == nil:
			changes = append(changes, at+": added, "+text(after))
		case reflect.DeepEqual(was, after):
		case text(was) != text(after):
			changes = append(changes, at+": "+text(was)+" → "+text(after))
		default:
			changes = append(changes, at+": changed")
		}
	}
	for name := range before {
		changes = append(changes, prefix+name+": removed")
	}
	slices.Sort(changes)
	return changes
}

// ruleText is all that a rule says but its name.
func ruleText(r *ration.Rule) string {
	text := r.String()
	if r.OnError != 0 {
		text += ", on error " + r.OnError.String()
	}
	if r.Lease != 0 {
		text += fmt.Sprintf(", lease %d", r.Lease)
	}
	return text
}

// reloadAtHangup makes a SIGHUP read the configuration anew from now on, and answers what waits for them until its context is
// done.
func (s *Server) reloadAtHangup() func(context.Context) error {
	signals := make(chan os.Signal, 1) // further ones, until the first is seen to, mean the same
	signal.Notify(signals, syscall.SIGHUP)
	return func(ctx context.Context) error {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-signals:
				_ = s.Reload(ctx) // it logs
			}
		}
	}
}

// filesOf is what the configuration was read from: file, and Envoy's.
func (s *Server) filesOf(file string) (paths []string) {
	s.reloader.mu.Lock()
	defer s.reloader.mu.Unlock()
	if file != "" {
		paths = append(paths, file)
	}
	return append(paths, s.reloader.cfg.Envoy.Configs...)
}

// contents is a digest of what is in paths; folders are read one level deep.
func contents(paths []string) []byte {
	h := sha256.New()
	for _, path := range paths {
		names := []string{path}
		if entries, err := os.ReadDir(path); err == nil {
			for _, e := range entries {
				names = append(names, path+string(os.PathSeparator)+e.Name())
			}
		}
		for _, name := range names {
			data, err := readBounded(name)
			fmt.Fprintf(h, "%q %v %d ", name, err == nil, len(data))
			_, _ = h.Write(data) // never fails
		}
	}
	return h.Sum(nil)
}

// readBounded is what is in a file, unless that is more than any configuration may have.
func readBounded(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 16*maxFile {
		return nil, errors.Join(err, errors.ErrUnsupported)
	}
	return os.ReadFile(name)
}
