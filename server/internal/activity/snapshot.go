package activity

import (
	"cmp"
	"slices"
	"time"

	"github.com/ration-go/ration"
)

// Bounds of a snapshot.
const (
	maxShown  = 200 // limits
	maxTop    = 20  // keys in each list
	maxRecent = 60  // decisions
	// life is how long a snapshot is shown to further callers, so that many of them cost no more than one.
	life = 250 * time.Millisecond
)

// Snapshot is what was decided up to a moment. It is shared: nobody may change it.
type Snapshot struct {
	AtUS    int64 `json:"at_us"`    // of the server's clock, microseconds since 1970
	SinceUS int64 `json:"since_us"` // when the server began to count
	// Totals are since then, and Minute those of the last 60 whole seconds; of all limits.
	Totals Counts `json:"totals"`
	Minute Counts `json:"minute"`
	// Limits are the configured ones and, under the name "", all others together, by name; the busiest 200.
	Limits  []Limit `json:"limits"`
	LeftOut int64   `json:"limits_left_out"`
	// MostRefused and MostUsed are keys by how many decisions refused and allowed them since TopSinceUS.
	TopSinceUS  int64 `json:"top_since_us"`
	MostRefused []Top `json:"most_refused"`
	MostUsed    []Top `json:"most_used"`
	// Recent are some of the last decisions, the newest first, and RecentLeftOut how many others there were since the start.
	Recent        []Event `json:"recent"`
	RecentLeftOut int64   `json:"recent_left_out"`
}

// Counts are numbers of decisions.
type Counts struct {
	Allowed  int64 `json:"allowed"`
	Refused  int64 `json:"refused"`
	Errors   int64 `json:"errors"`   // nobody could tell
	Degraded int64 `json:"degraded"` // of the allowed and the refused, those made without the store
}

// Limit is what was decided on one limit.
type Limit struct {
	Name   string `json:"name"`  // "": not configured
	Limit  string `json:"limit"` // its text; "" if it has none
	Totals Counts `json:"totals"`
	Minute Counts `json:"minute"`
	// Allowed, Refused and Errors are those of the last 60 whole seconds, the oldest first; empty if there was nothing.
	Allowed []int64 `json:"allowed"`
	Refused []int64 `json:"refused"`
	Errors  []int64 `json:"errors"`
}

// Who is a key as it may be shown.
type Who struct {
	Fingerprint string   `json:"fingerprint"`          // 16 letters and digits
	Shared      bool     `json:"shared,omitempty"`     // the count of everybody
	Key         []string `json:"key,omitempty"`        // its parts, if clear keys are shown
	KeyBase64   []string `json:"key_base64,omitempty"` // in place of key, if a part is no text
	Group       string   `json:"group,omitempty"`
}

// Top is a key under a limit.
type Top struct {
	Who
	Limit string `json:"limit"`
	Count int64  `json:"count"` // never too small
	Over  int64  `json:"over"`  // too large by at most this
}

// Event is one decision.
type Event struct {
	Who
	AtUS         int64  `json:"at_us"`
	Limit        string `json:"limit"`
	Outcome      string `json:"outcome"` // "allowed", "refused" or "error"
	Degraded     bool   `json:"degraded"`
	Never        bool   `json:"never"`
	Cost         int64  `json:"cost"`
	Used         int64  `json:"used"`
	Size         int64  `json:"size"` // of the limit
	RetryAfterMS int64  `json:"retry_after_ms"`
}

// Snapshot is what was decided up to now, or up to a moment ago. texts are those of the configured limits, by name.
func (r *Recorder) Snapshot(texts map[string]string) *Snapshot {
	r.memo.Lock()
	defer r.memo.Unlock()
	now := time.Now()
	if r.memo.last == nil || now.Sub(r.memo.made) >= life {
		r.memo.last, r.memo.made = r.snapshot(now, texts), now
	}
	return r.memo.last
}

func newLimit(name, text string) *Limit {
	return &Limit{Name: name, Limit: text, Allowed: []int64{}, Refused: []int64{}, Errors: []int64{}}
}

// parts are what the shards hold, put together.
type parts struct {
	rows          map[string]*Limit
	refused, used []counted
	recent        []event
	leftOut       int64
}

// counted is an entry of one sketch or of two.
type counted struct {
	id uint64
	entry
	count int64
	turn  int // 0: the one that is counted; 1: the one before
}

func (r *Recorder) snapshot(now time.Time, texts map[string]string) *Snapshot {
	since := now.Sub(r.start)
	all := parts{rows: map[string]*Limit{}}
	for name, text := range texts {
		if (*r.known.Load())[name] {
			all.rows[name] = newLimit(name, text)
		}
	}
	for i := range r.shards {
		r.shards[i].collect(&all, since, texts)
	}
	a := &Snapshot{
		AtUS: now.UnixMicro(), SinceUS: r.start.UnixMicro(), RecentLeftOut: all.leftOut,
		TopSinceUS: r.start.Add(max(0, since.Truncate(turn)-turn)).UnixMicro(),
		Limits:     []Limit{}, MostRefused: r.top(all.refused), MostUsed: r.top(all.used), Recent: r.events(all.recent),
	}
	for _, one := range all.rows {
		a.Totals.add(&one.Totals)
		a.Minute.add(&one.Minute)
		a.Limits = append(a.Limits, *one)
	}
	a.LeftOut = int64(max(0, len(a.Limits)-maxShown))
	if a.LeftOut > 0 {
		slices.SortFunc(a.Limits, func(x, y Limit) int {
			return cmp.Or(cmp.Compare(y.Minute.decided(), x.Minute.decided()), cmp.Compare(y.Totals.decided(), x.Totals.decided()), cmp.Compare(x.Name, y.Name))
		})
		a.Limits = a.Limits[:maxShown]
	}
	slices.SortFunc(a.Limits, func(x, y Limit) int { return cmp.Compare(x.Name, y.Name) })
	return a
}

