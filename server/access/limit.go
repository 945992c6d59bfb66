package access

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

// maxCounted is how many callers and addresses are counted at a time.
const maxCounted = 100_000

// limits are those on the server itself, counted in its own memory. They cost the store nothing.
type limits struct {
	counts *ration.Limiter // nil: there are none
	calls  ration.Limit    // nil: none
	failed ration.Limit    // nil: none
}

func (l *limits) start(opts *Options) error {
	named := func(name string, limit ration.Limit) (ration.Limit, error) {
		if limit == nil {
			return nil, nil
		}
		rule := ration.Rule{Name: name, Limit: limit}
		return rule, rule.Validate()
	}
	var err, err2 error
	l.calls, err = named("calls", opts.Limit)
	l.failed, err2 = named("failed", opts.FailedLimit)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if l.calls != nil || l.failed != nil {
		l.counts = ration.New(memstore.New(&memstore.Options{MaxKeys: maxCounted}), nil)
	}
	return nil
}

func (l *limits) close() error {
	if l.counts == nil {
		return nil
	}
	return l.counts.Close()
}

// Count is an error, a *Refusal, if c has made too many calls; else it counts n more.
func (g *Guard) Count(c *Caller, n int) error {
	l := &g.limits
	if l.calls == nil || c == nil || g.opts.FreeOnLoopback && here(c.From) {
		return nil
	}
	kind, who := "name", c.Name
	if who == "" {
		kind, who = "address", network(c.From)
	}
	d, err := l.counts.Take(context.Background(), ration.KeyOf(kind, who), l.calls, int64(n))
	// This limit is for the server's sake. If it cannot count, for lack of room, it lets calls pass.
	if err != nil || d.Allowed {
		return nil
	}
	return tooMany("this server is asked too often by this caller", d.RetryAfter)
}

// failed counts a failure of an address, and is why it is refused.
func (g *Guard) failed(from string, why *Refusal) error {
	l := &g.limits
	if l.failed == nil {
		return why
	}
	d, err := l.counts.Take(context.Background(), ration.KeyOf(network(from)), l.failed, 1)
	if err == nil && !d.Allowed {
		return tooMany("too many calls of this address did not say who is calling", d.RetryAfter)
	}
	return why
}

func tooMany(detail string, wait time.Duration) *Refusal {
	return &Refusal{Status: http.StatusTooManyRequests, Code: CodeTooMany, Detail: detail, RetryAfter: max(wait, time.Second)}
}

// here reports whether an address is of this machine.
func here(from string) bool {
	addr, err := netip.ParseAddr(from)
	return from == "unix" || err == nil && addr.Unmap().IsLoopback()
}

// network is what counts as one address: of IPv6 a /64, which one host has all of.
func network(from string) string {
	addr, err := netip.ParseAddr(from)
	if err != nil {
		if from == "" {
			return "unknown"
		}
		return from
	}
	if addr = addr.Unmap(); addr.Is6() {
		if prefix, err := addr.WithZone("").Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return addr.String()
}
