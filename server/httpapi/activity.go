package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/activity"
	"github.com/ration-go/ration/server/internal/verbs"
)

// activityAnswer is what the server did lately, and how its store is.
type activityAnswer struct {
	activity.Snapshot
	Version   string      `json:"version"`
	ClearKeys bool        `json:"clear_keys"`
	Store     storeAnswer `json:"store"`
}

type storeAnswer struct {
	Kind    string `json:"kind"`
	Scope   string `json:"scope"`
	Durable bool   `json:"durable"`
	Up      bool   `json:"up"`
	Detail  string `json:"detail"`   // why it is not up
	SinceUS int64  `json:"since_us"` // when up changed last
	// What the last question to the store said.
	AskedUS int64 `json:"asked_us"`
	TookUS  int64 `json:"took_us"`
	AheadUS int64 `json:"ahead_us"` // by how much the store's clock is before the server's
}

// watch asks the store how it is, for all who look.
type watch struct {
	service *verbs.Service
	texts   atomic.Pointer[limitTexts]
	looking atomic.Int64

	asking sync.Mutex // held while one asks; the others take what is known
	mu     sync.Mutex
	last   storeAnswer
}

const (
	// askEvery is how old an answer of the store may be.
	askEvery = 2 * time.Second
	// askFor bounds how long who looks waits for the store.
	askFor = time.Second
	// maxLooking bounds the streams at a time.
	maxLooking = 32
	// every is how often a stream says something.
	every = time.Second
)

func newWatch(s *verbs.Service) *watch {
	w := &watch{service: s}
	w.last = storeAnswer{Kind: s.Info.Kind, Scope: s.Info.Scope.String(), Durable: s.Info.Durable, Up: true, SinceUS: time.Now().UnixMicro()}
	return w
}

// limitTexts are the texts of limits, by name.
type limitTexts struct {
	of     *verbs.Limits
	byName map[string]string
}

// limits are the texts of the configured limits, which a reload may change.
func (w *watch) limits() map[string]string {
	now := w.service.Limits()
	if known := w.texts.Load(); known != nil && known.of == now {
		return known.byName
	}
	made := &limitTexts{of: now, byName: map[string]string{}}
	for _, rule := range now.Rules() {
		made.byName[rule.Name] = rule.String()
	}
	w.texts.Store(made)
	return made.byName
}

// store is how the store is.
func (w *watch) store(ctx context.Context) storeAnswer {
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if time.Since(time.UnixMicro(last.AskedUS)) < askEvery || !w.asking.TryLock() {
		return last
	}
	defer w.asking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	sent := time.Now()
	at, err := w.service.Probe(ctx)
	took := time.Since(sent)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return last // who looked has gone
	}
	now := last
	now.Up, now.Detail = err == nil, ""
	if err != nil {
		now.Detail = wire.Explain(err)
	}
	now.AskedUS, now.TookUS, now.AheadUS = sent.Add(took).UnixMicro(), took.Microseconds(), 0
	if !at.IsZero() {
		now.AheadUS = at.Sub(sent.Add(took / 2)).Microseconds()
	}
	if now.Up != last.Up {
		now.SinceUS = now.AskedUS
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = now
	return now
}

var errNoActivity = problem(codeNotFound, "this server does not record what it decides; the setting dashboard.serve does")

func (h *handler) activity(ctx context.Context) (a activityAnswer, err error) {
	if h.watch == nil {
		return a, errNoActivity
	}
	if err := verbs.MayAll(ctx, access.Read); err != nil {
		return a, err
	}
	store := h.watch.store(ctx)
	return activityAnswer{Snapshot: *h.Activity.Snapshot(h.watch.limits()), Version: h.version, ClearKeys: h.Activity.ClearKeys(), Store: store}, nil
}

// stream sends the activity every second, as server-sent events, until the client goes or the server stops.
func (h *handler) stream(w http.ResponseWriter, r *http.Request, _ string) {
	switch {
	case r.URL.RawQuery != "" || r.URL.ForceQuery:
		h.fail(w, r, problem(codeUnexpectedQuery, "nothing is read from the URL's query"))
		return
	case h.watch == nil:
		h.fail(w, r, errNoActivity)
		return
	case verbs.MayAll(r.Context(), access.Read) != nil:
		h.fail(w, r, verbs.MayAll(r.Context(), access.Read))
		return
	case h.watch.looking.Add(1) > maxLooking:
		h.watch.looking.Add(-1)
		h.fail(w, r, problem(wire.CodeOverloaded, fmt.Sprintf("%d streams are open already; ask /v1/activity from time to time instead", maxLooking)))
		return
	}
	defer h.watch.looking.Add(-1)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Accel-Buffering", "no") // nginx would wait for more
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := h.event(w, r); err != nil {
			return // the client has gone
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-stopping(r.Context()):
			return
		}
	}
}

