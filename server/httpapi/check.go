package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/activity"
	"github.com/ration-go/ration/server/internal/verbs"
)

// ofCheck is the path of checks, before the name of a limit.
const ofCheck = "/v1/check/"

// Check has a limit answer GET /v1/check/{limit}: whether a request may pass that a proxy asks about. The zero value is
// invalid.
type Check struct {
	// Limit is the name of one of Options.Limits, of any kind but concurrent: nobody would let go of a slot.
	Limit string
	// Key says whose request it is, from the headers that the proxy sends along; required. The count is that of the same key, as
	// text, in other calls. (A key that is too long is known by a hash.)
	Key httplimit.KeyFunc
	// NoKey is what happens to a request of which Key says "": RefuseNoKey, the default, is status 403; SkipNoKey lets it pass
	// without a count; ShareNoKey counts all such requests together, under null.
	NoKey httplimit.NoKey
	// CostHeader names a header that has the cost, in digits. The cost is 1 if that is "", or such a header is not sent. The
	// proxy must set it, or the client chooses what it pays.
	CostHeader string
	// Refused is the status of a refusal: 429, which is the default, or 403.
	Refused int
}

// check is a Check that was tested.
type check struct {
	Check
	limit      ration.Limit
	activity   *activity.Recorder
	decide     http.Handler
	decideEach http.Handler // where keys have limits of their own
	shadow     bool         // it refuses nobody
}

