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

// Fingerprint stands for a key where the key must not be shown: the same for the same key, and of no use to who does not have
// the server's secret. Servers with the same key secret make the same ones.
func (g *Guard) Fingerprint(key ration.Key) string {
	group, id := g.marks.of(key)
	return g.print("key", group, id)
}

func (g *Guard) print(parts ...string) string { return hex.EncodeToString(sum(g.secret, parts...)[:8]) }

// marks finds the bytes that a store is given for a key, which package ration shows to stores only: it is a store that looks at
// them and keeps nothing.
type marks struct {
	limiter *ration.Limiter
}

type seen struct{ group, id string }

type seenKey struct{}

func newMarks(*Options) *marks { return &marks{ration.New(spy{}, nil)} }

func (m *marks) of(key ration.Key) (group, id string) {
	var s seen
	_ = m.limiter.Forget(context.WithValue(context.Background(), seenKey{}, &s), key) // a key that is none is as good as empty
	return s.group, s.id
}

func (m *marks) close() error {
	if m == nil {
		return nil
	}
	return m.limiter.Close()
}

type spy struct{}

func (spy) Info() driver.Info {
	return driver.Info{Kind: "none", Caps: driver.CapsRun, MaxBatch: 1, Instant: true}
}

func (spy) Apply(ctx context.Context, batch []*driver.Txn) error {
	if s, ok := ctx.Value(seenKey{}).(*seen); ok {
		for _, t := range batch {
			if len(t.Ops) > 0 {
				s.group, s.id = t.Ops[0].Key.Group, t.Ops[0].Key.ID
			}
		}
	}
	return nil
}

func (spy) Close() error { return nil }
