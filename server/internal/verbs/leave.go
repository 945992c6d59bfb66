package verbs

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/url"
	"strings"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
)

// Codes of calls that may not be made.
const (
	CodeUnauthorized = wire.Code(access.CodeUnauthorized)
	CodeExpired      = wire.Code(access.CodeExpired)
	CodeForbidden    = wire.Code(access.CodeForbidden)
	CodeTooMany      = wire.Code(access.CodeTooMany)
)

// Refused is err, if it is an access.Refusal, as an error of this package.
func Refused(err error) error {
	if r, ok := errors.AsType[*access.Refusal](err); ok {
		return Problem(wire.Code(r.Code), r.Detail)
	}
	return err
}

// May is an error if the caller in ctx may not do verb to what a request means by text. Only limits of the configuration have a
// name here: a limit's text, even one with a name, has numbers of the caller's own.
func May(ctx context.Context, verb access.Verb, text string) error {
	if strings.Contains(text, " ") {
		text = ""
	}
	if err := access.Allow(ctx, verb, text); err != nil {
		return At("/limit", Refused(err))
	}
	return nil
}

// MayAll is May for what is about all limits at once.
func MayAll(ctx context.Context, verb access.Verb) error { return Refused(access.Allow(ctx, verb, "")) }

// Reset forgets what was counted for key under limit, which the request calls text. What its candidate counted stays.
func (s *Service) Reset(ctx context.Context, key ration.Key, limit ration.Limit, text string) error {
	limit, _ = untried(limit)
	err := s.Limiter.Reset(ctx, key, limit)
	access.Record(ctx, access.Action{What: "reset", Limit: text, Key: &key, Outcome: access.Outcome(err)})
	return err
}

// Forget forgets all that was counted for key.
func (s *Service) Forget(ctx context.Context, key ration.Key) error {
	if err := MayAll(ctx, access.Reset); err != nil {
		return err
	}
	err := s.Limiter.Forget(ctx, key)
	if err == nil {
		s.Activity.Forget(key)
	}
	access.Record(ctx, access.Action{What: "forget", Key: &key, Outcome: access.Outcome(err)})
	return err
}

// readable are the holds whose limits the caller in ctx may read.
func readable(ctx context.Context, all iter.Seq2[ration.Hold, error]) iter.Seq2[ration.Hold, error] {
	if access.Allow(ctx, access.Read, "") == nil {
		return all
	}
	return func(yield func(ration.Hold, error) bool) {
		for hold, err := range all {
			if err == nil && !mayReadAll(ctx, &hold) {
				continue
			}
			if !yield(hold, err) {
				return
			}
		}
	}
}

func mayReadAll(ctx context.Context, hold *ration.Hold) bool {
	for i := range hold.Charged {
		if name := hold.Charged[i].Name; name == "" || access.Allow(ctx, access.Read, name) != nil {
			return false
		}
	}
	return true
}

// verbOf is what a caller must be allowed to do for a transaction.
var verbOf = map[driver.Verb]access.Verb{
	driver.Take: access.Take, driver.Hit: access.Take, driver.Refund: access.Take,
	driver.Settle: access.Take, driver.Cancel: access.Take, driver.Progress: access.Take, driver.Renew: access.Take,
	driver.Peek: access.Read, driver.Reset: access.Reset, driver.Forget: access.Reset,
}

// MayTxn is an error if the caller in ctx may not have the store do t. Who sends transactions brings the numbers of all limits,
// so scopes for limits of certain names do not do. The error is of the kind ErrUnsupported, which no outage policy turns into
// a pass.
func MayTxn(ctx context.Context, t *driver.Txn) error {
	verb, ok := verbOf[t.Verb]
	if !ok {
		return nil // which no store gets to see
	}
	if len(t.Ops) == 0 { // of a hold, whose id begins with its namespace
		return mayIn(ctx, verb, t.ID)
	}
	for i := range t.Ops {
		if err := mayIn(ctx, verb, t.Ops[i].Key.Space); err != nil {
			return err
		}
	}
	if t.ID != "" {
		return mayIn(ctx, verb, t.ID)
	}
	return nil
}

// mayIn is about what begins with a namespace, as package ration writes it, and a bar.
func mayIn(ctx context.Context, verb access.Verb, place string) error {
	escaped, _, whole := strings.Cut(place, "|")
	namespace, err := url.PathUnescape(escaped)
	if whole && err == nil {
		err = access.AllowIn(ctx, verb, namespace, "")
	} else { // a piece of a namespace would be all that begin so
		err = access.AllowAnywhere(ctx, verb)
	}
	if err != nil {
		return wire.CodeUnsupported.Err(err.Error())
	}
	return nil
}

// MayReadHold reports whether the caller in ctx may see the hold of this id, of whatever namespace.
func MayReadHold(ctx context.Context, id string) bool { return mayIn(ctx, access.Read, id) == nil }

// RecordTxn notes what t did in the audit log, if it is something for that.
func RecordTxn(ctx context.Context, t *driver.Txn) {
	what := map[driver.Verb]string{driver.Reset: "reset", driver.Forget: "forget"}[t.Verb]
	if what == "" {
		return
	}
	for i := range t.Ops {
		key := &t.Ops[i].Key
		access.Record(ctx, access.Action{What: what, Stored: key, Outcome: access.Outcome(t.Err), Attrs: []slog.Attr{slog.String("space", key.Space)}})
	}
}

// Readable are the rules that the caller in ctx may read.
func Readable(ctx context.Context, rules []ration.Rule) []ration.Rule {
	if access.Allow(ctx, access.Read, "") == nil {
		return rules
	}
	var some []ration.Rule
	for _, rule := range rules {
		if access.Allow(ctx, access.Read, rule.Name) == nil {
			some = append(some, rule)
		}
	}
	return some
}
