package simulate

import (
	"slices"
	"strconv"
	"time"
)

// A Report says what limits would have done to a log. Times are in microseconds since the Unix epoch, 0 where there is none;
// shares can be computed from the counts.
type Report struct {
	Complete bool          `json:"complete"` // false: it was interrupted
	Inputs   []InputReport `json:"inputs"`
	Requests int64         `json:"requests"` // lines that were understood
	LeftOut  int64         `json:"left_out"` // of them, by path or method
	FromUS   int64         `json:"from_us"`  // the first and the last time
	ToUS     int64         `json:"to_us"`

	Malformed int64     `json:"malformed"` // lines that were not understood
	BadLines  []BadLine `json:"bad_lines"` // some of them

	Behind     int64         `json:"behind"` // requests that were earlier than one before
	MostBackUS int64         `json:"most_back_us"`
	Limits     []LimitReport `json:"limits"`
	ElapsedMS  int64         `json:"elapsed_ms"`
}

// InputReport is about one log.
type InputReport struct {
	Name      string `json:"name"`
	Format    Format `json:"format"`
	Lines     int64  `json:"lines"`
	Malformed int64  `json:"malformed"`
	Broken    string `json:"broken,omitempty"` // why it could not be read to its end
}

// BadLine is a line that was not understood.
type BadLine struct {
	Input string `json:"input"`
	Line  int64  `json:"line"` // from 1
	Why   string `json:"why"`
	Text  string `json:"text,omitempty"` // its beginning
}

// LimitReport is about one limit.
type LimitReport struct {
	Name  string `json:"name"`
	Limit string `json:"limit"`
	Size  int64  `json:"size"` // its burst or limit
	Key   string `json:"key"`  // what a key is made of, in words

	Requests    int64 `json:"requests"` // that were decided
	Refused     int64 `json:"refused"`
	Keys        int64 `json:"keys"`
	RefusedKeys int64 `json:"refused_keys"` // keys that were refused at least once
	Never       int64 `json:"never"`        // refusals of a cost above the limit's size
	NoKey       int64 `json:"no_key"`       // requests without a key: not decided
	NotFollowed int64 `json:"not_followed"` // requests of keys that there was no memory for: not decided

	FirstRefusedUS int64 `json:"first_refused_us"`
	LastRefusedUS  int64 `json:"last_refused_us"`
	LongestWaitUS  int64 `json:"longest_wait_us"` // the longest retry time of a refusal

	Top         []KeyReport  `json:"top"` // the keys that were refused most, most first
	Suggestions []Suggestion `json:"suggestions,omitempty"`
	Timeline    Timeline     `json:"timeline"`
	Needs       []Need       `json:"needs,omitempty"`
}

// KeyReport is about one key that was refused.
type KeyReport struct {
	Key            string `json:"key"`
	Requests       int64  `json:"requests"`
	Refused        int64  `json:"refused"`
	FirstRefusedUS int64  `json:"first_refused_us"`
	LastRefusedUS  int64  `json:"last_refused_us"`
	LongestWaitUS  int64  `json:"longest_wait_us"`
}

// Timeline is decisions over time, in bins of one width.
type Timeline struct {
	StartUS int64   `json:"start_us"`
	WidthUS int64   `json:"width_us"`
	Allowed []int64 `json:"allowed"`
	Refused []int64 `json:"refused"`
}

// Need says that a size refuses none of so many keys, and that no smaller one does. Together they are the curve of what keys
// need, in at most 100 points.
type Need struct {
	Size int64 `json:"size"`
	Keys int64 `json:"keys"` // that need at most Size
}

func (r *replay) report() *Report {
	s := &r.sources
	out := &Report{
		Complete: !r.interrupted, Inputs: s.reports, Requests: r.lines, LeftOut: r.leftOut, FromUS: r.first, ToUS: r.now,
		Malformed: s.bad.count, BadLines: s.bad.examples, Behind: r.behind, MostBackUS: r.mostBack,
		ElapsedMS: time.Since(r.start).Milliseconds(),
	}
	if out.BadLines == nil {
		out.BadLines = []BadLine{}
	}
	for i, l := range r.limits {
		out.Limits = append(out.Limits, r.limitReport(l, r.of[i]))
	}
	return out
}

func (r *replay) limitReport(l *limit, k *keying) LimitReport {
	out := LimitReport{
		Name: l.rule.Name, Limit: l.rule.String(), Size: l.lim.Size, Key: k.said(),
		Requests: l.requests, Refused: l.refusedCount, Keys: int64(k.table.len()), RefusedKeys: int64(len(l.refused)), Never: l.never,
		NoKey: k.noKey, NotFollowed: k.full,
		FirstRefusedUS: l.first, LastRefusedUS: l.last, LongestWaitUS: l.longest,
		Top: []KeyReport{}, Timeline: l.line.report(),
	}
	for i, one := range l.worst(r.opts.Top) {
		name := "key " + strconv.Itoa(i+1)
		if !r.opts.HideKeys {
			name = k.text(k.table.key(one.key))
		}
		out.Top = append(out.Top, KeyReport{
			Key: name, Requests: l.row(one.key).requests, Refused: one.count,
			FirstRefusedUS: one.first, LastRefusedUS: one.last, LongestWaitUS: one.longest,
		})
	}
	if l.need.on {
		sorted := make([]int64, k.table.len())
		for n := range sorted {
			sorted[n] = l.row(n).peak
		}
		slices.Sort(sorted)
		out.Suggestions = l.suggest(r.opts.Suggest, sorted, r.cost < 0)
		out.Needs = curve(sorted)
	}
	return out
}

func (t *timeline) report() Timeline {
	out := Timeline{StartUS: t.start, WidthUS: t.width, Allowed: make([]int64, t.used), Refused: make([]int64, t.used)}
	for i, b := range t.bins[:t.used] {
		out.Allowed[i], out.Refused[i] = b.allowed, b.refused
	}
	return out
}

// curve is points of a curve through sorted needs: the end of each step, or of some of them.
func curve(sorted []int64) (points []Need) {
	const most = 100
	for i, size := range sorted {
		if size == beyond {
			break
		}
		if i+1 < len(sorted) && sorted[i+1] == size {
			continue
		}
		points = append(points, Need{size, int64(i) + 1})
	}
	if len(points) <= most {
		return points
	}
	some := make([]Need, 0, most)
	for i := range most {
		some = append(some, points[i*(len(points)-1)/(most-1)])
	}
	return some
}
