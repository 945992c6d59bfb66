package httpapi

import (
	"context"
	"net/http"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/verbs"
)

// ofLimit is the path of what is asked about a named limit, before its name.
const ofLimit = "/v1/limits/"

// shadowHeader says, in answers of checks, which limit would have refused.
const shadowHeader = "Ration-Shadow"

// trialAnswer is what a limit on trial would have done, as this process knows it.
type trialAnswer struct {
	Limit            string     `json:"limit"`
	Shadow           bool       `json:"shadow"`
	Candidate        string     `json:"candidate,omitempty"`
	SinceUS          int64      `json:"since_us"`
	Decided          int64      `json:"decided"`
	LiveRefused      int64      `json:"live_refused"`
	CandidateRefused int64      `json:"candidate_refused"`
	BothRefused      int64      `json:"both_refused"`
	Undecided        int64      `json:"undecided"`
	Top              []topEntry `json:"top"`
}

type topEntry struct {
	Fingerprint string `json:"fingerprint"`
	Refused     int64  `json:"refused"`
	AtLeast     int64  `json:"at_least"`
}

func (h *handler) trial(ctx context.Context, name string) (a trialAnswer, err error) {
	if err := verbs.May(ctx, access.Read, name); err != nil {
		return a, err
	}
	t, r, err := h.Trial(name)
	if err != nil {
		return a, err
	}
	a = trialAnswer{
		Limit: t.Limit, Shadow: t.Shadow, SinceUS: r.Since.UnixMicro(), Decided: r.Decided, LiveRefused: r.LiveRefused,
		CandidateRefused: r.CandidateRefused, BothRefused: r.BothRefused, Undecided: r.Undecided, Top: make([]topEntry, len(r.Top)),
	}
	if t.Candidate != nil {
		a.Candidate = t.Candidate.String()
	}
	for i, e := range r.Top {
		a.Top[i] = topEntry{e.Fingerprint, e.Refused, e.Surely}
	}
	return a, nil
}

// tryOut decides r by next, which is a guard of the check, and has the candidate of its limit decided beside it.
func (h *handler) tryOut(w http.ResponseWriter, r *http.Request, c *check, next http.Handler) {
	key := ration.Global
	if id := c.Key(r); id != "" {
		key = httplimit.KeyOf(id)
	} else if c.NoKey != httplimit.ShareNoKey {
		next.ServeHTTP(w, r) // nothing is counted
		return
	}
	ctx, finish := h.Beside(r.Context(), h.Limits(), c.Limit, key, c.cost(r))
	if finish == nil {
		next.ServeHTTP(w, r)
		return
	}
	seen := &verdictWriter{ResponseWriter: w}
	next.ServeHTTP(seen, r.WithContext(ctx))
	shadowed := w.Header().Get(shadowHeader) != ""
	finish(seen.status == http.StatusOK && !shadowed, seen.status == http.StatusOK || seen.status == c.Refused)
}

// verdictWriter notes the status.
type verdictWriter struct {
	http.ResponseWriter
	status int
}

func (w *verdictWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *verdictWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