func (c *Counts) add(o *Counts) {
	c.Allowed, c.Refused, c.Errors, c.Degraded = c.Allowed+o.Allowed, c.Refused+o.Refused, c.Errors+o.Errors, c.Degraded+o.Degraded
}

func (c *Counts) decided() int64 { return c.Allowed + c.Refused + c.Errors }

// collect adds what s holds.
func (s *shard) collect(all *parts, since time.Duration, texts map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := uint32(since / time.Second)
	for name, row := range s.rows {
		one := all.rows[name]
		if one == nil {
			one = newLimit(name, texts[name])
			all.rows[name] = one
		}
		row.addTo(one, now)
	}
	for _, list := range []struct {
		*window
		to *[]counted
	}{{&s.refused, &all.refused}, {&s.used, &all.used}} {
		list.advance(since)
		*list.to = list.collect(*list.to)
	}
	for i := range s.recent.ring {
		if s.recent.ring[i].row != nil {
			all.recent = append(all.recent, s.recent.ring[i])
		}
	}
	all.leftOut += s.recent.leftOut
}

// addTo adds what w counted, and the last 60 seconds before now.
func (w *row) addTo(a *Limit, now uint32) {
	t := &w.total
	a.Totals.add(&Counts{t.how[allowed], t.how[refused], t.how[failed], t.degraded})
	for i := range w.seconds {
		s := &w.seconds[i]
		back := int64(now) - int64(s.since)
		if back < 1 || back > Seconds || s.how == [outcomes]uint32{} {
			continue
		}
		if len(a.Allowed) == 0 {
			a.Allowed, a.Refused, a.Errors = make([]int64, Seconds), make([]int64, Seconds), make([]int64, Seconds)
		}
		c := Counts{int64(s.how[allowed]), int64(s.how[refused]), int64(s.how[failed]), int64(s.degraded)}
		a.Minute.add(&c)
		at := Seconds - back
		a.Allowed[at] += c.Allowed
		a.Refused[at] += c.Refused
		a.Errors[at] += c.Errors
	}
}

// collect appends the entries of both turns to list. What one of them has not, it may have counted and pushed out: at most as
// often as its least.
func (w *window) collect(list []counted) []counted {
	from := len(list)
	both := [2]*sketch{&w.now, &w.before}
	for turn, s := range both {
		for i := range s.filled {
			list = append(list, counted{s.ids[i], s.entries[i], s.counted[i], turn})
		}
	}
	own := list[from:]
	slices.SortFunc(own, func(a, b counted) int { return cmp.Compare(a.id, b.id) })
	kept := own[:0]
	for i := 0; i < len(own); i++ {
		one := own[i]
		if i+1 < len(own) && own[i+1].id == one.id {
			i++
			one.count += own[i].count
			one.over += own[i].over
		} else if least := both[1-one.turn].least(); least > 0 {
			one.count += least
			one.over += least
		}
		kept = append(kept, one)
	}
	return list[:from+len(kept)]
}

// top is the greatest of list.
func (r *Recorder) top(list []counted) []Top {
	slices.SortFunc(list, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.count-b.over, a.count-a.over), cmp.Compare(b.count, a.count), cmp.Compare(a.id, b.id))
	})
	a := []Top{}
	for _, one := range list[:min(len(list), maxTop)] {
		a = append(a, Top{Who: r.who(one.key), Limit: one.row.name, Count: one.count, Over: one.over})
	}
	return a
}

var outcomeNames = [outcomes]string{"allowed", "refused", "error"}

// events is the last of list.
func (r *Recorder) events(list []event) []Event {
	slices.SortFunc(list, func(a, b event) int { return cmp.Compare(b.since, a.since) })
	a := []Event{}
	for _, one := range list[:min(len(list), maxRecent)] {
		a = append(a, Event{
			Who: r.who(one.key), AtUS: r.start.Add(one.since).UnixMicro(), Limit: one.row.name, Outcome: outcomeNames[one.how],
			Degraded: one.d.degraded, Never: one.d.never, Cost: one.cost, Used: one.d.used, Size: one.d.limit,
			RetryAfterMS: int64((one.d.retryAfter + time.Millisecond - 1) / time.Millisecond),
		})
	}
	return a
}

// Find is the key of a fingerprint, if it is still in a list or among the last decisions.
func (r *Recorder) Find(fingerprint string) (key ration.Key, ok bool) {
	if r == nil || len(fingerprint) != fingerprintLen {
		return key, false
	}
	seen := map[ration.Key]bool{}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for _, w := range []*window{&s.refused, &s.used} {
			for _, k := range []*sketch{&w.now, &w.before} {
				for _, e := range k.entries[:k.filled] {
					seen[e.key] = true
				}
			}
		}
		for _, e := range s.recent.ring {
			if e.row != nil {
				seen[e.key] = true
			}
		}
		s.mu.Unlock()
	}
	for key := range seen {
		if r.Fingerprint(key) == fingerprint {
			return key, true
		}
	}
	return key, false
}
