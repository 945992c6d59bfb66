package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Options of the handler. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Limits are those that requests can name. Each has a name of its own.
	Limits []ration.Rule
	// Checks are those of the Limits that proxies can ask about their requests, one for each; by default none.
	Checks []Check
	// Logger is told of the store's trouble, without keys; default slog.Default().
	Logger *slog.Logger
	// Version is shown by /healthz.
	Version string
	// Timeout of what the handler asks the store itself (apply, healthz); default 5 s. The Limiter has its own.
	Timeout time.Duration
	// Reload, if not nil, answers POST /v1/admin/reload: it reads the configuration anew, and fails if that is wrong.
	Reload func(context.Context) error
	// Stored, if not nil, is told of the calls that /v1/apply makes to the store, as ration.Observer is of a Limiter's.
	Stored func(context.Context, ration.StoreCall)
	// Decide is what several protocols of one server share; nil: a handler has its own. Only package server can make one. Its
	// limits go before Limits, which then must be empty.
	Decide *verbs.Service
}

// MaxBody is the greatest length of a request's body in bytes, but for /v1/apply, where it is 4 MiB.
const MaxBody = 64 << 10

// New makes the handler of the API on l, which decides, and store, which is l's own and takes the batches of package
// client. It fails if a limit has no name, a name that another one has, or is invalid, and if a Check is.
//
// The handler is safe for concurrent use. Close l only when no request is under way any more. Requests end with their
// context; time limits of connections, and who may connect, are the server's matter. Its idle connections should live for
// at least two minutes, longer than those of package client.
func New(l *ration.Limiter, store driver.Store, opts *Options) (*Handler, error) {
	if opts == nil {
		opts = new(Options)
	}
	service, err := opts.Decide, error(nil)
	if service == nil {
		service, err = verbs.New(l, store, opts.Limits, opts.Timeout)
	} else if len(opts.Limits) > 0 {
		err = errors.New("the limits are those of Options.Decide")
	}
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	h := &handler{Service: service, version: opts.Version, log: verbs.NewFailures(opts.Logger), reloading: opts.Reload, stored: opts.Stored}
	if service.Activity != nil {
		h.watch = newWatch(service)
	}
	h.routes = h.table()
	checks, err := h.readyChecks(service.Limits(), opts.Checks)
	if err != nil {
		return nil, err
	}
	h.checks.Store(&checks)
	return &Handler{h}, nil
}

// Handler answers the API. Its methods are safe for concurrent use.
type Handler struct{ h *handler }

// ServeHTTP answers a request. It sets r.Pattern to what it does, without ids, for who keeps a log.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.h.ServeHTTP(w, r) }

// Update makes limits and checks those of requests from now on, all of them or, if one is wrong, none. A request under way
// is decided by those that there were when it came. Counts stay, as those of a limit whose numbers change do.
func (h *Handler) Update(limits []ration.Rule, checks []Check) error {
	next, err := verbs.NewLimits(limits)
	if err != nil {
		return fmt.Errorf("httpapi: %w", err)
	}
	commit, err := h.Prepare(next, checks)
	if err != nil {
		return err
	}
	h.h.SetLimits(next)
	commit()
	return nil
}

// Prepare makes checks of limits ready, and answers what puts them in the place of those that there are. It is for package
// server, which also knows other protocols; see Update.
func (h *Handler) Prepare(limits *verbs.Limits, checks []Check) (commit func(), err error) {
	ready, err := h.h.readyChecks(limits, checks)
	if err != nil {
		return nil, err
	}
	return func() { h.h.checks.Store(&ready) }, nil
}

type handler struct {
	*verbs.Service
	version   string
	log       *verbs.Failures
	routes    map[string]route
	checks    atomic.Pointer[map[string]*check]
	reloading func(context.Context) error // nil: there is none
	stored    func(context.Context, ration.StoreCall)
	watch     *watch // nil: no activity
}

// route is what a path does.
type route struct {
	method  string      // GET allows HEAD too
	may     access.Verb // what its caller must be allowed to do to something; 0: it looks itself, or everybody may
	maxBody int
	query   bool // is read
	// run answers a request: what to send, as JSON, or the JSON itself if it is a []byte.
	run func(ctx context.Context, asked *asked) (any, error)
	// direct answers in place of run, if it is there.
	direct func(w http.ResponseWriter, r *http.Request, id string)
	// request and answer are what the bodies hold; the document of OpenAPI is held to them.
	request, answer reflect.Type
}

