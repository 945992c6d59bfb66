package access

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// Caller is whose a call is. It is never changed. A nil *Caller is the program itself, which may do everything.
type Caller struct {
	// Name is that of the token or the certificate; "" is somebody who did not say, or was not asked.
	Name string
	// From is the address, without a port; "unix" for a socket of this machine; "" if it is not known.
	From string
	// Expires is when the token ends; the zero Time: never.
	Expires time.Time

	guard  *Guard
	scopes []Scope
	hash   Hash // of the token; zero: there is none
	all    bool // access is off
}

// Unknown reports whether c did not say who it is, and should have.
func (c *Caller) Unknown() bool { return c != nil && c.Name == "" && !c.all }

// May reports whether c may do verb to something.
func (c *Caller) May(verb Verb) bool {
	return c == nil || c.all || slices.ContainsFunc(c.scopes, func(s Scope) bool { return s.has(verb) })
}

// may reports whether c may do verb to a configured limit, or with "" to what belongs to none, in a namespace.
func (c *Caller) may(verb Verb, namespace, limit string) bool {
	return c == nil || c.all || slices.ContainsFunc(c.scopes, func(s Scope) bool { return s.covers(verb, namespace, limit, c.guard.opts.Namespace) })
}

// Scopes are what c may do, as text; "" for everything, where access is off.
func (c *Caller) Scopes() string {
	if c == nil {
		return ""
	}
	return formatScopes(c.scopes)
}

type callerKey struct{}

// With is ctx with the caller c. It is for protocols that a Guard does not know.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From is the caller that a Guard has put into ctx; nil if there is none: the program itself.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// Refusal is the error of a call that may not be made. It says nothing of tokens. Nothing was charged.
type Refusal struct {
	Status     int    // of HTTP: 401, 403 or 429
	Code       string // stable, for programs
	Detail     string // what to do
	RetryAfter time.Duration
}

// Codes of Refusals.
const (
	CodeUnauthorized = "unauthorized"      // no token, or none that the server knows
	CodeExpired      = "token_expired"     // the token was good once
	CodeForbidden    = "forbidden"         // the caller is known, and may not do this
	CodeTooMany      = "too_many_requests" // the server is asked too often by this caller
)

// Error is the detail.
func (r *Refusal) Error() string { return r.Detail }

func forbidden(c *Caller, detail string) *Refusal {
	if c.Unknown() {
		return unauthorized
	}
	return &Refusal{Status: http.StatusForbidden, Code: CodeForbidden, Detail: detail}
}

var unauthorized = &Refusal{Status: http.StatusUnauthorized, Code: CodeUnauthorized, Detail: "say who is calling by a token that this server knows, as in Authorization: Bearer ration_…"}

// Allow is an error, a *Refusal, if the caller in ctx may not do verb to the configured limit of this name in the server's own
// namespace; "" is for what belongs to no configured limit: a limit that came as text, or all counts of a key.
func Allow(ctx context.Context, verb Verb, limit string) error { return From(ctx).Allow(verb, limit) }

// Allow is the function of this name, for c.
func (c *Caller) Allow(verb Verb, limit string) error {
	if c == nil || c.all {
		return nil
	}
	return c.allowIn(verb, c.guard.opts.Namespace, limit)
}

// AllowIn is Allow in another namespace.
func AllowIn(ctx context.Context, verb Verb, namespace, limit string) error {
	return From(ctx).allowIn(verb, namespace, limit)
}

func (c *Caller) allowIn(verb Verb, namespace, limit string) error {
	if c.may(verb, namespace, limit) {
		return nil
	}
	switch {
	case !c.May(verb):
		return c.lacks(verb)
	case namespace != c.guard.opts.Namespace:
		return forbidden(c, "this caller has no scope "+verb.String()+" in that namespace")
	case limit == "":
		return forbidden(c, "this caller's scope "+verb.String()+" is for configured limits of certain names only; this needs the scope without a name")
	}
	return forbidden(c, "this caller has no scope "+verb.String()+" for this limit")
}

// AllowAnywhere is an error, a *Refusal, if the caller in ctx may not do verb in every namespace.
func AllowAnywhere(ctx context.Context, verb Verb) error {
	c := From(ctx)
	if c == nil || c.all || slices.ContainsFunc(c.scopes, func(s Scope) bool { return s.has(verb) && s.Namespace == "*" && s.Limit == "" }) {
		return nil
	}
	return forbidden(c, "this needs the scope "+Scope{Verb: verb, Namespace: "*"}.String()+": it is about all namespaces")
}

// AllowSome is an error, a *Refusal, if there is nothing in the server's own namespace to which the caller in ctx may do verb.
func AllowSome(ctx context.Context, verb Verb) error {
	c := From(ctx)
	if c == nil || c.all || slices.ContainsFunc(c.scopes, func(s Scope) bool {
		return s.has(verb) && s.in(c.guard.opts.Namespace, c.guard.opts.Namespace)
	}) {
		return nil
	}
	return c.lacks(verb)
}

func (c *Caller) lacks(verb Verb) error {
	return forbidden(c, "this caller has no scope "+verb.String())
}