// event sends one.
func (h *handler) event(w http.ResponseWriter, r *http.Request) error {
	answer, err := h.activity(r.Context())
	if err != nil {
		return err
	}
	body, err := json.Marshal(&answer)
	if err != nil {
		panic(err) // strings, numbers and booleans
	}
	control := http.NewResponseController(w)
	// The server's own bound is for a whole answer. Where there is none, none is needed.
	if err := control.SetWriteDeadline(time.Now().Add(10 * every)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", body); err != nil {
		return err
	}
	return control.Flush()
}

// stoppingKey is of the channel that is closed when a server stops.
type stoppingKey struct{}

// WithStopping is ctx for requests of a server: answers that do not end by themselves do when stop is closed.
func WithStopping(ctx context.Context, stop <-chan struct{}) context.Context {
	return context.WithValue(ctx, stoppingKey{}, stop)
}

// stopping is nil, which never comes, if the server does not say when it stops.
func stopping(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return stop
}

// shownKeyFields name a key by its parts, or by a fingerprint that the activity shows.
type shownKeyFields struct {
	keyFields
	Fingerprint *string `json:"fingerprint"`
}

type keyActivityRequest struct {
	shownKeyFields
}

type keyActivityAnswer struct {
	Fingerprint string          `json:"fingerprint"`
	Limits      []keyLimitState `json:"limits"`
}

// keyLimitState is one limit for a key, as peek answers it, or why it could not be told.
type keyLimitState struct {
	decisionAnswer
	Text       string `json:"text"`       // of the limit that the key has
	Configured string `json:"configured"` // that others have
	Error      string `json:"error,omitempty"`
}

// maxPeeks bounds how many limits a key is shown under.
const maxPeeks = 200

// keyActivity peeks at all named limits for a key.
func (h *handler) keyActivity(ctx context.Context, r *keyActivityRequest) (a keyActivityAnswer, err error) {
	if h.watch == nil {
		return a, errNoActivity
	}
	if err := verbs.MayAll(ctx, access.Read); err != nil {
		return a, err
	}
	key, err := h.shownKey(&r.shownKeyFields)
	if err != nil {
		return a, err
	}
	limits := h.Limits()
	rules := limits.Rules()
	rules = rules[:min(len(rules), maxPeeks)]
	a.Fingerprint, a.Limits = h.Activity.Fingerprint(key), make([]keyLimitState, len(rules))
	errs := make([]error, len(rules))
	h.Each(len(rules), func(i int) {
		one := &a.Limits[i]
		d, shadow := ration.Decision{}, false
		limit, err := h.Limit(limits, key, rules[i].Name, nil)
		if err == nil {
			one.Text = limit.String()
			var found verbs.Decision
			found, err = h.Peek(ctx, key, limit, 1)
			d, shadow = found.Decision, found.Shadow
		}
		one.decisionAnswer, one.Configured = answerOf(&d), rules[i].String()
		one.Shadow = shadow
		if err != nil {
			errs[i] = err
			one.decisionAnswer, one.Error = decisionAnswer{Name: rules[i].Name}, wire.Explain(err)
		}
	})
	for _, err := range errs {
		if errors.Is(err, ration.ErrInvalidKey) {
			return a, err
		}
	}
	return a, nil
}

// shownKey is the key that r means.
func (h *handler) shownKey(r *shownKeyFields) (ration.Key, error) {
	if r.Fingerprint == nil {
		return r.key()
	}
	if h.Activity == nil {
		return ration.Key{}, errNoActivity
	}
	if r.Key.given || r.KeyBase64.given || r.Group != "" {
		return ration.Key{}, problem(codeInvalidKey, "give either a key or a fingerprint, not both")
	}
	key, ok := h.Activity.Find(*r.Fingerprint)
	if !ok {
		return key, verbs.At("/fingerprint", problem(codeInvalidKey, "no key of this fingerprint is in the lists any more; give the key itself"))
	}
	return key, nil
}