// Problem types of the IANA registry, as the RateLimit drafts define them.
const (
	typeQuota   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReduced = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// checkProblem is what a request is told that may not pass.
type checkProblem struct {
	Type string `json:"type"`
	wire.Problem
	Violated []string `json:"violated-policies,omitempty"`
}

// readyChecks tests list, which is of limits, and makes what answers it.
func (h *handler) readyChecks(limits *verbs.Limits, list []Check) (map[string]*check, error) {
	checks := map[string]*check{}
	for _, given := range list {
		c := &check{Check: given, shadow: limits.Trials()[given.Limit].Shadow}
		fail := func(err error) (map[string]*check, error) {
			return nil, fmt.Errorf("httpapi: the check of %q: %w", c.Limit, err)
		}
		if checks[c.Limit] != nil {
			return fail(errors.New("there are two"))
		}
		if c.Limit == "" || strings.Contains(c.Limit, " ") {
			return fail(errors.New("a limit is named"))
		}
		limit := limits.Named(c.Limit)
		if limit == nil {
			return fail(errors.New("there is no limit of this name"))
		}
		if _, slots := limit.(ration.Rule).Limit.(ration.Concurrency); slots {
			return fail(errors.New("a limit of the kind concurrent is for reservations: nobody would let go of a slot"))
		}
		if c.Refused == 0 {
			c.Refused = http.StatusTooManyRequests
		}
		if c.Refused != http.StatusTooManyRequests && c.Refused != http.StatusForbidden {
			return fail(fmt.Errorf("a refusal is status 429 or 403, not %d", c.Refused))
		}
		guard, err := httplimit.New(h.Limiter, []httplimit.Policy{{
			Limit: limit, Key: c.Key, NoKey: c.NoKey, Cost: c.cost,
		}}, &httplimit.Options{Refuse: c.refuse, Error: h.undecided})
		if err != nil {
			return fail(err)
		}
		c.limit, c.activity = limit, h.Activity
		c.decide = guard(http.HandlerFunc(c.pass))
		guard, err = httplimit.New(h.Limiter, []httplimit.Policy{{
			For: h.limitFor(c, limit), Key: c.Key, NoKey: c.NoKey, Cost: c.cost,
		}}, &httplimit.Options{Refuse: c.refuse, Error: h.undecided})
		if err != nil {
			return fail(err)
		}
		c.decideEach = guard(http.HandlerFunc(c.pass))
		checks[c.Limit] = c
	}
	return checks, nil
}

// pass answers that a request may pass.
func (c *check) pass(w http.ResponseWriter, r *http.Request) {
	c.decided(r, &ration.Decision{Allowed: true}, nil)
	pass(w)
}

func pass(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// check decides on a request that a proxy asks about. What stands in its query is the client's, and means nothing here.
func (h *handler) check(w http.ResponseWriter, r *http.Request, name string) {
	if r.ContentLength != 0 {
		// Proxies may announce the client's body and not send it. Go's server would wait for it before it answers.
		w.Header().Set("Connection", "close")
	}
	c := (*h.checks.Load())[name]
	switch {
	case c == nil:
		h.fail(w, r, problem(codeNotFound, "the configuration has no check of a limit of this name"))
	case verbs.May(r.Context(), access.Take, name) != nil:
		h.fail(w, r, verbs.May(r.Context(), access.Take, name))
	case c.NoKey == httplimit.RefuseNoKey && c.Key(r) == "":
		h.fail(w, r, problem(codeNoKey, "the request does not say whose it is, so it cannot be counted"))
	case c.cost(r) < 0:
		h.fail(w, r, problem(wire.CodeInvalidCost, fmt.Sprintf("the header with the cost is not a whole number from 0 to %d, in digits", ration.MaxCount)))
	case h.Limits().Excepts(name):
		h.tryOut(w, r, c, c.decideEach)
	default:
		h.tryOut(w, r, c, c.decide)
	}
}

// limitFor is the limit of each request that c is about: limit, unless there is an override for its key.
func (h *handler) limitFor(c *check, limit ration.Limit) func(*http.Request) (ration.Limit, error) {
	return func(r *http.Request) (ration.Limit, error) {
		key := ration.Global
		if id := c.Key(r); id != "" {
			key = httplimit.KeyOf(id)
		}
		if other := h.For(h.Limits(), c.Limit, key); other != nil {
			return other, nil
		}
		return limit, nil // a reload has just taken its name away
	}
}

// cost is what r costs; −1: nobody can tell.
func (c *check) cost(r *http.Request) int64 {
	if c.CostHeader == "" {
		return 1
	}
	values := r.Header.Values(c.CostHeader)
	if len(values) == 0 {
		return 1
	}
	n, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil || n > ration.MaxCount || len(values) > 1 {
		return -1
	}
	return int64(n)
}

// decided tells of a decision by the guard. Of a key that was too long, the guard made a hash; such a one is not told.
func (c *check) decided(r *http.Request, d *ration.Decision, err error) {
	if c.activity == nil {
		return
	}
	key := ration.Global
	switch text := c.Key(r); {
	case text == "" && c.NoKey == httplimit.SkipNoKey:
		return
	case len(text) > maxCheckKey:
		return
	case text != "":
		key = ration.KeyOf(text)
	}
	c.activity.Decided(r.Context(), c.limit, key, max(0, c.cost(r)), d, err)
}

// maxCheckKey is the longest key that the guard takes as it is.
const maxCheckKey = 1024

// refuse answers a request that may not pass. RateLimit fields and Retry-After are set already.
func (c *check) refuse(w http.ResponseWriter, r *http.Request, o ration.Outcome) {
	c.decided(r, &o.Decision, nil)
	if c.shadow {
		w.Header().Del("Retry-After")
		w.Header().Set(shadowHeader, c.Limit)
		pass(w)
		return
	}
	p := checkProblem{Type: typeQuota, Violated: []string{c.Limit}}
	p.Title, p.Status, p.Code, p.Charged = "Quota exceeded", c.Refused, codeQuotaExceeded, wire.ChargedNo
	wait := "Try again in " + w.Header().Get("Retry-After") + " s."
	switch {
	case o.Degraded:
		p.Type, p.Title, p.Status, p.Code = typeReduced, "Temporarily reduced capacity", http.StatusServiceUnavailable, wire.CodeUnavailable
		p.Detail = "The limit " + c.Limit + " is smaller than usual for now. " + wait
	case o.Never:
		p.Detail = "The limit " + c.Limit + " is smaller than what this request costs, so waiting does not help."
	default:
		p.Detail = "The limit " + c.Limit + " has no room for this request. " + wait
	}
	p.send(w)
}

// undecided answers a request of which nobody could tell. Whatever the store's trouble is, proxies get one status for it.
func (h *handler) undecided(w http.ResponseWriter, r *http.Request, err error) {
	if c := (*h.checks.Load())[strings.TrimPrefix(r.URL.Path, ofCheck)]; c != nil {
		c.decided(r, nil, err)
	}
	p := checkProblem{Type: typeReduced, Problem: *problemOf(err)}
	if p.Status < http.StatusInternalServerError {
		h.fail(w, r, err)
		return
	}
	h.log.Failed(r.Context(), p.Code, err, "path", r.Pattern, "status", http.StatusServiceUnavailable)
	p.Title, p.Status = "Temporarily reduced capacity", http.StatusServiceUnavailable
	w.Header().Set("Retry-After", "1")
	p.send(w)
}

func (p *checkProblem) send(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	send(w, p.Status, wire.ProblemType, body)
}
