package simulate

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
)

// source is an input being read: rec is the request of the line it stands at.
type source struct {
	index  int // among the inputs
	input  *Input
	lines  *lines
	block  []byte // the block in use
	rest   []byte // of it
	parser parser
	skip   int
	rec    record
	report *InputReport
}

// sources are the inputs of a run. Those that have begun are in order of their next request's time, the others in order of
// their first, so that only inputs that overlap are open at a time.
type sources struct {
	opts    *Options
	want    wanted
	reports []InputReport
	waiting []waiting // the earliest last
	active  []*source // a heap
	bad     malformed
	done    int64 // bytes read of inputs that are at their end
}

// waiting is an input that was looked at, or that has to stay open since it can be read only once.
type waiting struct {
	index int
	input *Input
	first int64
	open  *source
}

// open looks at the first request of each input.
func (s *sources) open(ctx context.Context, inputs []Input) error {
	s.reports = make([]InputReport, len(inputs))
	for i := range inputs {
		in := &inputs[i]
		s.reports[i].Name = in.Name
		bad := s.bad
		src, err := s.start(ctx, i, in)
		if errors.Is(err, errEmpty) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in.Name, err)
		}
		w := waiting{index: i, input: in, first: src.rec.at, open: src}
		if in.Again && len(inputs) > 1 {
			// Opened again when its time has come: a hundred logs of a hundred days need not be open together.
			src.lines.close()
			s.reports[i], s.bad = InputReport{Name: in.Name}, bad
			w.open = nil
		}
		s.waiting = append(s.waiting, w)
	}
	slices.SortStableFunc(s.waiting, func(a, b waiting) int {
		if a.first != b.first {
			if a.first > b.first {
				return -1
			}
			return 1
		}
		return b.index - a.index
	})
	return nil
}

// start opens an input and goes to its first request. errEmpty: it has none.
func (s *sources) start(ctx context.Context, index int, in *Input) (*source, error) {
	r, err := in.Open()
	if err != nil {
		return nil, err
	}
	src := &source{index: index, input: in, lines: newLines(r), report: &s.reports[index]}
	src.rec.values = make([][]byte, len(s.want))
	b, ok := src.lines.next(ctx, nil)
	for ok && len(bytes.TrimSpace(b.data)) == 0 { // a block of empty lines, or none that ended
		src.report.Lines += int64(bytes.Count(b.data, newline))
		b, ok = src.lines.next(ctx, b.data)
	}
	if !ok {
		src.lines.close()
		return nil, src.why(ctx)
	}
	src.block, src.rest = b.data, b.data
	if src.parser, src.report.Format, src.skip, err = parserFor(s.opts.Format, b.data, s.want, s.opts.Fields); err != nil {
		src.lines.close()
		return nil, err
	}
	if !s.next(ctx, src) {
		return nil, src.why(ctx)
	}
	return src, nil
}

var newline = []byte{'\n'}

// why is what ended an input before its first request.
func (src *source) why(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if src.lines.err != nil {
		return src.lines.err
	}
	return errEmpty
}

// next goes to the next line of src that is understood; false: there is none.
func (s *sources) next(ctx context.Context, src *source) bool {
	for {
		for len(src.rest) > 0 {
			line := src.rest
			if i := bytes.IndexByte(line, '\n'); i >= 0 {
				line, src.rest = line[:i], line[i+1:]
			} else {
				src.rest = nil
			}
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			src.report.Lines++
			if len(line) == 0 {
				continue
			}
			if src.skip > 0 {
				src.skip--
				continue
			}
			why := src.parser.parse(line, &src.rec)
			if why == understood {
				return true
			}
			s.malformed(src, why, line)
		}
		b, ok := src.lines.next(ctx, src.block)
		if !ok {
			src.block = nil
			if ctx.Err() == nil && src.lines.err != nil {
				src.report.Broken = src.lines.err.Error()
			}
			s.done += src.lines.read.Load()
			src.lines.close()
			return false
		}
		src.block, src.rest = b.data, b.data
		if b.cut {
			src.report.Lines++
			src.rest = nil
			s.malformed(src, tooLong, b.data)
		}
	}
}

// request goes to the next request of all, in order of time, and answers its source; nil: there is none.
func (s *sources) request(ctx context.Context, last *source) (*source, error) {
	if last != nil {
		if s.next(ctx, last) {
			if len(s.active) > 1 {
				heap.Fix(s, 0)
			}
		} else {
			heap.Pop(s)
		}
	}
	for n := len(s.waiting) - 1; n >= 0 && (len(s.active) == 0 || s.waiting[n].first <= s.active[0].rec.at); n-- {
		w := s.waiting[n]
		s.waiting = s.waiting[:n]
		if w.open == nil {
			var err error
			if w.open, err = s.start(ctx, w.index, w.input); err != nil {
				return nil, fmt.Errorf("%s: %w", w.input.Name, err)
			}
		}
		heap.Push(s, w.open)
	}
	if len(s.active) == 0 {
		return nil, nil
	}
	return s.active[0], nil
}

func (s *sources) close() {
	for _, src := range s.active {
		src.lines.close()
	}
	for _, w := range s.waiting {
		if w.open != nil {
			w.open.lines.close()
		}
	}
}

// read is how many bytes were read.
func (s *sources) read() (n int64) {
	n = s.done
	for _, src := range s.active {
		n += src.lines.read.Load()
	}
	return n
}

// For package heap.

func (s *sources) Len() int { return len(s.active) }
func (s *sources) Less(i, j int) bool {
	a, b := s.active[i], s.active[j]
	return a.rec.at < b.rec.at || a.rec.at == b.rec.at && a.index < b.index
}
func (s *sources) Swap(i, j int) { s.active[i], s.active[j] = s.active[j], s.active[i] }
func (s *sources) Push(x any)    { s.active = append(s.active, x.(*source)) }
func (s *sources) Pop() any {
	n := len(s.active) - 1
	last := s.active[n]
	s.active = s.active[:n]
	return last
}

// malformed are lines that were not understood.
type malformed struct {
	count    int64
	examples []BadLine
}

const (
	maxExamples = 5
	maxExcerpt  = 80
)

func (s *sources) malformed(src *source, why reason, line []byte) {
	s.bad.count++
	src.report.Malformed++
	if len(s.bad.examples) == maxExamples {
		return
	}
	bad := BadLine{Input: src.input.Name, Line: src.report.Lines, Why: why.String()}
	if !s.opts.HideKeys {
		bad.Text = printable(line[:min(len(line), maxExcerpt)])
	}
	s.bad.examples = append(s.bad.examples[:len(s.bad.examples):len(s.bad.examples)], bad)
}