// asked is what a request says.
type asked struct {
	id    string // in the path
	query url.Values
	body  []byte
}

func (h *handler) table() map[string]route {
	return map[string]route{
		"/v1/take":     post(access.Take, h.take),
		"/v1/peek":     post(access.Read, h.peek),
		"/v1/take-all": post(access.Take, h.takeAll),
		"/v1/refund":   post(access.Take, h.refund),
		"/v1/reset":    post(access.Reset, h.reset),
		"/v1/forget":   post(access.Reset, h.forget),
		"/v1/hit":      post(access.Take, h.hit),

		"/v1/reserve":                   post(access.Take, h.reserve),
		"/v1/reservations":              list(access.Read, h.reservations),
		ofReservation + "{id}/settle":   postTo(access.Take, h.settle),
		ofReservation + "{id}/cancel":   postTo(access.Take, h.cancel),
		ofReservation + "{id}/renew":    postTo(access.Take, h.renew),
		ofReservation + "{id}/progress": postTo(access.Take, h.progress),

		"/v1/apply": {
			method: http.MethodPost, maxBody: wire.MaxBody, run: h.apply,
			request: reflect.TypeFor[wire.Batch](), answer: reflect.TypeFor[wire.Answers](),
		},
		"/v1/holds": {
			method: http.MethodPost, maxBody: MaxBody, run: h.holds,
			request: reflect.TypeFor[wire.HoldsRequest](), answer: reflect.TypeFor[wire.HoldsAnswer](),
		},
		"/v1/sweep": post(access.Admin, h.sweep),

		ofCheck + "{limit}": {method: http.MethodGet, may: access.Take, direct: h.check},

		"/v1/overrides":        list(access.Read, h.overrides),
		"/v1/overrides/set":    post(access.Admin, h.setOverride),
		"/v1/overrides/get":    post(access.Read, h.override),
		"/v1/overrides/remove": post(access.Admin, h.removeOverride),

		"/v1/admin/reload": post(access.Admin, h.reload),

		ofLimit + "{limit}/candidate": getFrom(access.Read, h.trial),

		"/v1/activity":        get(access.Read, h.activity),
		"/v1/activity/stream": {method: http.MethodGet, may: access.Read, direct: h.stream},
		"/v1/activity/key":    post(access.Read, h.keyActivity),

		"/v1/limits":    get(access.Read, h.limits),
		"/healthz":      get(0, h.health),
		"/openapi.json": {method: http.MethodGet, run: h.openAPI},
	}
}

// post is a route whose body is a T.
func post[T, A any](may access.Verb, run func(context.Context, *T) (A, error)) route {
	return postTo(may, func(ctx context.Context, _ string, request *T) (A, error) { return run(ctx, request) })
}

// postTo is a route whose body is a T, with an id in its path.
func postTo[T, A any](may access.Verb, run func(ctx context.Context, id string, request *T) (A, error)) route {
	return route{
		method: http.MethodPost, may: may, maxBody: MaxBody,
		run: func(ctx context.Context, asked *asked) (any, error) {
			request := new(T)
			if err := strictjson.Decode(asked.body, request); err != nil {
				return nil, err
			}
			return run(ctx, asked.id, request)
		},
		request: reflect.TypeFor[T](), answer: reflect.TypeFor[A](),
	}
}

// get is a route without a body.
func get[A any](may access.Verb, run func(context.Context) (A, error)) route {
	rt := list(may, func(ctx context.Context, _ url.Values) (A, error) { return run(ctx) })
	rt.query = false
	return rt
}

// getFrom is a route without a body, with the name of a limit in its path.
func getFrom[A any](may access.Verb, run func(ctx context.Context, name string) (A, error)) route {
	return route{
		method: http.MethodGet, may: may,
		run:    func(ctx context.Context, asked *asked) (any, error) { return run(ctx, asked.id) },
		answer: reflect.TypeFor[A](),
	}
}

