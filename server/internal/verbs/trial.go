package verbs

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/ration-go/ration"
)

// Trial is what is tried out about a named limit. At least one of the two is there.
type Trial struct {
	Limit     string       // its name
	Shadow    bool         // it decides and counts, and refuses nobody
	Candidate ration.Limit // decides beside it, on counts of its own, and refuses nobody; nil: none
}

// CandidateName is the name of the rule under which the candidate of a limit counts.
func CandidateName(limit string) string { return limit + ".candidate" }

// shadowName is the name of the rule that reservations hold in the place of a shadow.
func shadowName(limit string) string { return limit + ".shadow" }

// onTrial is a Rule with a trial. The Limiter knows no such type: it has to be taken out of this before, by untried.
type onTrial struct {
	ration.Rule
	*trial
}

// trial is a Trial made ready.
type trial struct {
	shadow    bool
	candidate ration.Limit // a Rule; nil: none
	report    *report
}

// untried is limit as the Limiter takes it.
func untried(limit ration.Limit) (ration.Limit, *trial) {
	if t, ok := limit.(onTrial); ok {
		return t.Rule, t.trial
	}
	return limit, nil
}

// Charge is one charge of a list.
type Charge struct {
	Key   ration.Key
	Limit ration.Limit // as Service.Limit answers it
	Cost  int64
}

// Decision is one that may be of a limit on trial.
type Decision struct {
	ration.Decision
	Shadow bool // it was allowed because the limit refuses nobody
}

// Outcome is one whose limits may be on trial.
type Outcome struct {
	ration.Outcome
	Shadows []bool // of each charge: it was allowed because its limit refuses nobody
}

// Shadow reports whether some charge was allowed because its limit refuses nobody.
func (o *Outcome) Shadow() bool { return slices.Contains(o.Shadows, true) }

// calm is d as one that refuses nobody.
func calm(d ration.Decision) Decision {
	shadow := !d.Allowed
	if shadow {
		d.Allowed, d.Never, d.RetryAfter = true, false, 0
	}
	return Decision{d, shadow}
}

// split is a list taken apart: what may refuse, and what stands beside it.
type split struct {
	charges []Charge
	live    []ration.Charge
	at      []int // where each of live stands in charges
	beside  []ration.Charge
	of      []besideOf
}

// besideOf says what a charge that stands beside the call is for.
type besideOf struct {
	at     int // in charges
	shadow bool
}

// splitOf takes charges apart. hold: what is held keeps its place, so a shadow leaves something there that never refuses.
func splitOf(charges []Charge, hold bool) split {
	s := split{charges: charges, live: make([]ration.Charge, 0, len(charges)), at: make([]int, 0, len(charges))}
	for i := range charges {
		c := &charges[i]
		limit, t := untried(c.Limit)
		switch {
		case t == nil || !t.shadow:
			s.live, s.at = append(s.live, c.Key.Charge(limit, c.Cost)), append(s.at, i)
		default:
			s.beside, s.of = append(s.beside, c.Key.Charge(limit, c.Cost)), append(s.of, besideOf{i, true})
			if hold {
				s.live, s.at = append(s.live, c.Key.Charge(stands(limit), c.Cost)), append(s.at, i)
			}
		}
		if t != nil && t.candidate != nil {
			s.beside, s.of = append(s.beside, c.Key.Charge(t.candidate, c.Cost)), append(s.of, besideOf{i, false})
		}
	}
	return s
}

// stands is what a reservation holds in the place of a shadow: a count that is over at once and has room for all.
func stands(limit ration.Limit) ration.Limit {
	name := ""
	if rule, ok := limit.(ration.Rule); ok {
		name = shadowName(rule.Name)
	}
	return ration.Rule{Name: name, Limit: ration.FixedWindow{Limit: ration.MaxCount, Window: time.Millisecond}}
}

// decide has call decide what may refuse, and takes the rest beside it.
func (s *Service) decide(ctx context.Context, charges []Charge, hold bool, call func(context.Context, []ration.Charge) (ration.Outcome, error)) (o Outcome, err error) {
	p := splitOf(charges, hold)
	if len(p.beside) == 0 {
		o.Outcome, err = call(ctx, p.live)
		return o, err
	}
	// A list of shadows alone: the first of them is asked about, so that there is a call.
	first := len(p.live) == 0
	if first {
		p.live, p.at = p.beside[:1], []int{p.of[0].at}
		p.beside, p.of = p.beside[1:], p.of[1:]
	}
	var beside *ration.Aside
	if len(p.beside) > 0 {
		if ctx, beside, err = s.Limiter.Aside(ctx, p.beside...); err != nil {
			return o, err
		}
	}
	live, err := call(ctx, p.live)
	if err != nil {
		return o, err
	}
	o.Outcome = live
	o.Each, o.Shadows = make([]ration.Decision, len(charges)), make([]bool, len(charges))
	if o.Index < len(p.at) {
		o.Index = p.at[o.Index]
	}
	for i, d := range live.Each {
		o.Each[p.at[i]] = d
	}
	s.finish(&p, beside, &o, first)
	return o, nil
}

