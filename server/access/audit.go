package access

import (
	"context"
	"encoding/hex"
	"log/slog"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

// Action is something that the audit log tells of.
type Action struct {
	What    string      // "reset", "forget", "cancel", "override", "reload", "tokens", …
	Limit   string      // a configured name or a limit's text; "": none
	Key     *ration.Key // whose count it was; nil: none. Only its fingerprint is logged
	Stored  *driver.Key // the same, as a store sees it; nil: none
	ID      string      // of a reservation; "": none. Only its fingerprint is logged
	Outcome string      // "done" or "failed"
	Attrs   []slog.Attr // more; never keys or tokens
}

// Outcome is "done", or "failed" if err is not nil.
func Outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}

// Record writes a line about what the caller in ctx has done into the audit log of its Guard. Where there is no caller, as in a
// program of its own, it does nothing.
func Record(ctx context.Context, a Action) {
	if c := From(ctx); c != nil && c.guard != nil {
		c.guard.record(c, a)
	}
}

// Record writes a line about what the server has done by itself, such as to read its configuration again.
func (g *Guard) Record(a Action) { g.record(nil, a) }

func (g *Guard) record(c *Caller, a Action) {
	attrs := []slog.Attr{slog.String("action", a.What), slog.String("outcome", a.Outcome)}
	if c == nil {
		attrs = append(attrs, slog.String("who", "server"))
	} else {
		who := c.Name
		if who == "" {
			who = "anybody"
		}
		attrs = append(attrs, slog.String("who", who), slog.String("from", c.From))
	}
	if a.Limit != "" {
		attrs = append(attrs, slog.String("limit", a.Limit))
	}
	if a.Key != nil {
		attrs = append(attrs, slog.String("key", g.Fingerprint(*a.Key)))
	}
	if a.Stored != nil {
		attrs = append(attrs, slog.String("key", g.print("key", a.Stored.Group, a.Stored.ID)))
	}
	if a.ID != "" {
		attrs = append(attrs, slog.String("reservation", g.print("id", a.ID)))
	}
	attrs = append(attrs, a.Attrs...)
	log := g.opts.Audit
	if log == nil {
		log = g.opts.Logger
		attrs = append(attrs, slog.Bool("audit", true))
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "admin action", attrs...)
}

// Fingerprint stands for a key where the key must not be shown: the same for the same key. With the server's key secret it is that of
// Limiter.Fingerprint, as overrides and lists show it, and the same on all servers that have the secret. Without one it is of this
// process alone. Nobody else can tell whose it is by guessing keys.
func (g *Guard) Fingerprint(key ration.Key) string {
	f, err := g.marks.Fingerprint(key)
	switch {
	case err != nil:
		return "invalid"
	case g.opts.KeySecret != nil:
		return hex.EncodeToString(f[:])
	}
	return g.print("fingerprint", string(f[:]))
}

func (g *Guard) print(parts ...string) string {
	return hex.EncodeToString(sum(g.secret, parts...)[:16])
}

// newMarks makes a Limiter that only makes fingerprints.
func newMarks(opts *Options) *ration.Limiter {
	return ration.New(nowhere{}, &ration.Options{Namespace: opts.Namespace, KeySecret: opts.KeySecret, Logger: slog.New(slog.DiscardHandler)})
}

// nowhere is a store that keeps nothing.
type nowhere struct{}

func (nowhere) Info() driver.Info {
	return driver.Info{Kind: "none", Scope: driver.Network, Instant: true}
}
func (nowhere) Apply(context.Context, []*driver.Txn) error { return driver.ErrNotApplied }
func (nowhere) Close() error                               { return nil }
