package verbs

import (
	"fmt"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func fixed(name string, limit int64) ration.Rule {
	return ration.Rule{Name: name, Limit: ration.FixedWindow{Limit: limit, Window: time.Hour}}
}

func onTrials(t *testing.T, rules []ration.Rule, trials ...Trial) *Service {
	t.Helper()
	s := newService(t, memstore.New(nil), nil)
	limits, err := NewLimits(rules, trials...)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLimits(limits)
	return s
}

// charge is one of a named limit.
func charge(t *testing.T, s *Service, key ration.Key, name string) Charge {
	t.Helper()
	limit, err := s.Limit(s.Limits(), key, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Charge{key, limit, 1}
}

func takeOne(t *testing.T, s *Service, c Charge) Decision {
	t.Helper()
	d, err := s.Take(t.Context(), nil, c.Key, c.Limit, c.Cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func reported(t *testing.T, s *Service, name string, decided, live, candidate, both int64) Report {
	t.Helper()
	_, r, err := s.Trial(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := [5]int64{r.Decided, r.LiveRefused, r.CandidateRefused, r.BothRefused, r.Undecided}; got != [5]int64{decided, live, candidate, both, 0} {
		t.Errorf("%s: decided, refused by the limit, its candidate, both, undecided: %v, not %v", name, got, [5]int64{decided, live, candidate, both})
	}
	return r
}

// A candidate has counts of its own, refuses nobody, and its report says whom it would have hit.
func TestCandidate(t *testing.T) {
	t.Parallel()
	for _, lease := range []int64{0, 10} {
		rule := fixed("chat", 5)
		rule.Lease = lease
		s := onTrials(t, []ration.Rule{rule}, Trial{Limit: "chat", Candidate: ration.SlidingWindow{Limit: 3, Window: time.Hour}})
		for i := range 8 {
			if d := takeOne(t, s, charge(t, s, ration.KeyOf("often"), "chat")); d.Allowed != (i < 5) || d.Shadow || d.Name != "chat" || d.Limit != 5 {
				t.Errorf("take %d: %+v", i+1, d)
			}
		}
		takeOne(t, s, charge(t, s, ration.KeyOf("seldom"), "chat"))
		r := reported(t, s, "chat", 9, 3, 5, 3)
		f, err := s.Limiter.Fingerprint(ration.KeyOf("often"))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Top) != 1 || r.Top[0] != (TopEntry{fmt.Sprintf("%x", f), 2, 2}) {
			t.Errorf("would be hit: %+v", r.Top)
		}
	}
}

// A shadow decides and counts, and refuses nobody; the answer says so.
func TestShadow(t *testing.T) {
	t.Parallel()
	s := onTrials(t, []ration.Rule{fixed("chat", 2)}, Trial{Limit: "chat", Shadow: true})
	key := ration.KeyOf("k")
	for i := range 4 {
		c := charge(t, s, key, "chat")
		if p, err := s.Peek(t.Context(), key, c.Limit, 1); err != nil || !p.Allowed || p.Shadow != (i >= 2) {
			t.Errorf("peek %d: %+v, %v", i+1, p, err)
		}
		d := takeOne(t, s, c)
		if !d.Allowed || d.Never || d.RetryAfter != 0 || d.Shadow != (i >= 2) || d.Used != min(int64(i)+1, 2) {
			t.Errorf("take %d: %+v", i+1, d)
		}
	}
	reported(t, s, "chat", 4, 2, 0, 0)
	id := "an id"
	if d, err := s.Take(t.Context(), &id, key, charge(t, s, key, "chat").Limit, 1); err != nil || !d.Allowed || !d.Shadow {
		t.Errorf("with an id: %+v, %v", d, err)
	}
	if err := s.Reset(t.Context(), key, charge(t, s, key, "chat").Limit, "chat"); err != nil {
		t.Error(err)
	}
	if d := takeOne(t, s, charge(t, s, key, "chat")); d.Shadow || d.Used != 1 {
		t.Errorf("after a reset: %+v", d)
	}
	if given, err := s.Refund(t.Context(), key, charge(t, s, key, "chat").Limit, 1, time.Now().UnixMicro()); err != nil || given > 1 {
		t.Errorf("refund: %d, %v", given, err)
	}
}

// In a list, what is tried out changes nothing about all or none, and keeps its place in the answer.
func TestTrialsInLists(t *testing.T) {
	t.Parallel()
	rules := []ration.Rule{fixed("user", 5), fixed("org", 3), fixed("day", 1)}
	s := onTrials(t, rules, Trial{Limit: "day", Shadow: true, Candidate: ration.FixedWindow{Limit: 2, Window: time.Hour}},
		Trial{Limit: "org", Candidate: ration.FixedWindow{Limit: 9, Window: time.Hour}})
	key := ration.KeyOf("k")
	for i := range 5 {
		o, err := s.TakeAll(t.Context(), nil, []Charge{charge(t, s, key, "day"), charge(t, s, key, "user"), charge(t, s, key, "org")})
		if err != nil {
			t.Fatal(err)
		}
		if o.Allowed != (i < 3) || len(o.Each) != 3 || o.Each[0].Name != "day" || o.Each[1].Name != "user" || o.Each[2].Name != "org" {
			t.Errorf("list %d: %+v", i+1, o)
		}
		if !o.Allowed && (o.Name != "org" || o.Index != 2) {
			t.Errorf("list %d: refused by %s at %d", i+1, o.Name, o.Index)
		}
		if !o.Each[0].Allowed || o.Shadows[0] != (i >= 1) || o.Shadows[1] || o.Shadows[2] {
			t.Errorf("list %d: %v, %+v", i+1, o.Shadows, o.Each[0])
		}
		if o.Each[1].Used != min(int64(i)+1, 3) {
			t.Errorf("list %d: the user used %d; what is refused charges none", i+1, o.Each[1].Used)
		}
	}
	reported(t, s, "day", 5, 4, 3, 3)
	reported(t, s, "org", 5, 2, 0, 0)
	o, err := s.TakeAll(t.Context(), nil, []Charge{charge(t, s, ration.KeyOf("a"), "day"), charge(t, s, ration.KeyOf("a"), "day")})
	if err != nil || !o.Allowed || o.Shadow() != true || len(o.Each) != 2 {
		t.Errorf("a list of shadows alone: %+v, %v", o, err)
	}
}

// A reservation has an amount for each charge, also for those of shadows, which refuse nothing.
func TestTrialsInReservations(t *testing.T) {
	t.Parallel()
	s := onTrials(t, []ration.Rule{fixed("user", 10), fixed("day", 1)}, Trial{Limit: "day", Shadow: true})
	key := ration.KeyOf("k")
	for i := range 3 {
		r, o, err := s.Reserve(t.Context(), nil, nil, false, []Charge{charge(t, s, key, "day"), charge(t, s, key, "user")})
		if err != nil || !Held(r) || !o.Allowed || o.Shadow() != (i > 0) || o.Each[0].Name != "day" || o.Each[1].Name != "user" {
			t.Fatalf("reservation %d: %+v, %v", i+1, o, err)
		}
		if err := s.Settle(t.Context(), r.ID(), []int64{7, 2}); err != nil {
			t.Errorf("settle %d: %v", i+1, err)
		}
	}
	if d := takeOne(t, s, Charge{key, s.Limits().Named("user"), 0}); d.Used != 6 {
		t.Errorf("the user used %d", d.Used)
	}
	if d := takeOne(t, s, Charge{key, s.Limits().Named("day"), 0}); d.Used != 1 {
		t.Errorf("%d of the day are used", d.Used)
	}
	r, o, err := s.Reserve(t.Context(), nil, nil, false, []Charge{charge(t, s, key, "day")})
	if err != nil || !Held(r) || !o.Allowed || !o.Shadow() || o.Name != "day" || o.Limit != 1 {
		t.Errorf("a reservation of a shadow alone: %+v, %v", o, err)
	}
	if err := s.Cancel(t.Context(), r.ID()); err != nil {
		t.Error(err)
	}
}

// Trials and overrides of one limit go together, and reports outlive a reload that leaves a trial as it is.
func TestTrialsStay(t *testing.T) {
	t.Parallel()
	s := onTrials(t, []ration.Rule{fixed("chat", 2)}, Trial{Limit: "chat", Shadow: true})
	open(t, s)
	key := ration.KeyOf("k")
	set(t, s, key, "chat", Blocked, 0)
	if d := takeOne(t, s, charge(t, s, key, "chat")); !d.Allowed || !d.Shadow || d.Limit != 0 {
		t.Errorf("blocked, and a shadow: %+v", d)
	}
	again := func(trial Trial) {
		t.Helper()
		next, err := NewLimits([]ration.Rule{fixed("chat", 9)}, trial)
		if err != nil {
			t.Fatal(err)
		}
		s.SetLimits(next)
	}
	again(Trial{Limit: "chat", Shadow: true})
	reported(t, s, "chat", 1, 1, 0, 0)
	again(Trial{Limit: "chat", Candidate: ration.FixedWindow{Limit: 1, Window: time.Hour}})
	reported(t, s, "chat", 0, 0, 0, 0)
	again(Trial{Limit: "chat", Candidate: ration.FixedWindow{Limit: 1, Window: time.Minute}})
	reported(t, s, "chat", 0, 0, 0, 0)
}

func TestTrialFaults(t *testing.T) {
	t.Parallel()
	slots := ration.Rule{Name: "slots", Limit: ration.Concurrency{Limit: 1, Lease: time.Second}}
	for name, trial := range map[string]Trial{
		"of no limit":      {Limit: "none", Shadow: true},
		"with a name used": {Limit: "day", Shadow: true},
		"of slots":         {Limit: "slots", Shadow: true},
		"by slots":         {Limit: "chat", Candidate: slots.Limit},
		"invalid":          {Limit: "chat", Candidate: ration.FixedWindow{Limit: -1, Window: time.Second}},
		"by a name used":   {Limit: "chat", Candidate: ration.FixedWindow{Limit: 1, Window: time.Second}},
	} {
		if _, err := NewLimits([]ration.Rule{fixed("chat", 2), slots, fixed("chat.candidate", 3), fixed("day", 2), fixed("day.shadow", 2)}, trial); err == nil {
			t.Errorf("a trial %s is accepted", name)
		}
	}
	s := onTrials(t, []ration.Rule{fixed("chat", 2)})
	for _, name := range []string{"chat", "none"} {
		if _, _, err := s.Trial(name); err == nil {
			t.Errorf("there is a report about %s", name)
		}
	}
}

// The top list is bounded, finds who is hit most, and says between which numbers the truth is.
func TestTopIsBounded(t *testing.T) {
	t.Parallel()
	r := newReport("")
	for i := range 20_000 {
		f := [16]byte{1, byte(i), byte(i >> 8)}
		if i%4 == 0 {
			f = [16]byte{0, byte(i % 3)}
		}
		r.note(verdict{live: true}, true, f)
	}
	if len(r.byPrint) != maxTop {
		t.Errorf("%d are counted", len(r.byPrint))
	}
	shown := r.shown()
	if len(shown.Top) != shownTop || shown.Decided != 20_000 || shown.CandidateRefused != 20_000 {
		t.Errorf("%+v", shown)
	}
	for _, e := range shown.Top[:3] {
		if e.Fingerprint[:2] != "00" || e.Surely > 1667 || e.Refused < 1666 {
			t.Errorf("%+v; each of three was hit 1667 times or once less", e)
		}
	}
}