// list is a route without a body that reads the query.
func list[A any](may access.Verb, run func(context.Context, url.Values) (A, error)) route {
	return route{
		method: http.MethodGet, may: may, query: true,
		run:    func(ctx context.Context, asked *asked) (any, error) { return run(ctx, asked.query) },
		answer: reflect.TypeFor[A](),
	}
}

// find is the route for u, how it is called in the table, and the id, or the name of a limit, in the path.
func (h *handler) find(u *url.URL) (rt route, pattern, id string, ok bool) {
	pattern = u.Path
	// The path as it was sent: an id may hold an escaped slash.
	if rest, has := strings.CutPrefix(u.EscapedPath(), ofReservation); has {
		escaped, verb, _ := strings.Cut(rest, "/")
		pattern = ofReservation + "{id}/" + verb
		var err error
		if id, err = url.PathUnescape(escaped); err != nil {
			return rt, "", "", false
		}
	}
	if name, has := strings.CutPrefix(u.Path, ofCheck); has {
		pattern, id = ofCheck+"{limit}", name
	}
	if rest, has := strings.CutPrefix(u.Path, ofLimit); has {
		name, what, _ := strings.Cut(rest, "/")
		pattern, id = ofLimit+"{limit}/"+what, name
	}
	rt, ok = h.routes[pattern]
	return rt, pattern, id, ok
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, pattern, id, ok := h.find(r.URL)
	if ok {
		r.Pattern = pattern
	}
	if !ok {
		h.fail(w, r, problem(codeNotFound, "there is nothing at this path; GET /openapi.json lists what there is"))
		return
	}
	allow := rt.allow()
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !slices.Contains(allow, r.Method) {
		h.fail(w, r, &notAllowed{problem(codeMethodNotAllowed, "this path is for "+rt.method), strings.Join(allow, ", ")})
		return
	}
	if rt.may != 0 {
		if err := rt.allowed(r.Context()); err != nil {
			h.fail(w, r, verbs.Refused(err))
			return
		}
	}
	if rt.direct != nil {
		rt.direct(w, r, id)
		return
	}
	answer, err := h.serve(w, r, rt, id)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	body, raw := answer.([]byte)
	if !raw {
		if body, err = json.Marshal(answer); err != nil {
			panic(err) // strings, numbers and booleans
		}
	}
	send(w, http.StatusOK, "application/json", body)
}

// allowed is an error if the caller in ctx may not ask this of any limit; of the server as a whole, if that is what it is about.
func (rt *route) allowed(ctx context.Context) error {
	if rt.may == access.Admin {
		return access.Allow(ctx, rt.may, "")
	}
	return access.AllowSome(ctx, rt.may)
}

func (rt *route) allow() []string {
	if rt.method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	}
	return []string{rt.method, http.MethodOptions}
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, rt route, id string) (any, error) {
	asked := &asked{id: id}
	var err error
	switch {
	case rt.query:
		if asked.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return nil, problem(codeUnexpectedQuery, "the URL's query cannot be read")
		}
	case r.URL.RawQuery != "" || r.URL.ForceQuery:
		return nil, problem(codeUnexpectedQuery, "nothing is read from the URL's query; put fields into the body")
	}
	if rt.method == http.MethodPost {
		if asked.body, err = read(w, r, rt.maxBody); err != nil {
			return nil, err
		}
	}
	return rt.run(r.Context(), asked)
}

// read is the body of r, whole.
func read(w http.ResponseWriter, r *http.Request, most int) ([]byte, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, problem(codeUnsupportedMediaType, "send the header Content-Type: application/json; with curl, use --json instead of -d")
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, problem(codeUnsupportedMediaType, "send the body as it is, without a Content-Encoding")
	}
	tooLarge := problem(codeBodyTooLarge, fmt.Sprintf("the body is longer than %d bytes", most))
	if r.ContentLength > int64(most) {
		// The rest is not read, so the connection cannot be used further.
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
	var tooMany *http.MaxBytesError
	switch {
	case errors.As(err, &tooMany):
		return nil, tooLarge
	case err != nil:
		return nil, problem(codeIncompleteBody, "the body could not be read to its end")
	}
	return body, nil
}
