package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/upstashstore"
)

// OpenFunc opens the store that url names; url begins with the scheme under which the function stands in Options.Stores.
// cfg is valid and not to be changed. The store is closed by the server.
//
// An error should say what to do; it is shown to whoever started the program.
type OpenFunc func(ctx context.Context, url string, cfg *Config) (driver.Store, error)

// OpenMemory opens memory: a store that this process keeps for itself and forgets when it ends.
func OpenMemory(_ context.Context, url string, cfg *Config) (driver.Store, error) {
	if url != "memory:" {
		return nil, errors.New("nothing comes after memory: ; bounds are set by memory.max_keys and memory.max_bytes")
	}
	return memstore.New(&memstore.Options{MaxKeys: cfg.Memory.MaxKeys, MaxBytes: cfg.Memory.MaxBytes}), nil
}

var errUpstash = errors.New("nothing comes after upstash: ; the URL and the token are read from UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN")

// OpenUpstash opens upstash: a database of Upstash, whose URL and token are in the environment (see package upstashstore).
func OpenUpstash(_ context.Context, url string, cfg *Config) (driver.Store, error) {
	if url != "upstash:" {
		return nil, errUpstash
	}
	return upstashstore.New(&upstashstore.Options{Prefix: cfg.Redis.Prefix}), nil
}

// MigrateFunc makes or renews what the store that url names keeps its counts in. With print it writes the statements there
// instead, and need not reach the store.
type MigrateFunc func(ctx context.Context, url string, cfg *Config, print io.Writer) error

// Options say what a program is made of. nil has no store, so it can open none.
type Options struct {
	// Stores opens stores by the scheme of their URL, which is the part before the colon.
	Stores map[string]OpenFunc
	// Migrations are for the command migrate, by the same schemes; those that need none are not in it.
	Migrations map[string]MigrateFunc
	// Examinations are for the command doctor, by the same schemes. It looks at a store of a scheme that is not in it by what
	// any store can do, and by driver.Checker, and opens it as a server does.
	Examinations map[string]ExamineFunc
	// DefaultStore is the URL of the store of a server that was not told; default DefaultStore.
	DefaultStore string
	// Version of the program; default that of the build.
	Version string
	// Logger of a Server; default slog.Default(). The command serve makes its own, as the configuration says.
	Logger *slog.Logger
	// Load reads the configuration anew, for Server.Reload: from where that of New came. The command serve has its own.
	Load func() (*Config, error)

	level *slog.LevelVar // of Logger; nil: it is not for a reload to change
}

func (o *Options) resolved() *Options {
	r := Options{}
	if o != nil {
		r = *o
	}
	if r.DefaultStore == "" {
		r.DefaultStore = DefaultStore
	}
	if r.Version == "" {
		r.Version = buildVersion()
	}
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
	return &r
}

func (o *Options) defaults() *Config {
	c := Defaults()
	c.Store = o.DefaultStore
	return c
}

// opener is the function for a URL.
func (o *Options) opener(url string) (OpenFunc, error) {
	scheme, _, _ := strings.Cut(url, ":")
	if open := o.Stores[scheme]; open != nil {
		return open, nil
	}
	return nil, fmt.Errorf("store: this program has no stores of the scheme %s; %w", scheme, nearest(scheme, slices.Sorted(maps.Keys(o.Stores))))
}

func (o *Options) open(ctx context.Context, cfg *Config) (driver.Store, error) {
	url, err := parseStoreURL(cfg.Store)
	if err != nil {
		return nil, err
	}
	open, err := o.opener(url)
	if err != nil {
		return nil, err
	}
	store, err := open(ctx, url, cfg)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", redacted(url), err)
	}
	return store, nil
}

// redacted is a store's URL without a password, and without options, which may hold one.
func redacted(text string) string {
	before, rest, found := strings.Cut(text, "//")
	if !found {
		return text
	}
	rest, _, _ = strings.Cut(rest, "?")
	// A password may hold anything, unescaped or not.
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return before + "//" + rest
	}
	user, _, _ := strings.Cut(rest[:at], ":")
	return before + "//" + user + ":xxxxx" + rest[at:]
}

// forProgram is o for a server of a command, whose configuration is read by load.
func (o *Options) forProgram(log *slog.Logger, level *slog.LevelVar, load func() (*Config, error)) *Options {
	r := *o
	r.Logger, r.level, r.Load = log, level, load
	return &r
}
