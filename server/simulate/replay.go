package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// replay is one run.
type replay struct {
	opts    *Options
	sources sources
	keyings []*keying
	limits  []*limit // in the order of the options
	of      []*keying

	paths   patterns
	methods []string
	path    int // slots; −1: not wanted
	method  int
	cost    int

	now, first        int64
	lines             int64 // that were understood
	leftOut           int64 // by path or method
	behind, mostBack  int64
	size              int64 // of the inputs; 0: not known
	start, saidAt     time.Time
	interrupted, full bool
	key               []byte
	added             int // keys since the last look at the memory
}

func newReplay(o *Options) (*replay, error) {
	r := &replay{opts: o, path: -1, method: -1, cost: -1, methods: o.Methods}
	want := &r.sources.want
	var err error
	if r.paths, err = newPatterns(o.Paths); err != nil {
		return nil, err
	}
	if len(o.Paths) > 0 {
		r.path = want.slot(fieldPath)
	}
	if len(o.Methods) > 0 {
		r.method = want.slot(fieldMethod)
	}
	if o.Cost != "" {
		r.cost = want.slot(o.Cost)
	}
	for _, given := range o.Limits {
		l, err := newLimit(given.Rule, len(o.Suggest) > 0)
		if err != nil {
			return nil, err
		}
		k := r.keying(given.Key)
		k.limits = append(k.limits, l)
		r.limits, r.of = append(r.limits, l), append(r.of, k)
	}
	r.sources.opts = o
	return r, nil
}

func (r *replay) keying(fields []string) *keying {
	for _, k := range r.keyings {
		if slices.Equal(k.fields, fields) {
			return k
		}
	}
	k := &keying{fields: fields, table: newTable(), prefix: prefixes{r.opts.IPv4Prefix, r.opts.IPv6Prefix}}
	for _, field := range fields {
		k.parts = append(k.parts, keyPart{r.sources.want.slot(field), field == fieldAddress})
	}
	r.keyings = append(r.keyings, k)
	return k
}

func (r *replay) close() { r.sources.close() }

const (
	between     = 1 << 14 // requests from one look at the clock to the next
	betweenKeys = 1 << 10 // new keys from one look at the memory to the next
)

func (r *replay) run(ctx context.Context, inputs []Input) error {
	r.start = time.Now()
	r.saidAt = r.start
	r.size = sizeOf(inputs)
	err := r.sources.open(ctx, inputs)
	var src *source
	for n := 1; err == nil; n++ {
		if src, err = r.sources.request(ctx, src); src == nil || err != nil {
			break
		}
		r.decide(src)
		if n%between == 0 {
			err = r.look(ctx)
		}
		if err == nil && r.added >= betweenKeys {
			err = r.fit()
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		if r.lines == 0 {
			return cause
		}
		r.interrupted = true
		return nil
	}
	return err
}

// sizeOf is 0 if one is not known.
func sizeOf(inputs []Input) (n int64) {
	for _, in := range inputs {
		if in.Size == 0 {
			return 0
		}
		n += in.Size
	}
	return n
}

// decide has all limits decide the request that src stands at.
func (r *replay) decide(src *source) {
	rec := &src.rec
	r.lines++
	if rec.at < r.now {
		r.behind++
		r.mostBack = max(r.mostBack, r.now-rec.at)
	} else {
		r.now = rec.at
		if r.first == 0 {
			r.first = rec.at
		}
	}
	if r.path >= 0 && !r.paths.match(pathOf(rec.values[r.path])) || r.method >= 0 && !r.takes(rec.values[r.method]) {
		r.leftOut++
		return
	}
	cost := int64(1)
	if r.cost >= 0 {
		var ok bool
		if cost, ok = parseCost(rec.values[r.cost]); !ok {
			r.lines--
			r.sources.malformed(src, badCost, rec.values[r.cost])
			return
		}
	}
	for _, k := range r.keyings {
		key, ok := k.append(r.key[:0], rec)
		r.key = key
		if !ok {
			k.noKey++
			continue
		}
		n, isNew := k.table.find(key, !r.full)
		if n < 0 {
			k.full++
			continue
		}
		k.requests++
		if isNew {
			r.added++
		}
		for _, l := range k.limits {
			if isNew {
				l.add(n)
			}
			l.decide(n, r.now, cost)
		}
	}
}

// takes reports whether a method, which may have the rest of a request behind it, is one of those to replay.
func (r *replay) takes(method []byte) bool {
	method, _, _ = bytes.Cut(method, space)
	for _, m := range r.methods {
		if string(method) == m {
			return true
		}
	}
	return false
}

// look is what has to be done now and then.
func (r *replay) look(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.fit(); err != nil {
		return err
	}
	if now := time.Now(); r.opts.Progress != nil && now.Sub(r.saidAt) >= time.Second {
		r.saidAt = now
		r.opts.Progress(Progress{Lines: r.lines, Read: r.sources.read(), Bytes: r.size, Elapsed: now.Sub(r.start)})
	}
	return nil
}

func (r *replay) bytes() (n int64) {
	for _, k := range r.keyings {
		n += k.table.bytes()
		for _, l := range k.limits {
			n += l.bytes()
		}
	}
	return n
}

// fit holds memory within its bound: what is over is dropped, then no further keys are followed. Keys that are followed may
// still take more, but not for ever.
func (r *replay) fit() error {
	r.added = 0
	most := r.opts.MaxMemory
	if r.full {
		most += most / 8
	}
	if r.bytes() < most {
		return nil
	}
	for _, k := range r.keyings {
		for _, l := range k.limits {
			l.sweep(k.table.len(), r.now)
		}
	}
	switch {
	case r.bytes() < most-most/8:
	case r.full:
		return fmt.Errorf("the sliding windows of this log need more than %d MiB; allow more memory, try a limit of another kind, or replay fewer paths", most>>20)
	default:
		r.full = true
	}
	return nil
}

// parseCost reads a whole number. None is 1, as in a call without a cost.
func parseCost(b []byte) (n int64, ok bool) {
	if len(b) == 0 {
		return 1, true
	}
	if len(b) > 16 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= maxCost
}

const maxCost = 1<<53 - 1

// patterns say which paths are replayed.
type patterns struct{ in, out []string }

func newPatterns(texts []string) (p patterns, err error) {
	for _, text := range texts {
		out := strings.HasPrefix(text, "!")
		text = strings.TrimPrefix(text, "!")
		switch {
		case text == "":
			return p, errors.New("a pattern of paths is empty; \"*\" is all paths")
		case out:
			p.out = append(p.out, text)
		default:
			p.in = append(p.in, text)
		}
	}
	return p, nil
}

func (p *patterns) match(path []byte) bool {
	for _, one := range p.out {
		if matches(one, path) {
			return false
		}
	}
	for _, one := range p.in {
		if matches(one, path) {
			return true
		}
	}
	return len(p.in) == 0
}

// matches reports whether all of path is like pattern, in which * is any text.
func matches(pattern string, path []byte) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return string(path) == pattern
	}
	if len(path) < len(head) || string(path[:len(head)]) != head {
		return false
	}
	path = path[len(head):]
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return len(path) >= len(part) && string(path[len(path)-len(part):]) == part
		}
		i := bytes.Index(path, []byte(part))
		if i < 0 {
			return false
		}
		path, rest = path[i+len(part):], more
	}
}