// finish puts the answers of shadows into o, and into the reports what the limits on trial said.
func (s *Service) finish(p *split, beside *ration.Aside, o *Outcome, first bool) {
	said := make([]verdict, len(p.charges))
	for i := range said {
		said[i].live = o.Each[i].Allowed
	}
	if first {
		i := p.at[0]
		d := calm(o.Each[i])
		o.Each[i], o.Shadows[i] = d.Decision, d.Shadow
		o.Decision, said[i].live = d.Decision, !d.Shadow
	}
	var results []ration.AsideResult
	if beside != nil {
		results = beside.Results()
	}
	for j, of := range p.of {
		r := &results[j]
		v := &said[of.at]
		if !of.shadow {
			v.candidate, v.undecided = r.Allowed, v.undecided || r.Err != nil
			continue
		}
		if r.Err != nil { // nobody could tell, and it may refuse nobody
			limit, _ := untried(p.charges[of.at].Limit)
			o.Each[of.at] = ration.Decision{Allowed: true, Degraded: true, Name: limit.(ration.Rule).Name, At: o.At}
			v.undecided = true
			continue
		}
		d := calm(r.Decision)
		o.Each[of.at], o.Shadows[of.at], v.live = d.Decision, d.Shadow, !d.Shadow
	}
	if !first && len(p.live) > 0 && p.charges[o.Index].shadowed() { // of a hold
		o.Decision = o.Each[o.Index]
	}
	for i := range p.charges {
		if _, t := untried(p.charges[i].Limit); t != nil {
			s.note(t, p.charges[i].Key, said[i])
		}
	}
}

func (c *Charge) shadowed() bool {
	_, t := untried(c.Limit)
	return t != nil && t.shadow
}

// verdict is what was said about one charge.
type verdict struct{ live, candidate, undecided bool }

// note counts what was said.
func (s *Service) note(t *trial, key ration.Key, v verdict) {
	v.candidate = v.candidate || t.candidate == nil
	hit := v.live && !v.candidate // who is refused anyway is hit by nothing new
	if t.candidate == nil {
		hit = !v.live
	}
	var f [16]byte
	if hit && !v.undecided {
		f, _ = s.Limiter.Fingerprint(key) // the key was decided about, so it is valid
	}
	t.report.note(v, hit, f)
}

// Report is what a limit on trial would have done, by this process, since it was tried.
type Report struct {
	Since            time.Time
	Decided          int64 // by all that are asked
	LiveRefused      int64 // by the limit itself, also where it refuses nobody
	CandidateRefused int64
	BothRefused      int64
	Undecided        int64 // of these, nothing is in the other numbers
	Top              []TopEntry
}

// TopEntry is one of the keys that would have been hit most often: refused by the candidate and not by the limit or, if there is
// no candidate, by the shadow.
type TopEntry struct {
	Fingerprint string
	Refused     int64 // at most
	Surely      int64 // at least
}

// report is a Report that grows.
type report struct {
	text string // of what is tried

	mu      sync.Mutex
	r       Report
	byPrint map[[16]byte]*tally
}

// tally counts one fingerprint, as Metwally's "space saving" does: who comes in takes over the least count.
type tally struct{ count, over int64 }

// maxTop bounds the fingerprints that are counted, and shownTop those that are shown.
const (
	maxTop   = 256
	shownTop = 20
)

func newReport(text string) *report {
	return &report{text: text, r: Report{Since: time.Now()}, byPrint: map[[16]byte]*tally{}}
}

func (r *report) note(v verdict, hit bool, f [16]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.undecided {
		r.r.Undecided++
		return
	}
	r.r.Decided++
	if !v.live {
		r.r.LiveRefused++
	}
	if !v.candidate {
		r.r.CandidateRefused++
		if !v.live {
			r.r.BothRefused++
		}
	}
	if !hit {
		return
	}
	t := r.byPrint[f]
	if t == nil {
		t = &tally{}
		if len(r.byPrint) >= maxTop {
			least := r.least()
			t.count, t.over = r.byPrint[least].count, r.byPrint[least].count
			delete(r.byPrint, least)
		}
		r.byPrint[f] = t
	}
	t.count++
}

func (r *report) least() (f [16]byte) {
	first := true
	for print, t := range r.byPrint {
		if first || t.count < r.byPrint[f].count {
			f, first = print, false
		}
	}
	return f
}

func (r *report) shown() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	shown := r.r
	for f, t := range r.byPrint {
		shown.Top = append(shown.Top, TopEntry{hex.EncodeToString(f[:]), t.count, t.count - t.over})
	}
	slices.SortFunc(shown.Top, func(a, b TopEntry) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	shown.Top = shown.Top[:min(len(shown.Top), shownTop)]
	return shown
}

// Trial is what is tried out about the limit of a name, and what came of it.
func (s *Service) Trial(name string) (Trial, Report, error) {
	limits := s.Limits()
	t := limits.trials[name]
	switch {
	case limits.Named(name) == nil:
		return Trial{}, Report{}, Problem(CodeUnknownLimit, "no limit of this name is configured; GET /v1/limits lists them")
	case t == nil:
		return Trial{}, Report{}, Problem(CodeNoTrial, "nothing is tried out about this limit: it is no shadow, and has no candidate")
	}
	return limits.trialOf(name), t.report.shown(), nil
}

// Beside starts a decision of somebody else's about a charge of a limit on trial: made under the context that it answers, the
// candidate is taken beside it. finish is to be told whether the limit allowed it; a nil finish: nothing is tried.
func (s *Service) Beside(ctx context.Context, limits *Limits, name string, key ration.Key, cost int64) (_ context.Context, finish func(live, decided bool)) {
	t := limits.trials[name]
	if t == nil {
		return ctx, nil
	}
	var beside *ration.Aside
	if t.candidate != nil {
		under, a, err := s.Limiter.Aside(ctx, key.Charge(t.candidate, cost))
		if err != nil {
			return ctx, nil // the decision itself says what is wrong
		}
		ctx, beside = under, a
	}
	return ctx, func(live, decided bool) {
		v := verdict{live: live, candidate: true, undecided: !decided}
		if beside != nil {
			r := beside.Results()[0]
			v.candidate, v.undecided = r.Allowed, v.undecided || r.Err != nil
		}
		s.note(t, key, v)
	}
}
