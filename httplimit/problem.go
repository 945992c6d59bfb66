package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/ration-go/ration"
)

// Problem types of the IANA registry, as the RateLimit drafts define them.
const (
	problemQuota   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemReduced = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// problem is a body of application/problem+json (RFC 9457).
type problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

// refuse is the default of Options.Refuse.
func refuse(w http.ResponseWriter, _ *http.Request, o ration.Outcome) {
	p := problem{Type: problemQuota, Title: "Quota exceeded", Status: http.StatusTooManyRequests, Violated: []string{o.Name}}
	for i := range o.Each {
		if d := &o.Each[i]; !d.Allowed && i != o.Index {
			p.Violated = append(p.Violated, d.Name)
		}
	}
	wait := strconv.FormatInt(seconds(o.RetryAfter), 10) + " s"
	switch {
	case o.Degraded:
		p.Type, p.Title, p.Status = problemReduced, "Temporarily reduced capacity", http.StatusServiceUnavailable
		p.Detail = "The limit " + o.Name + " is smaller than usual for now. Try again in " + wait + "."
	case o.Never:
		p.Detail = "The limit " + o.Name + " is smaller than what this request costs, so waiting does not help."
	default:
		p.Detail = "The limit " + o.Name + " has no room for this request. Try again in " + wait + "."
	}
	p.send(w)
}

// unavailable is the default of Options.Error.
func unavailable(w http.ResponseWriter, _ *http.Request, err error) {
	p := problem{Type: problemReduced, Title: "Temporarily reduced capacity", Status: http.StatusServiceUnavailable,
		Detail: "It cannot be told now whether this request is within its limits."}
	switch {
	case errors.Is(err, ErrNoKey):
		p.Type, p.Title = "", "Service unavailable"
		p.Detail = "This request does not say whose it is, so it cannot be counted."
	case input(err):
		p.Type, p.Title = "", "Service unavailable"
		p.Detail = "The limits of this request cannot be applied."
	}
	p.send(w)
}

func (p *problem) send(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and a number
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone; nobody else can be told
}
